"""How much is the network, in words and rows; the table in the terminal and the report share it."""

from __future__ import annotations

from collections.abc import Iterator

from harness.network.summary import Times
from harness.report.summary import Summary
from harness.report.wording import number, one_line, plural
from metrics.stats import Distribution

PHASES = {
    "dns": "name look-up (DNS)",
    "tcp": "TCP connection",
    "tls": "TLS",
    "upgrade": "WebSocket upgrade",
    "proxy_and_upgrade": "proxy and WebSocket upgrade",
    "session_setup": "session set-up",
}
PING = "From a ping on the dialogue's own connection to its pong, which a busy server's own loop holds back."
TCP = (
    "The kernel's smoothed value for the dialogues' connections: no program has a part in it, but where the server's "
    "kernel puts an acknowledgement off (by up to 40 ms), that has."
)
PATH = "The client's round trip to a reflector on the server's host, less the time that it held the message."
_FIGURES = {"p50": "p50", "p95": "p95", "max": "maximum"}


def network_lines(summary: Summary) -> Iterator[str]:
    """What stands under the table of latencies."""
    phases = {name: summary.connection_ms[name] for name in _ordered(summary)}
    told = [f"{PHASES.get(name, name)} {number(one.p50)}" for name, one in phases.items() if one.p50 is not None]
    if told:
        count = max(one.n for one in phases.values())
        yield f"Connection, in no latency above, ms (p50 of {plural(count, 'dialogue')}): {', '.join(told)}."
    network = summary.network
    if network is None:
        return
    yield from _round_trip(
        "Round trip (ping to pong, through the server's own loop)", network.ping_before, network.ping_during
    )
    least_ms = network.tcp_least_ms
    least = "" if least_ms is None else f"; the shortest of all {number(least_ms)}"
    title = "TCP round trip (the kernel's, smoothed, with acknowledgements that are put off)"
    yield from _round_trip(title, network.tcp_before, network.tcp_during, least)
    path = network.path
    if path is None:
        return
    share_ms = path.during.distribution.p50
    if share_ms is None:
        yield f"The path: unavailable because {one_line(path.during.unavailable)}."
    else:
        less_ms = path.voice_to_voice_less_path_ms
        rest = "" if less_ms is None else f"; voice-to-voice less the path: {number(less_ms)} ms (p50 less p50)"
        yield f"The path: {number(share_ms)} ms of each round trip (p50; reflector){rest}."
    if path.before.distribution.n:
        yield from _round_trip("The path in full", path.before, path.during)


def network_rows(summary: Summary) -> Iterator[tuple[str, Times, str]]:
    """Label, values and meaning of each row of the report."""
    network = summary.network
    if network is None:
        return
    yield "round trip before, ping to pong", network.ping_before, PING
    yield "round trip during, ping to pong", network.ping_during, PING
    least_ms = network.tcp_least_ms
    least = "" if least_ms is None else f" The shortest of all: {number(least_ms)} ms."
    yield "TCP round trip before", network.tcp_before, TCP
    yield "TCP round trip during", network.tcp_during, f"{TCP}{least}"
    if network.path is not None:
        yield "the path before (reflector)", network.path.before, PATH
        less = network.path.voice_to_voice_less_path_ms
        beside = "" if less is None else f" Voice-to-voice less the path: {number(less)} ms (p50 less p50)."
        yield "the path during (reflector)", network.path.during, f"{PATH}{beside}"


def _ordered(summary: Summary) -> list[str]:
    names = list(PHASES)
    return sorted(summary.connection_ms, key=lambda name: names.index(name) if name in names else len(names))


def _round_trip(title: str, before: Times, during: Times, beside: str = "") -> Iterator[str]:
    if before.unavailable and before.unavailable == during.unavailable:
        yield f"{title}: unavailable because {one_line(before.unavailable)}."
        return
    yield f"{title}, ms: before {_told(before)}; during {_told(during)}{beside}."


def _told(times: Times) -> str:
    if times.unavailable:
        return f"unavailable because {one_line(times.unavailable)}"
    return _spread(times.distribution)


def _spread(values: Distribution) -> str:
    told = [
        f"{name} {number(value)}" for name, field in _FIGURES.items() if (value := getattr(values, field)) is not None
    ]
    return f"{', '.join(told)} (n {values.n})"
