"""A replay from beginning to end: performed as any run is, then told beside the run that it repeats."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

import click

from harness import exits
from harness.replay.beside import Beside, beside, counted, keep, print_beside, recorded_place
from harness.report.table import Screen
from harness.results.finish import finish_run
from harness.runs.measuring import perform, tell_run
from harness.runs.run import Access
from sessions.runs import RunFolder, encoded


def replay_run(
    old: RunFolder,
    ids: Sequence[str],
    run: RunFolder,
    access: Access,
    how: str,
    *,
    named: str,
    as_json: bool = False,
    check_clock: bool = True,
) -> int:
    """Perform `run`, whose dialogues are those of `old` by `ids`, in that order; tell both. The command's exit code.

    how: "performed" or "scripted" · named: what the recorded run, or its one dialogue, is called.
    """
    go_on = f"Go on with: duologue measure --resume {run.path}"
    with run.locked():
        interrupted = perform(run, access, quiet=as_json and not sys.stderr.isatty(), check_clock=check_clock)
        if interrupted and not run.journal():
            click.echo(f"interrupted before any dialogue was done. {go_on}", err=True)
            return exits.INTERRUPTED
        if as_json:
            finish_run(run)
            code = exits.INTERRUPTED if interrupted else 0
        else:
            code = tell_run(run, go_on, interrupted=interrupted)
        compared = beside(old, run, list(zip(ids, counted(run), strict=False)), how, named)
        place = keep(run, compared)
    if as_json:
        click.echo(encoded(compared).decode())
        code = code or _code(compared)
    else:
        print_beside(compared, Screen())
    click.echo(f"side by side: {place}", err=as_json)
    return code


def _code(compared: Beside) -> int:
    completed = any(row.b is not None and row.b.turn_class == "completed" for row in compared.rows)
    return 0 if completed else exits.NOTHING_MEASURED


def tell_beside(run: RunFolder, recorded: Path, *, quiet: bool) -> None:
    """A run that was just measured beside a recorded one (or one dialogue of it, or several in turn), turn by turn.

    quiet: nothing goes to standard output.
    """
    old, ids = recorded_place(recorded)
    with run.locked():
        pairs = [(ids[number % len(ids)], one) for number, one in enumerate(counted(run))]
        compared = beside(old, run, pairs, "measured", str(recorded))
        place = keep(run, compared)
    if not quiet:
        print_beside(compared, Screen())
    click.echo(f"side by side: {place}", err=quiet)
