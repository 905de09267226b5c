"""The machine's own timing floor: what this host adds to any figure."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from harness.dialogue.heartbeat import PERIOD_NS, heartbeat
from sessions.clock import NS_PER_MS, Clock
from sessions.events import Stall

_WAKES = 60
_NAP_NS = 3 * NS_PER_MS
_READS = 2_000
_TIMER_SLACK = Path("/proc/self/timerslack_ns")


async def timing_floor(clock: Clock, wakes: int = _WAKES) -> dict[str, float]:
    """Milliseconds: wake_late_p50, wake_late_p99, wake_late_max of `wakes` timers in this event loop, clock_read, and
    the largest step between two readings in a row (a process that was stopped shows here)."""
    late_ns = []
    for _ in range(wakes):
        due_ns = clock.now_ns() + _NAP_NS
        await clock.sleep_until_ns(due_ns)
        late_ns.append(clock.now_ns() - due_ns)
    reads = np.array([clock.now_ns() for _ in range(_READS)], dtype=np.int64)
    await asyncio.sleep(0)
    steps = np.diff(reads)
    return {
        **percentiles("wake_late", [late / NS_PER_MS for late in late_ns]),
        "clock_read_ms": round(float(steps.mean()) / NS_PER_MS, 6),
        "clock_step_max_ms": round(float(steps.max()) / NS_PER_MS, 6),
    }


async def heartbeat_floor(clock: Clock, beats: int) -> dict[str, float]:
    """Milliseconds: how late the 5 ms heartbeat of this process is while nothing else runs in it, over some `beats`."""
    stalls: list[Stall] = []
    task = asyncio.create_task(heartbeat(clock, stalls.append, limit_ms=0))  # with no limit it tells of every beat
    await clock.sleep_until_ns(clock.now_ns() + (beats + 1) * PERIOD_NS)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    return percentiles("heartbeat_lag", [stall.lag_ns / NS_PER_MS for stall in stalls])


def timer_slack() -> dict[str, float]:
    """By how much the kernel may put off this process's timers, in milliseconds; nothing where it does not say."""
    try:
        return {"timer_slack_ms": int(_TIMER_SLACK.read_text()) / NS_PER_MS}
    except (OSError, ValueError):
        return {}


def percentiles(
    name: str, values_ms: Sequence[float] | np.ndarray[tuple[int], np.dtype[np.float64]]
) -> dict[str, float]:
    """NAME_p50_ms, NAME_p99_ms, NAME_max_ms of at least one value."""
    at = {"p50": 50, "p99": 99, "max": 100}
    return {f"{name}_{key}_ms": round(float(np.percentile(values_ms, q)), 4) for key, q in at.items()}
