"""Runs at several loads under one folder, and what they came to side by side."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from harness.calibrate.bound import Bound
from harness.compare.slo import Slo
from harness.load.search import highest_that_holds
from harness.report.summary import SpeechEndBound, Summary
from harness.report.wording import plural
from harness.results.dialogue_result import DialogueResult
from harness.results.finish import FinishedRun
from harness.runs.places import LEVELS
from metrics.result import Value
from sessions.errors import SetupError
from sessions.runs import disk_errors, indented, write_atomic

TOO_LATE = 0.05
"""A level at which this machine itself was late in more than this share of the turns tells nothing about the server."""
SHOWN = ("first_packet_ms", "voice_to_voice_ms")

HoldLevel = Callable[[int], FinishedRun | None]
"""Performs the run of one level; None when the user stopped it."""


class Level(msgspec.Struct, frozen=True):
    """One level. lost: turns of which nothing is known · figures: measure → p50, p95, max over completed turns, those
    that can be told · held: by every objective; None where none was given or it cannot be told · why: one line for each
    objective · clock, speech_end_bounds: how far its latencies may be off (harness/report/summary.py)."""

    sessions: int
    run: str
    turns: int
    completed: int
    invalid: int
    failed: int
    figures: dict[str, dict[str, float]]
    lost: int = 0
    held: bool | None = None
    why: list[str] = []
    clock: Bound | None = None
    speech_end_bounds: dict[str, SpeechEndBound | None] = {}


class Levels(msgspec.Struct, frozen=True):
    """levels.json. highest: of a search, the most sessions that held; 0: not even one; None where it has no answer."""

    target: str
    objectives: list[str]
    levels: list[Level]
    highest: int | None = None
    stopped: bool = False
    version: int = 1


class _Stopped(Exception):
    """The user stopped the level that was under way."""


class Ladder:
    """Takes levels one after the other and keeps `levels.json` in `place` after each."""

    def __init__(self, place: Path, target: str, slos: Sequence[Slo], hold: HoldLevel) -> None:
        self._place = place
        self._target = target
        self._slos = slos
        self._hold = hold
        self._levels: list[Level] = []

    def sweep(self, sessions: Sequence[int]) -> Levels:
        """Every level in the order given."""

        def all_of_them() -> None:
            for level in sessions:
                self._take(level)

        return self._until_stopped(all_of_them)

    def search(self, most: int) -> Levels:
        """The highest level that holds all objectives. Raises `SetupError` where an objective cannot be told."""
        return self._until_stopped(lambda: highest_that_holds(self._holds, most=most))

    def _until_stopped(self, work: Callable[[], int | None]) -> Levels:
        try:
            highest = work()
        except _Stopped:
            return self._keep(None, stopped=True)
        return self._keep(highest)

    def _holds(self, sessions: int) -> bool:
        level = self._take(sessions)
        if level.held is None:
            mend = f"Search again (its runs are in {self._place})" if level.lost else "Raise --repeat, or --duration"
            what = f"with {plural(sessions, 'session')} the objective cannot be told: {'; '.join(level.why)}"
            raise SetupError(what, mend)
        return level.held

    def _take(self, sessions: int) -> Level:
        finished = self._hold(sessions)
        if finished is None:
            raise _Stopped
        held, why = judge(self._slos, finished)
        summary = finished.summary
        level = Level(
            sessions=sessions,
            run=str(finished.report_path.parent.relative_to(self._place)),
            turns=summary.attempts.total,
            completed=summary.attempts.completed,
            invalid=summary.attempts.invalid,
            failed=summary.attempts.failed,
            lost=summary.attempts.lost,
            figures=_figures(summary),
            held=held,
            why=why,
            clock=summary.clock,
            speech_end_bounds=summary.speech_end_bounds,
        )
        self._levels.append(level)
        self._keep(None)
        return level

    def _keep(self, highest: int | None, *, stopped: bool = False) -> Levels:
        found = Levels(self._target, [slo.text for slo in self._slos], self._levels, highest, stopped)
        with disk_errors(self._place):
            write_atomic(self._place / LEVELS, indented(found))
        return found


def judge(slos: Sequence[Slo], finished: FinishedRun) -> tuple[bool | None, list[str]]:
    """Whether the run holds all objectives, and why. A run in which this machine was late too often does not."""
    if not slos:
        return None, []
    attempts = finished.summary.attempts
    if attempts.invalid > TOO_LATE * attempts.total:
        return False, [f"this machine was late in {attempts.invalid} of {attempts.total} turns: it is the limit here"]
    if attempts.lost:  # from then on the load was a lower one
        return None, [f"{plural(attempts.lost, 'turn')} lost with a worker that died"]
    counted = [one for one in finished.dialogues if one.completed and not one.warmup]
    verdicts = [slo.judge(_values(counted, slo.metric), attempts) for slo in slos]
    why = [verdict.why for verdict in verdicts]
    if any(verdict.held is False for verdict in verdicts):
        return False, why
    return (None if any(verdict.held is None for verdict in verdicts) else True), why


def _values(dialogues: Sequence[DialogueResult], name: str) -> dict[str, list[float]]:
    values: dict[str, list[float]] = {}
    for dialogue in dialogues:
        for turn in dialogue.turns:
            measured = turn.measures.get(name)
            if turn.turn_class == "completed" and isinstance(measured, Value):
                values.setdefault(dialogue.id, []).append(measured.value)
    return values


def _figures(summary: Summary) -> dict[str, dict[str, float]]:
    found = {}
    for name in SHOWN:
        distribution = summary.headline.measures[name].distribution
        figures = {"p50": distribution.p50, "p95": distribution.p95, "max": distribution.maximum}
        found[name] = {figure: value for figure, value in figures.items() if value is not None}
    return found
