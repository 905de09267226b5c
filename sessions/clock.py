"""The one clock. Every instant in this project is `now_ns()` of a `Clock` that was passed in.

This is the only module that imports `time` (a lint rule holds it). Wall time is read once per dialogue or run, for
people, and is never subtracted.
"""

from __future__ import annotations

import asyncio
import datetime
import time
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

    def now_ns(self) -> int:
        return time.monotonic_ns()

    async def sleep_until_ns(self, due_ns: int) -> None:
        # Loops may wake early (uvloop by up to 1 ms): read the clock and re-arm.
        while (left_ns := due_ns - time.monotonic_ns()) > 0:
            await asyncio.sleep(left_ns / NS_PER_S)


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
