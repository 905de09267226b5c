"""Making the folders of several runs, and taking them back where nothing came about."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import click

from clients.transports.websocket import address_of
from harness.runs.floor import timing_floor
from harness.runs.loop import run_timed
from harness.runs.places import must_be_free
from harness.runs.planning import Ask, make_plan, store_clips
from sessions.clock import MonotonicClock, TimerWheel
from sessions.errors import DuologueError
from sessions.runs import Plan, RunFolder
from sessions.secrets import Secrets


def begin_runs(
    asks: Sequence[Ask],
    secrets: Secrets,
    place: Path,
    names: Sequence[str],
    check: Callable[[Sequence[Plan]], None] = lambda plans: None,
) -> list[RunFolder]:
    """Make a run folder for each of `asks` in `place`, under `names`. Nothing is made where `check` refuses the plans.

    Raises `SetupError` for a place that holds something already, and for what cannot be planned.
    """
    for ask in asks:
        address_of(ask.target)
    must_be_free(place, len(asks))
    floor = run_timed(timing_floor(TimerWheel(MonotonicClock())))
    plans = [make_plan(ask, secrets, floor) for ask in asks]
    check(plans)
    runs = []
    for name, plan, ask in zip(names, plans, asks, strict=True):
        run = RunFolder.create(place / name, plan)
        store_clips(run, ask.scripts)
        runs.append(run)
    return runs


@contextlib.contextmanager
def taken_back(place: Path, file: str, runs: Sequence[RunFolder]) -> Iterator[None]:
    """Where an error comes before any dialogue is done, the folders go: the next try may have the same --out.

    Else they stay, and the user is told how to go on.
    """
    try:
        yield
    except DuologueError:
        if any(run.journal() for run in runs):
            click.echo(f"what was done is kept. Go on with: duologue measure --resume {place}", err=True)
            raise
        for run in runs:
            run.discard()
        (place / file).unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            place.rmdir()
        raise
