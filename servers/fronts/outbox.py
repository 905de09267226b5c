"""The one place where a connection writes: it stamps, notes and sends."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from servers.write_log import Write, WriteLog
from sessions.clock import Clock

Send = Callable[[str], Awaitable[None]]


class Outbox:
    """Text messages to one client, in the order of the calls.

    A client that is gone is no error here: what is written to it is dropped, and the front hears of it by its reader.
    """

    def __init__(self, clock: Clock, send: Send, write_log: WriteLog | None, connection: str) -> None:
        self._clock, self._send = clock, send
        self._log, self._connection = write_log, connection
        self._gone = False

    async def write(self, text: str, kind: str, *, response_id: str = "", samples: int = 0) -> None:
        """Send one finished text; everything that takes time has been done before."""
        if self._gone:
            return
        t_ns = self._clock.now_ns()
        if self._log is not None:
            self._log.add(Write(t_ns, self._connection, kind, response_id, samples))
        try:
            await self._send(text)
        except ConnectionError:
            self._gone = True

    def note(self, kind: str, t_ns: int, response_id: str = "") -> None:
        """Keep an instant that is no message."""
        if self._log is not None:
            self._log.add(Write(t_ns, self._connection, kind, response_id))
