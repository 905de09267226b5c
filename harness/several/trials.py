"""One measurement, made again and again: a run for each trial, and how far the trials lie apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from harness.compare.compare import usual_metrics
from harness.compare.side import Side, side_of, values_of
from harness.results.finish import FinishedRun, finish_run
from harness.runs.measuring import perform
from harness.runs.places import TRIALS
from harness.runs.planning import Ask
from harness.runs.remaining import remaining
from harness.runs.run import Access
from harness.several.begin import begin_runs
from metrics.table import metric
from metrics.trials import Spoken, TrialSpread, spread_of_trials
from sessions.runs import RunFolder, disk_errors, indented, read_json, write_atomic
from sessions.secrets import Secrets

VERSION = 1


class TrialRun(msgspec.Struct, frozen=True):
    """One trial. run: its folder · completed, invalid, failed: its attempts · lost: dialogues, with a worker that
    died · bounds: how far latencies may be off, in sentences."""

    run: str
    dialogues: int = 0
    completed: int = 0
    invalid: int = 0
    failed: int = 0
    lost: int = 0
    bounds: list[str] = []


class TrialRow(msgspec.Struct, frozen=True):
    """One measure over the trials."""

    metric: str
    unit: str
    spread: TrialSpread
    verdict: str


class Trials(msgspec.Struct, frozen=True):
    """`trials.json`. asked: how many · trials: those that were performed, the last one perhaps in part."""

    created: str
    target: str
    asked: int
    trials: list[TrialRun] = []
    rows: list[TrialRow] = []
    version: int = VERSION


def begin_trials(ask: Ask, secrets: Secrets, place: Path, asked: int) -> list[RunFolder]:
    """Make the folders of all trials, so that they can be resumed without what is asked, and `trials.json`."""
    names = [f"trial-{number}" for number in range(1, asked + 1)]
    runs = begin_runs([ask] * asked, secrets, place, names)
    _keep(place, Trials(runs[0].plan.created, runs[0].plan.target, asked))
    return runs


def open_trials(place: Path) -> list[RunFolder]:
    """What `begin_trials` made. Raises `SetupError` or `BadFile`."""
    file = place / TRIALS
    known = read_json(file, Trials, VERSION)
    return [RunFolder.open(place / f"trial-{number}") for number in range(1, known.asked + 1)]


def perform_trials(
    runs: Sequence[RunFolder], access: Access, begins: Callable[[int], None], *, quiet: bool, check_clock: bool
) -> bool:
    """Perform what is left of every trial, one after the other; all are locked. Whether the user interrupted it.

    begins: told the number of a trial, from 1, of which something is left.
    """
    for number, run in enumerate(runs, 1):
        if remaining(run):
            begins(number)
            if perform(run, access, quiet=quiet, check_clock=check_clock):
                return True
    return False


def finish_trials(place: Path, runs: Sequence[RunFolder]) -> tuple[Trials, list[FinishedRun]]:
    """Derive everything of every trial that was begun, and set them beside each other. At least one was."""
    begun = [run for run in runs if run.journal()]
    finished = [finish_run(run) for run in begun]
    sides = [side_of(run, made) for run, made in zip(begun, finished, strict=True)]
    trials = Trials(
        created=runs[0].plan.created,
        target=runs[0].plan.target,
        asked=len(runs),
        trials=[_trial(side, made) for side, made in zip(sides, finished, strict=True)],
        rows=[_row(sides, name) for name in usual_metrics(sides)],
    )
    _keep(place, trials)
    return trials, finished


def _keep(place: Path, trials: Trials) -> None:
    with disk_errors(place):
        write_atomic(place / TRIALS, indented(trials))


def _trial(side: Side, finished: FinishedRun) -> TrialRun:
    attempts = side.attempts
    return TrialRun(
        run=side.path.name,
        dialogues=len(side.dialogues),
        completed=attempts.completed,
        invalid=attempts.invalid,
        failed=attempts.failed,
        lost=finished.summary.dialogues.lost,
        bounds=[*side.clock_bounds(), *side.speech_end_bounds()],
    )


def _row(sides: Sequence[Side], name: str) -> TrialRow:
    spread = spread_of_trials([_spoken(side, name) for side in sides])
    return TrialRow(name, metric(name).unit, spread, verdict_of(spread))


def _spoken(side: Side, name: str) -> list[Spoken]:
    return [(one.script, list(values_of(one, name).values())) for one in side.dialogues]


def verdict_of(spread: TrialSpread) -> str:
    """In words, whether trials differ more than chance."""
    if spread.differ is None or spread.p_value is None:
        return f"whether trials differ more than chance cannot be told: {spread.reason}"
    p_value = f"p = {spread.p_value:.2g}" if spread.p_value >= 0.001 else "p < 0.001"
    if spread.differ:
        return f"trials differ more than chance ({p_value}), so a single run tells less than its own interval says"
    return f"trials do not differ more than chance shows ({p_value})"
