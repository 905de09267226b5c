"""The options of `duologue measure` that say who performs a run: processes of this host, or several hosts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import click

from harness.cli.adding import Command, with_options
from sessions.errors import SetupError

if TYPE_CHECKING:
    from sessions.runs import Load, Share

_OPTIONS = (
    click.option(
        "--workers",
        type=click.IntRange(1, 256),
        default=1,
        show_default=True,
        metavar="W",
        help="Processes of this host that share the load.",
    ),
    click.option("--shard", metavar="i/n", help="Perform the i-th of n parts of the plan; see duologue merge."),
)


def sharing_options(command: Command) -> Command:
    """Adds them to a command."""
    return with_options(_OPTIONS, command)


def shard_of(text: str | None) -> Share:
    """The share of the plan that --shard names. Raises `SetupError`."""
    from sessions.runs import Share

    if text is None:
        return Share()
    found = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text.strip())
    index, of = (int(found[1]), int(found[2])) if found else (0, 0)
    if not 1 <= index <= of:
        raise SetupError(f"--shard {text}: not a part of a whole", "For example --shard 1/2 here, --shard 2/2 there")
    return Share(index - 1, of)


def check_sharing(shard: Share, workers: int, load: Load, dialogues: int) -> None:
    """Raise `SetupError` where a worker would have nothing to do. dialogues: of the plan; 0 where the time decides."""
    at_once = load.max_sessions if load.rate_per_s else load.sessions
    for count, what, mend in (
        (at_once, "session", "--max-sessions" if load.rate_per_s else "--sessions"),
        (dialogues, "dialogue", "--repeat"),
    ):
        if count and workers * shard.of > count:
            who = f"{workers} workers" if shard.of == 1 else f"{shard.of} shards of {workers} workers each"
            if workers == 1:
                who = f"{shard.of} shards"
            raise SetupError(
                f"{who} cannot share {count} {what}{'' if count == 1 else 's'}", f"Raise {mend}, or divide by less"
            )
