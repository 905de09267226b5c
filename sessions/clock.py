"""The one clock. Every instant in this project is `now_ns()` of a `Clock` that was passed in.

This is the only module that imports `time` (a lint rule holds it). Wall time is read once per dialogue or run, for
people, and is never subtracted.
"""

from __future__ import annotations

import asyncio
import datetime
import heapq
import itertools
import time
from collections.abc import Callable
from typing import Protocol

NS_PER_S = 1_000_000_000
NS_PER_MS = 1_000_000


class Clock(Protocol):
    """A monotonic clock in integer nanoseconds that can also wait for one of its own instants."""

    def now_ns(self) -> int: ...

    async def sleep_until_ns(self, due_ns: int) -> None:
        """Return at or after `due_ns`, never before it."""
        ...


class MonotonicClock:
    """`time.monotonic_ns`, shared by all processes of one host."""

    now_ns = staticmethod(time.monotonic_ns)  # itself, not a method around it: it stamps every frame and packet

    async def sleep_until_ns(self, due_ns: int) -> None:
        # Loops may wake early (uvloop by up to 1 ms): read the clock and re-arm.
        while (left_ns := due_ns - time.monotonic_ns()) > 0:
            await asyncio.sleep(left_ns / NS_PER_S)


Step = Callable[[], int | None]
"""Does what is due now; the instant at which it is due again, None when it has done all."""


class TimerWheel:
    """A clock whose sleepers share one timer of the loop: one wake-up serves all that are due. Never early.

    Instants are those of the clock that it stands before. Use one per event loop.
    """

    def __init__(self, clock: Clock) -> None:
        self.now_ns = clock.now_ns
        self._waiting: list[tuple[int, int, asyncio.Future[None], Step | None]] = []
        self._order = itertools.count()
        self._timer: asyncio.TimerHandle | None = None
        self._armed_ns = 0

    async def sleep_until_ns(self, due_ns: int) -> None:
        if due_ns > self.now_ns():
            await self._wait(due_ns, None)

    async def run_steps(self, due_ns: int, step: Step) -> None:
        """Call `step` at `due_ns`, then at each instant that it returns, until it returns None.

        The timer calls it: no task wakes for a step. What it raises is raised here. Cancelled, no further step is made.
        """
        await self._wait(due_ns, step)

    async def _wait(self, due_ns: int, step: Step | None) -> None:
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        heapq.heappush(self._waiting, (due_ns, next(self._order), waiter, step))
        if self._timer is None or due_ns < self._armed_ns:
            self._arm(loop)
        try:
            await waiter
        except asyncio.CancelledError:
            self._arm(loop)
            raise

    def _arm(self, loop: asyncio.AbstractEventLoop) -> None:
        """Aim the timer at the first that still waits."""
        waiting = self._waiting
        while waiting and waiting[0][2].done():
            heapq.heappop(waiting)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if waiting:
            self._armed_ns = waiting[0][0]
            left_ns = max(0, self._armed_ns - self.now_ns())
            self._timer = loop.call_later(left_ns / NS_PER_S, self._wake, loop)

    def _wake(self, loop: asyncio.AbstractEventLoop) -> None:
        """Serve who is due by the clock itself; a loop that called too early is asked again."""
        self._timer = None
        waiting, now_ns = self._waiting, self.now_ns()
        while waiting and waiting[0][0] <= now_ns:
            _, _, waiter, step = heapq.heappop(waiting)
            if waiter.done():
                continue
            if step is None:
                waiter.set_result(None)
                continue
            try:
                next_ns = step()
            except Exception as error:  # noqa: BLE001 — whose step it is gets it, and the others go on
                waiter.set_exception(error)
                continue
            if next_ns is None:
                waiter.set_result(None)
            else:
                heapq.heappush(waiting, (next_ns, next(self._order), waiter, step))
        self._arm(loop)


def block_until_ns(due_ns: int) -> None:
    """Wait in a plain thread. For worker threads and subprocess babysitting, never inside an event loop."""
    while (left_ns := due_ns - time.monotonic_ns()) > 0:
        time.sleep(left_ns / NS_PER_S)


def process_cpu_ns() -> int:
    """CPU time of this process, user and system, in nanoseconds."""
    return time.process_time_ns()


def wall_time() -> str:
    """The date and time for people, ISO 8601 with offset, to the millisecond."""
    return datetime.datetime.now().astimezone().isoformat(timespec="milliseconds")


def samples_to_ns(samples: int, rate_hz: int) -> int:
    """Duration of `samples` at `rate_hz`, rounded to the nearest nanosecond (half up)."""
    return (samples * NS_PER_S * 2 + rate_hz) // (2 * rate_hz)


def ns_to_samples_ceil(duration_ns: int, rate_hz: int) -> int:
    """The smallest number of samples that lasts at least `duration_ns`."""
    return -((-duration_ns * rate_hz) // NS_PER_S)
