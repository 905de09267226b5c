"""Transports move messages and stamp them; they know no protocol."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

KEEPALIVE_S = 20
"""How often a transport asks for a sign of life, where its protocol can."""


@dataclass(frozen=True, slots=True)
class Message:
    """One inbound message. t_ns: arrival of its last byte · first_ns: of its first, both before any parsing."""

    data: bytes
    t_ns: int
    first_ns: int
    binary: bool = False


Take = Callable[[bytes, int, int, bool], bool]
"""Given a `Message`'s parts; whether it has taken it, so that nobody receives it. Quick: it is called while reading."""


@dataclass(frozen=True, slots=True)
class Connection:
    """How the transport came to stand. phases_ns: dns, tcp, tls, upgrade, those that happened."""

    connected_ns: int
    phases_ns: dict[str, int] = field(default_factory=dict)
    proxy: str = ""
    keepalive: str = ""


@dataclass(frozen=True, slots=True)
class TcpRoundTrip:
    """smoothed_ns: the kernel's estimate · least_ns: the shortest that it saw lately, None where it does not tell."""

    smoothed_ns: int
    least_ns: int | None


class Transport(Protocol):
    """A connection that stamps. Messages that arrive are kept, in order, whether or not anybody receives them."""

    connection: Connection

    async def send(self, text: str) -> int:
        """Write one text message; the instant at which the write returned. Raises `TransportError`."""
        ...

    def send_now(self, payload: bytes) -> int | None:
        """As `send`, within the call. None, with nothing written, if the connection is not open; `send` tells why."""
        ...

    def offer(self, take: Take) -> None:
        """From now on offer each message, as it comes, to `take`, unless one waits to be received."""
        ...

    async def receive(self) -> Message:
        """The next message, if `take` did not have it.

        Raises `ConnectionClosed`, `ConnectionReset` or `Flood` after the last.
        """
        ...

    @property
    def buffered_bytes(self) -> int:
        """What the write buffer still holds."""
        ...

    @property
    def last_sign_ns(self) -> int:
        """When the last byte of any kind arrived, keepalive included."""
        ...

    def ping(self, payload: bytes) -> int | None:
        """Ask for a pong with `payload` (at most 125 bytes); the instant just before the write.

        None where the connection no longer stands.
        """
        ...

    def tell_pongs(self, told: Callable[[bytes, int], None]) -> None:
        """From now on tell of each pong: its payload and its arrival, stamped as messages are."""
        ...

    def tcp_round_trip(self) -> TcpRoundTrip | None:
        """What the kernel knows of round trips to the next TCP peer, None where nobody tells."""
        ...

    def release(self) -> None:
        """Nothing will be asked of this transport again, and it tells nobody anything: it keeps nothing alive.

        No garbage is collected while dialogues go on, so what one leaves behind must go without that.
        """
        ...

    async def close(self) -> None:
        """Close in order, waiting at most a few seconds."""
        ...

    def abort(self) -> None: ...
