"""What is left of a run, by its journal; and by its clock where it lasts for a time instead of a number of rounds."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Collection, Iterable, Iterator
from dataclasses import dataclass

import msgspec

from harness.load.drive import WHOLE
from harness.report.wording import plural
from harness.runs.planning import Slot, planned, slot_of
from sessions.clock import NS_PER_S, Clock
from sessions.runs import Plan, RunFolder, Share, disk_errors

KEEP_EVERY_NS = 5 * NS_PER_S
TIME_SPENT = "time_spent.jsonl"


class _Spent(msgspec.Struct, frozen=True):
    """A line of time_spent.jsonl: how long the run had been driven by then, all starts together."""

    spent_s: float


@dataclass(frozen=True, slots=True)
class Remaining:
    """dialogues: that are owed · time_s: in which more may begin, 0 where a number of rounds was asked for."""

    dialogues: int
    time_s: float

    def __bool__(self) -> bool:
        return self.dialogues > 0 or self.time_s > 0

    def __str__(self) -> str:
        return f"{self.time_s:.0f} s" if self.time_s else plural(self.dialogues, "dialogue")


def planned_here(plan: Plan) -> int | None:
    """How many dialogues of the plan this host is to hold. None where the time decides."""
    total = planned(plan)
    return None if total is None else plan.shard.part(total)


def remaining(run: RunFolder) -> Remaining:
    """What a start of the run would still have to do."""
    done = {line.number for line in run.journal()}
    total = planned_here(run.plan)
    if total is not None:
        return Remaining(total - len(done), 0.0)
    shares = [run.plan.shard.divided(index, run.plan.workers) for index in range(run.plan.workers)]
    owed = sum(1 for share in shares for _ in _owed(run.plan, done, share))
    return Remaining(owed, max(0.0, run.plan.load.duration_s - spent_s(run)))


def slots_left(
    plan: Plan, done: Collection[int], clock: Clock, until_ns: int | None, share: Share = WHOLE
) -> Iterable[Slot]:
    """The dialogues of the share that are to do, in order. done: numbers of those that need not be.

    Where the time decides (`until_ns`), new rounds begin before its end only; those that were begun are completed.
    """
    total = planned(plan)
    if total is not None:
        return [slot_of(plan, number) for number in range(share.index, total, share.of) if number not in done]
    assert until_ns is not None
    return _until(plan, done, clock, until_ns, share)


def _until(plan: Plan, done: Collection[int], clock: Clock, until_ns: int, share: Share) -> Iterator[Slot]:
    yield from _owed(plan, done, share)
    for place in itertools.count(_begun(plan, done, share)):
        if place % len(plan.scripts) == 0 and clock.now_ns() >= until_ns:
            return
        yield slot_of(plan, share.index + place * share.of)


def _owed(plan: Plan, done: Collection[int], share: Share) -> Iterator[Slot]:
    """Dialogues of the share's rounds that an earlier start began."""
    numbers = (share.index + place * share.of for place in range(_begun(plan, done, share)))
    return (slot_of(plan, number) for number in numbers if number not in done)


def _begun(plan: Plan, done: Collection[int], share: Share) -> int:
    """Number of dialogues in the share's rounds that were begun; a round of it is as many as there are scripts."""
    places = ((number - share.index) // share.of for number in done if number % share.of == share.index)
    return -(-(max(places, default=-1) + 1) // len(plan.scripts)) * len(plan.scripts)


def time_over_ns(run: RunFolder, clock: Clock) -> int | None:
    """When the last round may begin, if the run begins now. None where the number of dialogues decides."""
    if planned(run.plan) is not None:
        return None
    return clock.now_ns() + round((run.plan.load.duration_s - spent_s(run)) * NS_PER_S)


def spent_s(run: RunFolder) -> float:
    """How long the run has been driven, in all starts up to now; a killed one lacks its last few seconds."""
    file = run.path / TIME_SPENT
    if not file.exists():
        return 0.0
    spent = 0.0
    for line in file.read_bytes().split(b"\n"):
        with contextlib.suppress(msgspec.DecodeError):  # torn by a kill in mid-write
            spent = max(spent, msgspec.json.decode(line, type=_Spent).spent_s)
    return spent


@contextlib.asynccontextmanager
async def time_kept(run: RunFolder, clock: Clock) -> AsyncIterator[None]:
    """While this lasts the time that is spent is noted in the folder of a run that lasts for a time."""
    if planned(run.plan) is not None:
        yield
        return
    before_s, began_ns = spent_s(run), clock.now_ns()

    def note() -> None:
        line = msgspec.json.encode(_Spent(before_s + (clock.now_ns() - began_ns) / NS_PER_S))
        with disk_errors(run.path / TIME_SPENT), (run.path / TIME_SPENT).open("ab") as out:
            out.write(b"\n" + line)  # a torn line before it stays a line of its own

    async def keep() -> None:
        while True:
            await clock.sleep_until_ns(clock.now_ns() + KEEP_EVERY_NS)
            await asyncio.to_thread(note)

    task = asyncio.create_task(keep())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        note()
