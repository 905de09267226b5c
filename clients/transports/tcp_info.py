"""What the kernel itself knows about a TCP connection's round trips."""

from __future__ import annotations

import socket
import sys
from typing import Any

_RTT_AT, _RTT_BYTES = 68, 4
"""`tcpi_rtt`, microseconds, in `struct tcp_info` (linux/tcp.h): after 8 single bytes and 15 32-bit fields."""
_NS_PER_US = 1_000


def smoothed_round_trip_ns(sock: Any) -> int | None:
    """The kernel's smoothed round-trip time (RFC 6298), acknowledgements delayed by the peer's kernel included.

    sock: a connected TCP socket, or what an event loop shows of one. None where the system does not tell (only Linux
    does), or has no sample yet.
    """
    option = getattr(socket, "TCP_INFO", None) if sys.platform == "linux" else None
    if option is None or sock is None:
        return None
    try:
        raw = sock.getsockopt(socket.IPPROTO_TCP, option, _RTT_AT + _RTT_BYTES)
    except OSError:
        return None
    if len(raw) < _RTT_AT + _RTT_BYTES:
        return None
    rtt_us = int.from_bytes(raw[_RTT_AT:], sys.byteorder)
    return rtt_us * _NS_PER_US or None
