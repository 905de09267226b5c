"""The machine's own timing floor, taken in a moment before a run: what this host adds to any figure."""

from __future__ import annotations

import asyncio

import numpy as np

from sessions.clock import NS_PER_MS, Clock

_WAKES = 60
_NAP_NS = 3 * NS_PER_MS
_READS = 2_000


async def timing_floor(clock: Clock) -> dict[str, float]:
    """Milliseconds: wake_late_p50, wake_late_p99, wake_late_max of timers in this event loop, clock_read, and the
    largest step between two readings in a row (a process that was stopped shows here)."""
    late_ns = []
    for _ in range(_WAKES):
        due_ns = clock.now_ns() + _NAP_NS
        await clock.sleep_until_ns(due_ns)
        late_ns.append(clock.now_ns() - due_ns)
    reads = np.array([clock.now_ns() for _ in range(_READS)], dtype=np.int64)
    await asyncio.sleep(0)
    steps = np.diff(reads)
    late = np.array(late_ns) / NS_PER_MS
    return {
        "wake_late_p50_ms": round(float(np.percentile(late, 50)), 4),
        "wake_late_p99_ms": round(float(np.percentile(late, 99)), 4),
        "wake_late_max_ms": round(float(late.max()), 4),
        "clock_read_ms": round(float(steps.mean()) / NS_PER_MS, 6),
        "clock_step_max_ms": round(float(steps.max()) / NS_PER_MS, 6),
    }
