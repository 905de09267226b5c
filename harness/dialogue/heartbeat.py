"""A 5 ms heartbeat in the timed process: how late this process itself was."""

from __future__ import annotations

import asyncio
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


class Heartbeat:
    """One heart for all dialogues of a process; it beats while anybody listens."""

    def __init__(self, clock: Clock, limit_ms: float) -> None:
        self._clock = clock
        self._limit_ms = limit_ms
        self._listeners: dict[Callable[[Stall], None], None] = {}
        self._task: asyncio.Task[None] | None = None

    def join(self, log: Callable[[Stall], None]) -> None:
        """From now on tell `log` of each late beat."""
        self._listeners[log] = None
        if self._task is None:
            self._task = asyncio.create_task(heartbeat(self._clock, self._tell, self._limit_ms))

    async def leave(self, log: Callable[[Stall], None]) -> None:
        """Tell `log` no more. Who never joined may leave too."""
        self._listeners.pop(log, None)
        if not self._listeners and self._task is not None:
            task, self._task = self._task, None
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def _tell(self, stall: Stall) -> None:
        for log in self._listeners:
            log(stall)
