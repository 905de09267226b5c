"""One run as comparison and gate see it: measured anew from its raw records, and nothing written."""

from __future__ import annotations

import dataclasses
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from harness.calibrate.bound import bound_line, bound_of, read_parts
from harness.report.summary import speech_end_bounds
from harness.report.wording import speech_end_bound
from harness.results.derive import derive
from harness.results.finish import FinishedRun
from harness.results.raw_record import raw_record
from harness.runs.losses import read_losses, still_lost
from harness.runs.planning import slot_of
from harness.runs.remaining import remaining
from metrics.result import TurnResult, Value
from metrics.turns import measure_conversation
from sessions.errors import SetupError
from sessions.runs import Plan, RunFolder


@dataclass(frozen=True, slots=True)
class Attempts:
    """Attempts by class, and turns that were lost; a `harness.compare.slo.Counted`."""

    completed: int
    invalid: int
    failed: int
    lost: int = 0

    @property
    def total(self) -> int:
        return self.completed + self.invalid + self.failed


@dataclass(frozen=True, slots=True)
class Performed:
    """One dialogue that counts. script: its name in the plan."""

    id: str
    script: str
    turns: list[TurnResult]


@dataclass(frozen=True, slots=True)
class Side:
    """A run.

    dialogues: those that count (no warm-up, none that the user stopped), in order · lost_turns: of dialogues that were
    lost with a worker, or that no merged run has · left: what an interrupted run has not performed, "" where nothing.
    """

    path: Path
    plan: Plan
    dialogues: list[Performed]
    lost_turns: int = 0
    left: str = ""

    @property
    def attempts(self) -> Attempts:
        classes = Counter(turn.turn_class for dialogue in self.dialogues for turn in dialogue.turns)
        return Attempts(classes["completed"], classes["invalid"], classes["failed"], self.lost_turns)

    def values(self, metric: str) -> dict[str, list[float]]:
        """Dialogue id → the metric's values over its completed turns that have one."""
        return {dialogue.id: list(values_of(dialogue, metric).values()) for dialogue in self.dialogues}

    def clock_bounds(self) -> list[str]:
        """How far its latencies may be off by this machine's clock, and what spoilt it, in sentences."""
        bound = bound_of(read_parts(self.path), self.plan.limits.lateness_ms)
        return [bound_line(bound), *(bound.warnings if bound else ())]

    def speech_end_bounds(self) -> list[str]:
        """How far its latencies may be off by who found the ends of speech, in sentences."""
        methods = speech_end_bounds(turn for dialogue in self.dialogues for turn in dialogue.turns)
        return [f"{speech_end_bound(*item)}." for item in methods.items()]


def values_of(dialogue: Performed, metric: str) -> dict[int, float]:
    """Turn → value, of the completed turns that have one."""
    found = {}
    for turn in dialogue.turns:
        measured = turn.measures.get(metric)
        if turn.turn_class == "completed" and isinstance(measured, Value):
            found[turn.turn] = measured.value
    return found


def side_of(run: RunFolder, finished: FinishedRun) -> Side:
    """A run that was just finished, from what is known of it already."""
    counted = [one for one in finished.dialogues if one.completed and not one.warmup]
    dialogues = [Performed(one.id, one.script, one.turns) for one in counted]
    return Side(run.path, run.plan, dialogues, finished.summary.attempts.lost, _left(run))


def read_side(path: Path) -> Side:
    """Read a run folder. Raises `SetupError` where it is none, or holds no dialogue that counts."""
    run = RunFolder.open(path)
    dialogues = []
    for line in sorted(run.journal(), key=lambda line: line.number):
        if line.warmup:
            continue
        derived = derive(*raw_record(run, line.id, slot_of(run.plan, line.number).script))
        if derived.completed:
            turns = measure_conversation(derived.conversation, limit_lateness_ms=run.plan.limits.lateness_ms)
            dialogues.append(Performed(line.id, line.script, turns))
    if not dialogues:
        raise SetupError(
            f"the run {path} has no finished dialogue that counts", f"Go on with it: duologue measure --resume {path}"
        )
    done = {line.number for line in run.journal()}
    return Side(path, run.plan, dialogues, still_lost(run.plan, read_losses(path), done).turns, _left(run))


def _left(run: RunFolder) -> str:
    """What is neither done nor lost, as "3 dialogues" or "40 s"."""
    done = {line.number for line in run.journal()}
    lost = {number for loss in read_losses(run.path) for number in loss.numbers} - done
    left = remaining(run)
    left = dataclasses.replace(left, dialogues=max(0, left.dialogues - len(lost)))
    return str(left) if left else ""
