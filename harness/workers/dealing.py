"""Which dialogues fall to which worker."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from harness.runs.planning import Slot
from harness.runs.remaining import slots_left
from sessions.clock import Clock
from sessions.runs import Plan


def dealt(plan: Plan, done: Collection[int], index: int, of: int, clock: Clock, until_ns: int | None) -> Iterable[Slot]:
    """What worker `index` of `of` is to hold, of all that is left to this host. done: numbers in the journal.

    Every `of`-th of what is left, so that a resumed run too keeps all workers busy. Where the time decides (`until_ns`)
    there is no list of what is left, and a worker holds the share of the plan that is its own.
    """
    if until_ns is None:
        return list(slots_left(plan, done, clock, None, plan.shard))[index::of]
    return slots_left(plan, done, clock, until_ns, plan.shard.divided(index, of))
