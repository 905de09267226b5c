"""A 5 ms heartbeat in the timed process: how late this process itself was."""

from __future__ import annotations

from collections.abc import Callable

from sessions.clock import NS_PER_MS, Clock
from sessions.events import Stall

PERIOD_NS = 5 * NS_PER_MS


async def heartbeat(clock: Clock, log: Callable[[Stall], None], limit_ms: float) -> None:
    """Beat every 5 ms on an absolute grid, for ever; log each beat that is late by 5 ms (or the limit, if lower)."""
    threshold_ns = min(PERIOD_NS, int(limit_ms * NS_PER_MS))
    due_ns = clock.now_ns() + PERIOD_NS
    while True:
        await clock.sleep_until_ns(due_ns)
        now_ns = clock.now_ns()
        lag_ns = now_ns - due_ns
        if lag_ns >= threshold_ns:
            log(Stall(t_ns=now_ns, lag_ns=lag_ns))
        due_ns += PERIOD_NS * (1 + lag_ns // PERIOD_NS)
