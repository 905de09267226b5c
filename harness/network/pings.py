"""Pings on the connections of a process while their dialogues go on: few, spread, each stamped.

A connection is pinged once as soon as it stands, and then about every 2 s. All connections of a process share one
allowance, so that pings stay a thousandth of what a thousand streams send.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from clients.transports import Transport
from sessions.clock import NS_PER_MS, NS_PER_S, Clock
from sessions.events import Pinged, Ponged

PERIOD_NS = 2 * NS_PER_S
"""Between two pings on one connection, where there are few connections."""
APART_NS = 20 * NS_PER_MS
"""Between two pings of a process, on the average at least: 50 a second."""
BURST = 10
"""So many new connections are pinged at once, whatever the average; it is made up for afterwards."""
_PAYLOAD_BYTES = 8

Log = Callable[[Pinged | Ponged], None]


@dataclass(slots=True, eq=False)
class _Member:
    """One connection. waiting: payload → id of each ping that has no pong yet."""

    transport: Transport
    log: Log
    waiting: dict[bytes, int] = field(default_factory=dict)
    count: int = 0

    def ping(self) -> None:
        payload = os.urandom(_PAYLOAD_BYTES)  # nobody else's pong can be taken for ours, nor one sent in advance
        self.waiting[payload] = self.count
        t_ns = self.transport.ping(payload)
        if t_ns is None:
            del self.waiting[payload]
            return
        tcp = self.transport.tcp_round_trip()
        smoothed_ns, least_ns = (tcp.smoothed_ns, tcp.least_ns) if tcp is not None else (None, None)
        self.log(Pinged(t_ns=t_ns, id=self.count, tcp_ns=smoothed_ns, tcp_least_ns=least_ns))
        self.count += 1

    def pong(self, payload: bytes, t_ns: int) -> None:
        number = self.waiting.pop(payload, None)
        if number is not None:
            self.log(Ponged(t_ns=t_ns, id=number))


class Pings:
    """The pings of one process. Who joins is pinged until it leaves."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._members: deque[_Member] = deque()
        self._task: asyncio.Task[None] | None = None
        self._last_ns = self._spent_until_ns = clock.now_ns()

    def join(self, transport: Transport, log: Log) -> None:
        """Ping `transport`, which has just come to stand, now and from time to time; tell `log`."""
        member = _Member(transport, log)
        transport.tell_pongs(member.pong)
        self._members.append(member)
        if self._spent_until_ns - self._clock.now_ns() <= (BURST - 1) * APART_NS:
            self._ping(member)
        else:
            self._members.rotate(1)  # it is the next one
        if self._task is None:
            self._task = asyncio.create_task(self._go_round())

    async def leave(self, transport: Transport) -> None:
        """Ping it no more; pongs that are on their way are still told. Who never joined may leave too."""
        self._members = deque(member for member in self._members if member.transport is not transport)
        if not self._members and self._task is not None:
            task, self._task = self._task, None
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _go_round(self) -> None:
        while True:
            due_ns = max(self._last_ns + PERIOD_NS // len(self._members), self._spent_until_ns)
            await self._clock.sleep_until_ns(due_ns)
            self._ping(self._members[0])
            self._members.rotate(-1)

    def _ping(self, member: _Member) -> None:
        self._last_ns = now_ns = self._clock.now_ns()
        self._spent_until_ns = max(self._spent_until_ns, now_ns) + APART_NS
        member.ping()
