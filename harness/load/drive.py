"""When dialogues begin. Closed loop: as many as were asked for are kept going. Open loop: at instants of their own."""

from __future__ import annotations

import asyncio
import itertools
import operator
import random
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator
from typing import TypeVar

from harness.load.think import pauses_ns
from sessions.clock import NS_PER_MS, NS_PER_S, Clock
from sessions.runs import Load, Share

STEP_NS = 21 * NS_PER_MS
"""Between two connections of a closed loop: a storm of them would measure how the server shakes hands. No multiple of a
frame's 20 ms, so that the frames of many sessions do not fall due at one instant."""

WHOLE = Share()

S = TypeVar("S")
Job = Callable[[S, int | None], Awaitable[None]]
"""Performs one dialogue to its end. Second: the instant at which it was to begin, in open loop."""


async def drive(
    load: Load,
    slots: Iterable[S],
    clock: Clock,
    job: Job[S],
    *,
    share: Share = WHOLE,
    began_ns: int | None = None,
    until_ns: int | None = None,
) -> None:
    """Perform all `slots` as `load` says. The first error of a job ends the others and is raised as it is.

    share: what `slots` are of all that is held at the same time; the load is that of the whole, and this part of it is
    kept here · began_ns: the instant that is the beginning for all shares; None: now · until_ns: when
    slots that have no number come to their end, so that nobody pauses beyond it.
    """
    began_ns = clock.now_ns() if began_ns is None else began_ns
    try:
        if load.rate_per_s:
            await _open_loop(load, slots, clock, job, share, began_ns)
        else:
            await _closed_loop(load, slots, clock, job, share, began_ns, until_ns or sys.maxsize)
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None


async def _closed_loop(
    load: Load, slots: Iterable[S], clock: Clock, job: Job[S], share: Share, began_ns: int, last_ns: int
) -> None:
    """Each of `load.sessions` takes the next slot when its own dialogue is over and it has paused."""
    waiting = iter(slots)
    step_ns = STEP_NS * share.of
    free_ns = began_ns + STEP_NS * share.index

    async def session(number: int) -> None:
        nonlocal free_ns
        pauses = pauses_ns(load.think, load.seed, number)
        await clock.sleep_until_ns(min(last_ns, began_ns + int(number * load.ramp_s * NS_PER_S / load.sessions)))
        while True:
            turn_ns, free_ns = free_ns, max(free_ns, clock.now_ns()) + step_ns
            await clock.sleep_until_ns(turn_ns)
            slot = next(waiting, None)
            if slot is None:
                return
            await job(slot, None)
            if pause_ns := next(pauses):
                await clock.sleep_until_ns(min(last_ns, clock.now_ns() + pause_ns))

    most = operator.length_hint(slots, load.sessions)
    async with asyncio.TaskGroup() as tasks:
        for number in list(range(share.index, load.sessions, share.of))[:most]:
            tasks.create_task(session(number))


async def _open_loop(load: Load, slots: Iterable[S], clock: Clock, job: Job[S], share: Share, began_ns: int) -> None:
    """Each dialogue has an instant at which it is to begin, however the others fare.

    A dialogue that finds `max_sessions` under way begins later; its instant stays, so that the wait is in its figures.
    """
    places = asyncio.Semaphore(share.part(load.max_sessions) or sys.maxsize)
    own_ns = itertools.islice(arrivals_ns(load), share.index, None, share.of)

    async def one(slot: S, intended_ns: int) -> None:
        try:
            await job(slot, intended_ns)
        finally:
            places.release()

    async with asyncio.TaskGroup() as tasks:
        for slot, offset_ns in zip(slots, own_ns, strict=False):
            await clock.sleep_until_ns(began_ns + offset_ns)
            await places.acquire()
            tasks.create_task(one(slot, began_ns + offset_ns))


def arrivals_ns(load: Load) -> Iterator[int]:
    """When dialogue 0, 1, 2 … is to begin, after the beginning; the same for the same seed."""
    if load.arrivals == "constant":
        yield from (round(k * NS_PER_S / load.rate_per_s) for k in itertools.count())
    draw = random.Random(load.seed)
    at_s = 0.0
    while True:
        yield round(at_s * NS_PER_S)
        at_s += draw.expovariate(load.rate_per_s)
