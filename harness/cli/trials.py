"""`duologue measure TARGET --trials K`: K runs of one plan under one folder, and how far they lie apart."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness import exits

if TYPE_CHECKING:
    from harness.runs.planning import Ask
    from harness.runs.run import Access
    from sessions.runs import RunFolder


def measure_trials(
    ask: Ask | None, access: Access, place: Path | None, trials: int, *, as_json: bool, check_clock: bool
) -> int:
    """Perform all trials, print how far they lie apart. The command's exit code.

    ask: None to go on with those in `place`, else `trials` of it are begun there.
    """
    from harness.runs.places import TRIALS, default_place
    from harness.several.begin import taken_back
    from harness.several.trials import begin_trials, open_trials

    place = place or default_place("trials")
    if ask is None:
        return _measure(place, open_trials(place), access, as_json=as_json, check_clock=check_clock)
    runs = begin_trials(ask, access.secrets, place, trials)
    with taken_back(place, TRIALS, runs):
        return _measure(place, runs, access, as_json=as_json, check_clock=check_clock)


def _measure(place: Path, runs: Sequence[RunFolder], access: Access, *, as_json: bool, check_clock: bool) -> int:
    from harness.several.trials import perform_trials

    def begins(number: int) -> None:
        if not as_json:
            click.echo(f"trial {number} of {len(runs)}:", err=True)

    with contextlib.ExitStack() as held:
        for run in runs:
            held.enter_context(run.locked())
        interrupted = perform_trials(runs, access, begins, quiet=as_json, check_clock=check_clock)
        return _tell(place, runs, interrupted, as_json)


def _tell(place: Path, runs: Sequence[RunFolder], interrupted: bool, as_json: bool) -> int:

    from harness.report.table import Screen
    from harness.report.wording import plural
    from harness.runs.remaining import remaining
    from harness.several.screen import print_trials
    from harness.several.trials import finish_trials
    from sessions.runs import encoded

    go_on = f"Go on with: duologue measure --resume {place}"
    if interrupted and not any(run.journal() for run in runs):
        click.echo(f"interrupted before any dialogue was done. {go_on}", err=True)
        return exits.INTERRUPTED
    trials, finished = finish_trials(place, runs)
    if as_json:
        click.echo(encoded(trials).decode())
    else:
        print_trials(trials, Screen())
    if interrupted:
        left = sum(1 for run in runs if remaining(run))
        click.echo(f"interrupted, {plural(left, 'trial')} not over. {go_on}", err=True)
    elif lost := sum(trial.lost for trial in trials.trials):
        click.echo(f"{plural(lost, 'dialogue')} lost. {go_on}", err=True)
    for made in finished:
        click.echo(f"report: {made.report_path}", err=as_json)
    if interrupted:
        return exits.INTERRUPTED
    return 0 if all(made.summary.attempts.completed for made in finished) else exits.NOTHING_MEASURED
