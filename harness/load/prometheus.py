"""`/metrics` while a run goes on, in Prometheus' text exposition format 0.0.4.

Served by the loop that keeps time, so a scrape must be cheap: it prints counters that are there anyway, a fraction of a
millisecond, and nothing is computed from records. Names and units are listed in docs/load.md.
"""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping

from harness.load.live import Histogram, Live
from sessions.clock import NS_PER_S
from sessions.errors import SetupError

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_WHERE = re.compile(r"(?:(?P<host>[^:\[\]]+|\[[0-9A-Fa-f:.]+\]):)?(?P<port>\d{1,5})")


def listen(where: str) -> socket.socket:
    """A socket that listens at [HOST:]PORT, on loopback where no host is given; port 0 takes a free one.

    Raises `SetupError` where that cannot be.
    """
    found = _WHERE.fullmatch(where)
    if found is None or int(found["port"]) > 65535:
        raise SetupError(f"--prometheus {where}: not a port, nor HOST:PORT", "For example --prometheus 9464")
    host, port = (found["host"] or "127.0.0.1").strip("[]"), int(found["port"])
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise SetupError(
            f"--prometheus {where}: cannot listen there: {error.strerror or error}", "Choose another port or host"
        ) from error


def address(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}/metrics" if ":" in host else f"http://{host}:{port}/metrics"


@contextlib.asynccontextmanager
async def serving(listening: socket.socket, live: Live) -> AsyncIterator[None]:
    """`/metrics` on that socket, which is closed in the end."""
    from aiohttp import web

    async def metrics(_: web.Request) -> web.Response:
        return web.Response(body=exposition(live).encode(), headers={"Content-Type": CONTENT_TYPE})

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1.0)
    await runner.setup()
    try:
        await web.SockSite(runner, listening).start()
        yield
    finally:
        await runner.cleanup()


def exposition(live: Live) -> str:
    """All metrics of a run as they stand."""
    return "".join(f"{line}\n" for line in _lines(live))


def _lines(live: Live) -> Iterator[str]:
    yield from _metric("sessions_active", "gauge", "Dialogues under way.", live.active)
    yield from _metric("dialogues_ended_total", "counter", "Dialogues that this start has performed.", live.ended)
    if live.total is not None:
        left = max(0, live.total - live.already_done - live.ended)
        yield from _metric("dialogues_left", "gauge", "Dialogues of the plan that have not ended.", left)
    yield from _metric("turns_total", "counter", "Turns that are over, failed ones of live dialogues too.", live.turns)
    failed = {f'{{kind="{_escaped(kind)}"}}': number for kind, number in sorted(live.failed.items())}
    yield from _family(
        "turns_failed_total", "counter", "Turns that failed, by kind, told when a dialogue ends.", failed
    )
    yield from _histogram(
        "first_packet_seconds", "From the end of the user's speech to the first packet.", live.first_packet
    )
    yield from _histogram("send_lateness_seconds", "Worst frame of a dialogue by the end of each turn.", live.lateness)
    late_s = live.late_max_ns / NS_PER_S
    yield from _metric("send_lateness_max_seconds", "gauge", "Worst frame since this start.", late_s)
    yield from _metric("cpu_seconds_total", "counter", "CPU time of what performs the run.", live.cpu_s())
    yield from _metric("running_seconds", "gauge", "Since the first dialogue of this start began.", live.past_s())
    if (left_s := live.left_s()) is not None:
        yield from _metric("time_left_seconds", "gauge", "Until the run is over, estimated.", left_s)


def _metric(name: str, kind: str, tells: str, value: float) -> Iterable[str]:
    return _family(name, kind, tells, {"": value})


def _family(name: str, kind: str, tells: str, values: Mapping[str, float]) -> Iterator[str]:
    """values: labels as they are written → value."""
    yield f"# HELP duologue_{name} {tells}"
    yield f"# TYPE duologue_{name} {kind}"
    yield from (f"duologue_{name}{labels} {value:.9g}" for labels, value in values.items())


def _histogram(name: str, tells: str, histogram: Histogram) -> Iterator[str]:
    yield f"# HELP duologue_{name} {tells}"
    yield f"# TYPE duologue_{name} histogram"
    total = 0
    for bound, count in zip((*histogram.bounds, "+Inf"), histogram.counts, strict=True):
        total += count
        yield f'duologue_{name}_bucket{{le="{bound}"}} {total}'
    yield f"duologue_{name}_sum {histogram.sum_s:.9g}"
    yield f"duologue_{name}_count {total}"


def _escaped(label: str) -> str:
    return label.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
