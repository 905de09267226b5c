"""What is told of the network in `summary.json`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from harness.network.log import Stretch
from harness.network.path import path_times
from harness.network.trips import Stretch as PingStretch
from harness.network.trips import Trips
from metrics.stats import Distribution, summarise


class Times(msgspec.Struct, frozen=True):
    """Milliseconds. unavailable: why there are none, "" where there are."""

    distribution: Distribution
    unavailable: str = ""


class PathShare(msgspec.Struct, frozen=True):
    """The path's share of each round trip: the client's round trip − the time that the reflector held the message.

    voice_to_voice_less_path_ms: median of all voice-to-voice latencies − median of the path during the run.
    """

    reflector: str
    before: Times
    during: Times
    voice_to_voice_less_path_ms: float | None = None


class Network(msgspec.Struct, frozen=True):
    """Round trips of all dialogues.

    ping: from a ping to its pong, through the server's own loop · tcp: the kernel's smoothed round trip, at each ping ·
    before, during: sent before a dialogue's first turn began, or from then on · pongs: of `pings`, answered · path:
    None where no reflector was asked · tcp_least_ms: the shortest that the kernel saw, None where it does not tell.
    """

    ping_before: Times
    ping_during: Times
    tcp_before: Times
    tcp_during: Times
    pings: int
    pongs: int
    path: PathShare | None = None
    tcp_least_ms: float | None = None


def network_of(
    trips: Mapping[str, Trips], reflector: str, stretches: Sequence[Stretch], voice_to_voice_ms: float | None
) -> Network:
    """Over the dialogues that count. trips: by dialogue · reflector: its address, "" where none was asked."""
    pings = sum(one.before.pings + one.during.pings for one in trips.values())
    pongs = sum(len(one.before.ping_ms) + len(one.during.ping_ms) for one in trips.values())
    return Network(
        ping_before=_ping(trips, lambda one: one.before, pings, pongs, "before the first turn"),
        ping_during=_ping(trips, lambda one: one.during, pings, pongs, "during a turn"),
        tcp_before=_tcp(trips, lambda one: one.before),
        tcp_during=_tcp(trips, lambda one: one.during),
        pings=pings,
        pongs=pongs,
        path=_path(reflector, stretches, voice_to_voice_ms) if reflector else None,
        tcp_least_ms=_least(trips),
    )


def _ping(trips: Mapping[str, Trips], part: Callable[[Trips], PingStretch], pings: int, pongs: int, when: str) -> Times:
    sent = sum(part(one).pings for one in trips.values())
    why = f"no ping was sent {when}"
    if sent:
        why = f"no ping that was sent {when} was answered"
    if pings and not pongs:
        why = f"the server answered no ping ({pings} sent)"
    return _times({name: part(one).ping_ms for name, one in trips.items()}, why)


def _tcp(trips: Mapping[str, Trips], part: Callable[[Trips], PingStretch]) -> Times:
    direct = {name: part(one).tcp_ms for name, one in trips.items() if not one.proxied}
    why = "the system does not tell it (Linux does)"
    if not any(part(one).pings for one in trips.values()):
        why = "nothing was asked at that time"
    elif not direct:
        why = "the TCP connection ends at a proxy"
    return _times(direct, why)


def _least(trips: Mapping[str, Trips]) -> float | None:
    parts = [part for one in trips.values() if not one.proxied for part in (one.before, one.during)]
    return min((part.tcp_least_ms for part in parts if part.tcp_least_ms is not None), default=None)


def _path(reflector: str, stretches: Sequence[Stretch], voice_to_voice_ms: float | None) -> PathShare:
    found = path_times(stretches)
    before = _times({"reflector": found.before_ms}, found.problem_before, withheld=bool(found.problem_before))
    during = _times({"reflector": found.during_ms}, found.problem_during, withheld=bool(found.problem_during))
    share_ms = during.distribution.p50
    known = voice_to_voice_ms is not None and share_ms is not None
    return PathShare(reflector, before, during, (voice_to_voice_ms or 0) - (share_ms or 0) if known else None)


def _times(values: Mapping[str, Sequence[float]], why: str, *, withheld: bool = False) -> Times:
    distribution = summarise({} if withheld else values)
    return Times(distribution, "" if distribution.n else why)
