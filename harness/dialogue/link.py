"""The connection of one dialogue with its record: all that is written or logged goes through here."""

from __future__ import annotations

import asyncio

from clients.dialect import Outgoing
from clients.transports import Transport
from harness.dialogue.record import Performance, Record, outcome_of
from harness.dialogue.tracker import Tracker
from sessions.clock import NS_PER_MS, NS_PER_S, TimerWheel
from sessions.errors import PeerDoesNotRead, TransportError
from sessions.events import AnyEvent, GaveUp, Sent


class TurnOver(Exception):
    """A turn cannot go on; ends_dialogue: neither can the dialogue. turn: its index, None for the one in hand."""

    def __init__(self, outcome: str, detail: str, *, ends_dialogue: bool, turn: int | None = None) -> None:
        super().__init__(outcome)
        self.outcome, self.detail, self.ends_dialogue, self.turn = outcome, detail, ends_dialogue, turn


class Link:
    """What the parts of one dialogue share. `transport` stands from the connection on.

    news: set by everything that may end a wait · lost: why the connection ended, None while it stands · ready_ns: when
    the session was set up.
    """

    transport: Transport

    def __init__(self, how: Performance) -> None:
        self.how = how
        self.clock = how.clock if isinstance(how.clock, TimerWheel) else TimerWheel(how.clock)
        self.dialect = how.dialect
        self.record = Record()
        self.tracker = Tracker(how.dialect.rate_hz)
        self.news = asyncio.Event()
        self.lost: TransportError | None = None
        self.ready_ns = 0

    def log(self, event: AnyEvent) -> None:
        self.record.events.append(event)

    def give_up(self, turn: int, outcome: str, detail: str) -> None:
        self.record.gave_up.append(outcome)
        masked = self.how.secrets.mask(detail)
        self.log(GaveUp(t_ns=self.clock.now_ns(), turn=turn, outcome=outcome, detail=masked))

    # ---- writing ---------------------------------------------------------------------------------------------

    def send_frame(self, payload: bytes, due_ns: int, turn: int | None, first_sample: int, samples: int) -> bool:
        """Write one frame and log it; False where the connection is not open. Raises `TurnOver` if nobody reads."""
        t_ns = self.transport.send_now(payload)
        if t_ns is None:
            return False
        buffered, size = self.transport.buffered_bytes, len(payload)
        tracker = self.tracker
        if t_ns - due_ns > tracker.late_max_ns:
            tracker.late_max_ns = t_ns - due_ns
        self.record.events.append(
            Sent(
                t_ns=t_ns,
                what="audio",
                bytes=size,
                due_ns=due_ns,
                turn=turn,
                first_sample=first_sample,
                samples=samples,
                buffered_bytes=buffered,
            )
        )
        if turn is not None and tracker.turns[-1].index == turn:  # a clip's tail may flow when the next one stands
            tracker.turns[-1].began = True
        if buffered and buffered > self.how.limits.unread_ms * size * self.dialect.rate_hz / (samples * 1000):
            self.lost = PeerDoesNotRead(f"{buffered} bytes of audio wait unread in our write buffer")
            self.transport.abort()
            raise self.over(self.lost)
        return True

    def write_now(self, message: Outgoing, turn: int) -> bool:
        t_ns = self.transport.send_now(message.text.encode())
        if t_ns is not None:
            self.log(Sent(t_ns=t_ns, what=message.what, bytes=len(message.text), turn=turn))
        return t_ns is not None

    async def write(self, message: Outgoing, turn: int | None = None) -> None:
        t_ns = await self.send(message.text)
        self.log(Sent(t_ns=t_ns, what=message.what, bytes=len(message.text), turn=turn))

    async def send(self, text: str) -> int:
        try:
            return await self.transport.send(text)
        except TransportError as error:
            self.lost = self.lost or error
            if not self.record.set_up:
                raise
            raise self.over(self.lost) from error

    # ---- waiting ---------------------------------------------------------------------------------------------

    def over(self, error: TransportError, turn: int | None = None) -> TurnOver:
        outcome, detail = outcome_of(error)
        return TurnOver(outcome, detail, ends_dialogue=True, turn=turn)

    def check(self) -> None:
        """Raises `TurnOver` if the connection is lost."""
        if self.lost is not None:
            raise self.over(self.lost)

    async def until(self, until_ns: int) -> None:
        """Wait for an instant. Raises `TurnOver` if the connection is lost."""
        self.check()
        await self.clock.sleep_until_ns(until_ns)
        self.check()

    async def news_by(self, until_ns: int) -> bool:
        """Whether news came before an instant."""
        self.news.clear()
        return await self.wait(self.news, until_ns)

    async def wait(self, event: asyncio.Event, until_ns: int) -> bool:
        """Whether the event came. If this process itself overslept, what came meanwhile is yet to be read: then it
        waits once more, for as long as it was late."""
        if await _came(event, until_ns - self.clock.now_ns()):
            return True
        late_ns = self.clock.now_ns() - until_ns
        return late_ns > self.how.limits.lateness_ms * NS_PER_MS and await _came(event, late_ns)


async def _came(event: asyncio.Event, within_ns: int) -> bool:
    try:
        async with asyncio.timeout(max(0, within_ns) / NS_PER_S):
            await event.wait()
    except TimeoutError:
        return False
    return True
