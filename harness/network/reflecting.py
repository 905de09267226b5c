"""One extra connection to a reflector while a run is performed; what came of it goes to the run's `network.jsonl`.

Nothing that goes wrong with a reflector stops a run: it is told, and the path is then unavailable.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from clients.transports import Transport
from clients.transports.websocket import open_websocket
from clients.wire.reflector import ANSWER_BYTES, REQUEST_BYTES, parse_answer, request_text
from harness.network.log import ANSWER_NS, Begun, Ended, Exchange, Failed, RunBegan, append
from harness.report.wording import one_line
from sessions.clock import NS_PER_MS, NS_PER_S, Clock, wall_time
from sessions.errors import DuologueError, PeerError
from sessions.secrets import Secrets

BEFORE = 20
"""Exchanges before the first dialogue: the fewest from which a p95 is told."""
BEFORE_APART_NS = 25 * NS_PER_MS
DURING_APART_NS = 250 * NS_PER_MS
_CONNECT_S = 5.0
_BYTE_CAP = 2**40


@contextlib.asynccontextmanager
async def reflecting(
    folder: Path, address: str, clock: Clock, secrets: Secrets, tell: Callable[[str], None]
) -> AsyncIterator[None]:
    """Exchange messages with the reflector at `address` before and while the body runs; nothing where it is "".

    folder: the run's · tell: shows one line to the user. Raises `SetupError` where the folder cannot be written.
    """
    if not address:
        yield
        return
    probe = Probe(clock)
    begun = Begun(clock.now_ns(), wall_time(), address, REQUEST_BYTES, ANSWER_BYTES)
    append(folder, [begun])
    in_order = False
    try:
        await probe.begin(address, secrets)
        if probe.failed is not None:
            tell(f"the network's share is not measured: {probe.failed.what}")
        probe.run_begins()
        yield
        in_order = True
    finally:
        lines = await probe.end(wait=in_order)
        append(folder, lines)


class Probe:
    """Exchanges with one reflector. failed: why there are no more."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._address = ""
        self._transport: Transport | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._waiting: dict[int, int] = {}
        self._count = 0
        self._news = asyncio.Event()
        self._run_began_ns: int | None = None
        self.exchanges: list[Exchange] = []
        self.failed: Failed | None = None

    async def begin(self, address: str, secrets: Secrets) -> None:
        """Connect, and make the exchanges that come before the run."""
        self._address = address
        try:
            self._transport = await open_websocket(
                address, headers={}, clock=self._clock, timeout_s=_CONNECT_S, byte_cap=_BYTE_CAP, secrets=secrets
            )
        except DuologueError as error:
            self._fail(str(error))
            return
        self._tasks = [asyncio.create_task(self._listen(self._transport))]
        began_ns = self._clock.now_ns()
        for k in range(BEFORE):
            await self._clock.sleep_until_ns(began_ns + k * BEFORE_APART_NS)
            await self._ask(self._transport)
        if not await self._all_answered():
            self._fail(f"no answer within {ANSWER_NS // NS_PER_S} s")

    def run_begins(self) -> None:
        """From now on exchanges are "during", a few a second."""
        self._run_began_ns = self._clock.now_ns()
        if self._transport is not None and self.failed is None:
            self._tasks.append(asyncio.create_task(self._ask_on(self._transport)))

    async def end(self, *, wait: bool) -> list[RunBegan | Exchange | Failed | Ended]:
        """Stop, close, and tell what there was. wait: for answers that are still on their way."""
        for task in self._tasks[1:]:
            task.cancel()
        if wait and self.failed is None:
            await self._all_answered()
        ended = Ended(self._clock.now_ns())
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._transport is not None:
            self._transport.abort()
        unanswered = [Exchange(n, sent_ns) for n, sent_ns in self._waiting.items()]
        began = [] if self._run_began_ns is None else [RunBegan(self._run_began_ns)]
        failed = [] if self.failed is None else [self.failed]
        return [*began, *sorted(self.exchanges + unanswered, key=lambda exchange: exchange.n), *failed, ended]

    async def _ask_on(self, transport: Transport) -> None:
        due_ns = self._clock.now_ns()
        while self.failed is None:
            await self._clock.sleep_until_ns(due_ns)
            await self._ask(transport)
            due_ns = max(due_ns + DURING_APART_NS, self._clock.now_ns())

    async def _ask(self, transport: Transport) -> None:
        if self.failed is not None:
            return
        n, text = self._count, request_text(self._count)
        self._count += 1
        self._waiting[n] = self._clock.now_ns()
        try:
            await transport.send(text)
        except DuologueError as error:
            del self._waiting[n]
            self._fail(str(error))

    async def _listen(self, transport: Transport) -> None:
        try:
            while True:
                message = await transport.receive()
                self._take(message.data, message.t_ns)
        except DuologueError as error:
            self._fail(str(error))

    def _take(self, data: bytes, t_ns: int) -> None:
        answer = parse_answer(data)
        sent_ns = self._waiting.pop(answer.n, None)
        if sent_ns is None:
            raise PeerError(f"it answered a message {answer.n} that was not waiting for an answer")
        if len(data) != ANSWER_BYTES:
            raise PeerError(f"it answered with {len(data)} bytes where {ANSWER_BYTES} were asked for")
        self.exchanges.append(Exchange(answer.n, sent_ns, t_ns, answer.arrived_ns, answer.written_ns))
        self._news.set()

    async def _all_answered(self) -> bool:
        try:
            async with asyncio.timeout(ANSWER_NS / NS_PER_S):
                while self._waiting and self.failed is None:
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            return False
        return True

    def _fail(self, what: str) -> None:
        if self.failed is None:
            self.failed = Failed(self._clock.now_ns(), f"the reflector {self._address}: {one_line(what)}")
            self._news.set()
            if self._transport is not None:
                self._transport.abort()
