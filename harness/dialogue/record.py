"""What a performer is given and what it leaves behind: turns to speak, how to reach the peer, the raw record."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from clients.dialect import Dialect
from clients.transports import Transport
from harness.dialogue.heartbeat import Heartbeat
from harness.dialogue.pacing import FrameTexts
from harness.dialogue.tracker import Tracker
from harness.network.pings import Pings
from sessions.clock import Clock
from sessions.errors import (
    ConnectionClosed,
    ConnectionReset,
    ConnectTimeout,
    DuologueError,
    Flood,
    HandshakeRefused,
    PeerDoesNotRead,
    PeerError,
    TransportError,
)
from sessions.events import AnyEvent, Closed, Connected, Received
from sessions.runs import Limits
from sessions.scripts.format import DEFAULT_WATCH_MS
from sessions.scripts.script import EXPECT_A_REPLY
from sessions.secrets import Secrets

Pcm = NDArray[np.int16]


@dataclass(frozen=True, slots=True)
class TurnToSpeak:
    """One turn of the user.

    pcm: int16 (samples,) at the wire's rate, zeros for a silence · last_sample: n, −1 for a silence · gap_ns: from the
    event that it waits for to its first sample · after: that event, "reply", "onset", "speech" or "at", as in
    `sessions.scripts.Start` · at_ns: of "at", after the session was ready · timeout_ns: how long to wait for it; None:
    as long as the limits of a reply allow · kind, onset_sample, pauses, watch_ms: as in `sessions.scripts.ScriptTurn`.
    """

    pcm: Pcm
    last_sample: int
    method: str
    gap_ns: int
    after: str = "reply"
    at_ns: int = 0
    timeout_ns: int | None = None
    kind: str = "speech"
    onset_sample: int = 0
    pauses: tuple[tuple[int, int], ...] = ()
    watch_ms: int = DEFAULT_WATCH_MS

    @property
    def expects_reply(self) -> bool:
        return self.kind in EXPECT_A_REPLY


@dataclass(slots=True)
class Record:
    """What a dialogue leaves behind. error: why it could not be set up, or ended early · gave_up: outcomes of turns."""

    events: list[AnyEvent] = field(default_factory=list)
    messages: list[bytes] = field(default_factory=list)
    """Each inbound message as it may be kept."""
    received_bytes: int = 0
    completed: bool = False
    set_up: bool = False
    error: DuologueError | None = None
    gave_up: list[str] = field(default_factory=list)

    @property
    def received(self) -> bytes:
        """All that came, as it stands in `received.bin`."""
        return b"".join(self.messages)

    def keep(self, data: bytes, t_ns: int, first_ns: int, binary: bool) -> None:
        """Log a message and keep it. data: secrets masked."""
        offset = self.received_bytes
        self.events.append(Received(t_ns=t_ns, first_ns=first_ns, offset=offset, length=len(data), binary=binary))
        self.messages.append(data)
        self.received_bytes = offset + len(data)

    def log(self) -> list[AnyEvent]:
        """The events in the order of their instants (a message is logged when it is read, after it came)."""
        return sorted(self.events, key=lambda event: event.t_ns)


@dataclass(frozen=True, slots=True)
class Performance:
    """How to perform.

    connect: opens the transport · on_turn: told (turn, tracker) when a turn is over · on_ready: told when the session
    stands · texts, heartbeat: shared by the dialogues of a process; None: the dialogue's own · intended_ns: when an
    open loop wanted this dialogue to begin.
    """

    dialect: Dialect
    connect: Callable[[], Awaitable[Transport]]
    clock: Clock
    limits: Limits
    frame_ms: int
    secrets: Secrets
    on_turn: Callable[[int, Tracker], None] = lambda turn, tracker: None
    on_ready: Callable[[], None] = lambda: None
    texts: FrameTexts | None = None
    heartbeat: Heartbeat | None = None
    pings: Pings | None = None
    intended_ns: int | None = None


def connected_event(transport: Transport) -> Connected:
    made = transport.connection
    return Connected(t_ns=made.connected_ns, phases=dict(made.phases_ns), proxy=made.proxy, keepalive=made.keepalive)


def closed_event(error: TransportError, t_ns: int, secrets: Secrets) -> Closed:
    match error:
        case ConnectionClosed():
            how = "eof" if error.code == 1006 else "close"
            return Closed(t_ns=t_ns, by=error.by, how=how, code=error.code, reason=secrets.mask(error.reason))
        case Flood():
            return Closed(t_ns=t_ns, by="us", how="flood")
        case ConnectionReset():
            return Closed(t_ns=t_ns, by="peer", how="reset", reason=secrets.mask(str(error)))
        case _:
            return Closed(t_ns=t_ns, by="us", how="abort", reason=secrets.mask(str(error)))


def outcome_of(error: DuologueError) -> tuple[str, str]:
    """The failed outcome that a transport or set-up error stands for, and its detail."""
    detail = str(error)
    match error:
        case HandshakeRefused(status=429):
            return "rate limit", detail
        case HandshakeRefused() | PeerError():
            return "refused", detail
        case ConnectTimeout():
            return "time-out", detail
        case Flood():
            return "flood", detail
        case PeerDoesNotRead():
            return "peer does not read", detail
        case ConnectionReset():
            return "reset", detail
        case ConnectionClosed(by="peer"):
            return "closed", detail
        case _:
            return "transport", detail
