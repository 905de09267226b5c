"""The options of `duologue measure` that make several runs: two targets in alternation, or trials of one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any, Literal

import click
from click.core import ParameterSource

from harness.cli.adding import Command, with_options
from sessions.errors import SetupError

FOR_B = ("protocol", "voice", "headers", "api_key_env")
"""What B may have for itself, as `b_…`."""
MAY_COME_WITH_RESUME = frozenset({"interleave", "b_headers", "b_api_key_env"})
_OF_INTERLEAVE = {f"b_{name}" for name in FOR_B} | {"allowed"}
_OPTIONS = (
    click.option(
        "--interleave",
        is_flag=True,
        help="Measure two targets, A and B, in alternation (order by --seed); compare them.",
    ),
    click.option("--b-protocol", metavar="NAME", help="What B speaks, in place of --protocol."),
    click.option("--b-voice", metavar="NAME", help="B's voice, in place of --voice."),
    click.option("--b-header", "b_headers", multiple=True, metavar="'NAME: VALUE'", help="In place of --header for B."),
    click.option("--b-api-key-env", metavar="NAME", help="In place of --api-key-env for B; '' for no key."),
    click.option(
        "--allow", "allowed", multiple=True, metavar="FIELD", help="A and B may differ in FIELD; each row gets a mark."
    ),
    click.option(
        "--trials", type=click.IntRange(2, 100), metavar="K", help="Measure K times; tell how far the trials lie apart."
    ),
)


def several_options(command: Command) -> Command:
    """Adds them to a command."""
    return with_options(_OPTIONS, command)


def kind_of(
    targets: Sequence[str], options: dict[str, Any], resume: Path | None
) -> Literal["single", "interleave", "trials"]:
    """What is meant, by the options or by the folder that is resumed. Raises `SetupError` for what goes not along."""
    interleaved, trials = options["interleave"], options["trials"] is not None
    if resume is not None:
        if interleaved and not (resume / "interleave.json").exists():
            raise SetupError(f"{resume} was not measured with --interleave", "Leave --interleave out")
        interleaved, trials = (resume / "interleave.json").exists(), (resume / "trials.json").exists()
    if interleaved:
        if len(targets) != 2 and (resume is None or targets):
            raise SetupError(
                f"--interleave needs two targets, and there {'is one' if len(targets) == 1 else f'are {len(targets)}'}",
                "Give the addresses of A and B; one twice compares a server with itself",
            )
        return "interleave"
    for name in sorted(given(_OF_INTERLEAVE)):
        raise SetupError(f"{name} goes with --interleave", "Give two targets and --interleave, or leave it out")
    if len(targets) > 1:
        raise SetupError(f"{len(targets)} targets", "Give one, or two with --interleave")
    if trials and given({"shard"}):
        raise SetupError("--shard does not go with --trials", "Repeat the whole measurement of all shards instead")
    return "trials" if trials else "single"


def given(names: Collection[str]) -> set[str]:
    """Those of the command's parameters that the user gave, as options are written."""
    context = click.get_current_context()
    return {
        parameter.opts[0]
        for parameter in context.command.params
        if parameter.name in names and context.get_parameter_source(parameter.name) is ParameterSource.COMMANDLINE
    }


def refuse_others(fitting: Collection[str], why: str) -> None:
    """Raise `SetupError` for an option that was given and is not among `fitting`. why: ends the message."""
    context = click.get_current_context()
    options = {parameter.name or "" for parameter in context.command.params if isinstance(parameter, click.Option)}
    for option in sorted(given(options - set(fitting))):
        raise SetupError(f"{option} does not go with {why}", f"Leave {option} out")
