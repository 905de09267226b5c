"""Round trips of one dialogue, from its event log alone.

Two kinds. From a ping to its pong: the path and the server's own event loop, which answers when it gets to it. And the
kernel's smoothed value for the TCP connection, in which no program has a part.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from sessions.clock import NS_PER_MS
from sessions.events import AnyEvent, Connected, Pinged, Ponged, TurnStarted


class Stretch(msgspec.Struct, frozen=True):
    """pings: how many were sent · ping_ms: those that were answered.

    tcp_ms: the kernel's smoothed value at each ping · tcp_least_ms: the shortest round trip that it told.
    """

    pings: int
    ping_ms: list[float]
    tcp_ms: list[float]
    tcp_least_ms: float | None = None


class Trips(msgspec.Struct, frozen=True):
    """before: pings sent before the first turn began · during: those from then on · proxied: TCP ends at a proxy."""

    before: Stretch
    during: Stretch
    proxied: bool


def trips_of(events: Sequence[AnyEvent]) -> Trips:
    """The round trips that a log holds. A ping that was still on its way at the end has none."""
    pongs = {event.id: event.t_ns for event in events if isinstance(event, Ponged)}
    pings = [event for event in events if isinstance(event, Pinged)]
    starts_ns = [event.start_ns for event in events if isinstance(event, TurnStarted)]
    first_ns = min(starts_ns, default=None)
    before = [ping for ping in pings if first_ns is None or ping.t_ns < first_ns]
    during = [ping for ping in pings if first_ns is not None and ping.t_ns >= first_ns]
    connected = next((event for event in events if isinstance(event, Connected)), None)
    return Trips(_stretch(before, pongs), _stretch(during, pongs), bool(connected and connected.proxy))


def _stretch(pings: Sequence[Pinged], pongs: dict[int, int]) -> Stretch:
    least_ns = [ping.tcp_least_ns for ping in pings if ping.tcp_least_ns is not None]
    return Stretch(
        pings=len(pings),
        ping_ms=[(pongs[ping.id] - ping.t_ns) / NS_PER_MS for ping in pings if ping.id in pongs],
        tcp_ms=[ping.tcp_ns / NS_PER_MS for ping in pings if ping.tcp_ns is not None],
        tcp_least_ms=min(least_ns) / NS_PER_MS if least_ns else None,
    )
