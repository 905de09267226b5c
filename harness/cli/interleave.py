"""`duologue measure A B --interleave`: two runs in alternation under one folder, and their comparison."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness import exits
from harness.cli.asking import ask_of, resumed, secrets_of
from harness.cli.resuming import refuse_changes
from harness.cli.several_options import FOR_B, MAY_COME_WITH_RESUME, refuse_others
from sessions.secrets import Secrets

if TYPE_CHECKING:
    from harness.several.interleave import Pair
    from harness.several.order import Name

_FITTING = frozenset(
    {
        *("interleave", "allowed", "seed", "out", "resume", "as_json", "no_calibration"),
        *("scripts", "audio", "repeat", "warmup", "turn_detection", "vad", "speech_end", "transcribe"),
        *("limit_lateness", "limit_reply", "limit_idle", "limit_connect", "limit_bytes"),
        *(name for own in FOR_B for name in (own, f"b_{own}")),
    }
)


def measure_interleaved(
    secrets: Secrets, targets: Sequence[str], options: dict[str, Any], resume: Path | None, as_json: bool
) -> int:
    """Perform both, print the comparison. The command's exit code."""
    from harness.runs.places import INTERLEAVE
    from harness.runs.run import Access
    from harness.several.begin import taken_back
    from harness.several.interleave import perform_pair

    if resume is not None:
        refuse_changes(MAY_COME_WITH_RESUME | {"headers", "api_key_env", "no_calibration"})
    refuse_others(_FITTING, "--interleave, which holds one dialogue at a time")
    of_b = {own: options[f"b_{own}"] for own in FOR_B if options[f"b_{own}"] not in (None, ())}
    both: dict[Name, dict[str, Any]] = {"a": options, "b": options | of_b}
    pair, addresses, reached = (
        _begin(secrets, targets, both) if resume is None else _resume(secrets, targets, both, resume)
    )
    access = {name: Access(addresses[name], *reached[name], secrets) for name in both}
    undo = taken_back(pair.path, INTERLEAVE, (pair.a, pair.b)) if resume is None else contextlib.nullcontext()
    with undo, pair.a.locked(), pair.b.locked():
        interrupted = perform_pair(pair, access, quiet=as_json, check_clock=not options["no_calibration"])
        return _tell(pair, interrupted, as_json)


_Begun = tuple["Pair", "dict[Name, str]", "dict[Name, tuple[dict[str, str], str]]"]
"""The runs, the full address of each target, and the headers and the key of each."""


def _begin(secrets: Secrets, targets: Sequence[str], both: dict[Name, dict[str, Any]]) -> _Begun:
    from harness.runs.places import default_place
    from harness.several.interleave import begin_pair

    addresses = dict(zip(both, targets, strict=True))
    reached = {name: secrets_of(secrets, own["headers"], own["api_key_env"]) for name, own in both.items()}
    asks = {name: ask_of(addresses[name], reached[name][0], own) for name, own in both.items()}
    options = both["a"]
    pair = begin_pair(
        (asks["a"], asks["b"]),
        secrets,
        options["out"] or default_place("interleave"),
        seed=1 if options["seed"] is None else options["seed"],
        allowed=options["allowed"],
    )
    return pair, addresses, reached


def _resume(secrets: Secrets, targets: Sequence[str], both: dict[Name, dict[str, Any]], place: Path) -> _Begun:
    from harness.several.interleave import open_pair

    pair = open_pair(place)
    addresses, reached = {}, {}
    for name, target in zip(both, targets or (None, None), strict=True):
        own, run = both[name], pair.runs[name]
        key_env = own["api_key_env"] or run.plan.api_key_env
        reached[name] = secrets_of(secrets, own["headers"], key_env)
        addresses[name] = resumed(secrets, run.path, target)[1]
    return pair, addresses, reached


def _tell(pair: Pair, interrupted: bool, as_json: bool) -> int:

    from harness.compare.screen import print_comparison
    from harness.report.table import Screen
    from harness.report.wording import plural
    from harness.several.finish import PAGE, finish_pair
    from sessions.runs import encoded

    go_on = f"Go on with: duologue measure --resume {pair.path}"
    if interrupted and not any(run.journal() for run in (pair.a, pair.b)):
        click.echo(f"interrupted before any dialogue was done. {go_on}", err=True)
        return exits.INTERRUPTED
    made = finish_pair(pair)
    if made.compared is None:
        click.echo("nothing to compare yet: no dialogue that counts was performed by both.", err=True)
    elif as_json:
        click.echo(encoded(made.compared).decode())
    else:
        print_comparison(made.compared, Screen())
    if interrupted:
        click.echo(f"interrupted, {plural(len(pair.left()), 'dialogue')} left. {go_on}", err=True)
    for name, finished in made.finished.items():
        click.echo(f"report of {name.upper()}: {finished.report_path}", err=as_json)
    if made.compared is not None:
        click.echo(f"comparison: {pair.path / PAGE}", err=as_json)
    if interrupted:
        return exits.INTERRUPTED
    measured = all(finished.summary.attempts.completed for finished in made.finished.values())
    return 0 if measured else exits.NOTHING_MEASURED
