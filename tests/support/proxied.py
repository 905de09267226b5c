"""Which instants the fault proxy logged for each exchange with a reflector behind it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from clients.wire.reflector import ANSWER_BYTES, REQUEST_BYTES
from harness.network.log import Exchange
from tests.support.fault_proxy import Direction, Passed

_UP_BYTES = REQUEST_BYTES + 8
_DOWN_BYTES = ANSWER_BYTES + 4
"""A frame with its header: 4 bytes, and from a client 4 more of its mask (RFC 6455 §5.2)."""
_NO_KEEPALIVE_NS = 15_000_000_000
"""After 20 s the transport's own pings lie between the messages."""


@dataclass(frozen=True, slots=True)
class Passage:
    """One exchange as the proxy saw it: each message's last byte as it came and as it left, up and down."""

    exchange: Exchange
    up_arrival_ns: int
    up_leave_ns: int
    down_arrival_ns: int
    down_leave_ns: int

    @property
    def added_ns(self) -> int:
        """How long the proxy held both messages."""
        return self.up_leave_ns - self.up_arrival_ns + self.down_leave_ns - self.down_arrival_ns


def passages(log: Sequence[Passed], exchanges: Sequence[Exchange]) -> list[Passage]:
    """Of every answered exchange of the first 15 s. exchanges: of connection 0, from the first, in order, none missing.

    All messages of one direction are equally long, so that a message's place in the stream is known.
    """
    first_ns = exchanges[0].sent_ns
    up, down = _Stream(log, "up", first_ns), _Stream(log, "down", first_ns)
    found = []
    for place, exchange in enumerate(exchanges):
        assert exchange.n == place
        if exchange.received_ns is None or exchange.received_ns > first_ns + _NO_KEEPALIVE_NS:
            continue
        asked, answered = up.piece((place + 1) * _UP_BYTES), down.piece((place + 1) * _DOWN_BYTES)
        found.append(Passage(exchange, asked.arrival_ns, asked.leave_ns, answered.arrival_ns, answered.leave_ns))
    return found


class _Stream:
    """One direction, from the end of the upgrade on: that was over before the first message was sent."""

    def __init__(self, log: Sequence[Passed], direction: Direction, first_ns: int) -> None:
        self._pieces = [one for one in log if one.direction == direction and one.connection == 0]
        self._upgrade_bytes = sum(one.bytes for one in self._pieces if one.arrival_ns < first_ns)

    def piece(self, end_bytes: int) -> Passed:
        """The piece that holds the last byte before `end_bytes`."""
        at = self._upgrade_bytes + end_bytes - 1
        return next(one for one in self._pieces if one.first_byte <= at < one.first_byte + one.bytes)
