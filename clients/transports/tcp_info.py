"""What the kernel itself knows about a TCP connection's round trips."""

from __future__ import annotations

import socket
import sys
from typing import Any

from clients.transports import TcpRoundTrip

_RTT_AT = 68
"""`tcpi_rtt`, microseconds, in `struct tcp_info` (linux/tcp.h): after 8 single bytes and 15 32-bit fields."""
_LEAST_AT = 148
"""`tcpi_min_rtt`, the same: after 24 32-bit fields, 4 of 64 bits and 3 of 32. Linux 4.6 and later."""
_FIELD_BYTES = 4
_NS_PER_US = 1_000
_UNKNOWN_US = 2**32 - 1


def tcp_round_trip(sock: Any) -> TcpRoundTrip | None:
    """The kernel's smoothed round-trip time (RFC 6298) and the least one of the last minutes.

    An acknowledgement that the peer's kernel put off is in the first; the second is seldom touched by it. sock: a
    connected TCP socket, or what an event loop shows of one. None where the system does not tell (only Linux does), or
    has no sample yet.
    """
    option = getattr(socket, "TCP_INFO", None) if sys.platform == "linux" else None
    if option is None or sock is None:
        return None
    try:
        raw = sock.getsockopt(socket.IPPROTO_TCP, option, _LEAST_AT + _FIELD_BYTES)
    except OSError:
        return None
    smoothed_us, least_us = (_field(raw, at) for at in (_RTT_AT, _LEAST_AT))
    if not smoothed_us:
        return None
    return TcpRoundTrip(smoothed_us * _NS_PER_US, least_us * _NS_PER_US if least_us else None)


def _field(raw: bytes, at: int) -> int:
    """Microseconds, 0 where the kernel gives none."""
    field = int.from_bytes(raw[at : at + _FIELD_BYTES], sys.byteorder)
    return 0 if field == _UNKNOWN_US else field
