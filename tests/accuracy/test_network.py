"""The path's share of a round trip: through a proxy that adds 60 ms, and with reflectors that cannot be believed."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path as FilePath
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from clients.wire.reflector import (
    ANSWER_BYTES,
    REQUEST_BYTES,
    Reflect,
    answer,
    parse_answer,
    parse_request,
    reflector_url,
    request_text,
)
from harness.network import reflecting as module
from harness.network.log import FILE, AnyLine, Begun, Ended, Exchange, Failed, RunBegan, Stretch, append, read
from harness.network.path import path_times
from harness.network.reflecting import reflecting
from harness.network.summary import network_of
from harness.network.trips import Stretch as PingStretch
from harness.network.trips import Trips
from servers.app import serve as serve_front
from servers.fronts.reflector import NoModel
from sessions.clock import NS_PER_MS, NS_PER_S, MonotonicClock, TimerWheel
from sessions.errors import BadFile, PeerError, SetupError
from sessions.secrets import Secrets
from tests.support.fault_proxy import Path, fault_proxy
from tests.support.proxied import passages

CLOCK = MonotonicClock()
MS = NS_PER_MS
BEGUN = Begun(0, "2026-11-29T10:15:00.000+01:00", "ws://host:8766/reflect", REQUEST_BYTES, ANSWER_BYTES)
OFFSET_NS = 10**15
"""The reflector's clock is another host's: its instants lie far from ours."""

# ---- the wire --------------------------------------------------------------------------------------------------------


@given(st.integers(0, 2**53 - 1), st.integers(0, 2**62), st.integers(0, 2**62))
def test_messages_have_the_size_of_what_they_stand_for(n: int, arrived_ns: int, written_ns: int) -> None:
    text = request_text(n)
    assert len(text.encode()) == REQUEST_BYTES
    reply = answer(parse_request(text), arrived_ns).text(written_ns).encode()
    assert len(reply) == ANSWER_BYTES
    reflected = parse_answer(reply)
    assert (reflected.n, reflected.arrived_ns, reflected.written_ns) == (n, arrived_ns, written_ns)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "[]",
        '{"type":"reflected","n":1}',
        '{"type":"reflect","n":1,"answer_bytes":10}',
        '{"type":"reflect","n":1,"answer_bytes":100000000}',
        '{"type":"reflect","n":99999999999999999,"answer_bytes":900}',
    ],
)
def test_what_is_no_request_is_refused(text: str) -> None:
    with pytest.raises(PeerError):
        parse_request(text)


@given(st.binary(max_size=60))
def test_garbage_is_no_answer(data: bytes) -> None:
    with pytest.raises(PeerError):
        parse_answer(data)


def test_addresses() -> None:
    assert reflector_url("ws://host:8766") == "ws://host:8766/reflect"
    assert reflector_url("wss://[::1]:1/") == "wss://[::1]:1/reflect"
    assert reflector_url("ws://host:8766/behind/a/gateway") == "ws://host:8766/behind/a/gateway"
    for wrong in (
        "host:8766",
        "http://host:1",
        "ws://",
        "ws://a:b@host:1",
        "ws://h:1/?key=x",
        "ws://h:99999",
        "ws://[",
    ):
        with pytest.raises(SetupError, match="--reflector"):
            reflector_url(wrong)


# ---- what is derived -------------------------------------------------------------------------------------------------


def exchange(n: int, sent_ms: float, trip_ms: float, held_ms: float, *, up_ms: float = 0.0) -> Exchange:
    sent_ns = round(sent_ms * MS)
    arrived_ns = OFFSET_NS + sent_ns + round(up_ms * MS)
    return Exchange(n, sent_ns, sent_ns + round(trip_ms * MS), arrived_ns, arrived_ns + round(held_ms * MS))


def stretch(*exchanges: Exchange, began_ms: float = 100, failed: str = "", ended_ms: float | None = 10_000) -> Stretch:
    ended_ns = None if ended_ms is None else round(ended_ms * MS)
    return Stretch(BEGUN, round(began_ms * MS), list(exchanges), failed, ended_ns)


def test_the_path_is_the_round_trip_less_what_was_held() -> None:
    times = path_times([stretch(exchange(0, 0, 62, 2, up_ms=30), exchange(1, 200, 71.5, 10, up_ms=30))])
    assert (times.before_ms, times.during_ms) == ([60.0], [61.5])
    assert (times.problem_before, times.problem_during) == ("", "")


HONEST = (exchange(0, 0, 62, 2, up_ms=30), exchange(1, 200, 62, 2, up_ms=30))


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ((exchange(1, 200, 62, 62.001),), "held message 1"),
        ((exchange(1, 200, 62, -0.001),), "held message 1"),
        ((Exchange(1, 200 * MS, 262 * MS, 5, 6),), "clock does not run as ours"),  # it went back
        ((exchange(1, 20_000, 62, 2, up_ms=500),), "clock does not run as ours"),  # it ran ahead
    ],
)
def test_one_answer_that_cannot_be_true_spoils_all(wrong: tuple[Exchange, ...], says: str) -> None:
    times = path_times([stretch(HONEST[0], *wrong, began_ms=100, ended_ms=30_000)])
    assert says in times.problem_before and says in times.problem_during


def test_what_ended_early_tells_nothing_of_the_run() -> None:
    for broken, says in (
        (stretch(*HONEST, failed="the reflector ws://host: closed"), "closed"),
        (stretch(*HONEST, ended_ms=None), "was killed"),
        (stretch(*HONEST, Exchange(2, 300 * MS), ended_ms=6000), "left 1 messages without an answer"),
        (stretch(HONEST[0]), "no message was answered during the run"),
    ):
        times = path_times([broken])
        assert says in times.problem_during
        assert (times.problem_before, times.before_ms) == ("", [60.0])
    on_its_way = stretch(*HONEST, Exchange(2, 300 * MS), ended_ms=301)
    assert path_times([on_its_way]).problem_during == ""
    assert "no message" in path_times([]).problem_during
    both = path_times([stretch(*HONEST, ended_ms=None), stretch(*HONEST)])
    assert "was killed" in both.problem_during, "a part of a resumed run is not the run"


def test_summary_of_the_network() -> None:
    quiet = Trips(PingStretch(2, [], []), PingStretch(5, [], []), proxied=False)
    network = network_of({"d0001": quiet}, "", [], 400.0)
    assert network.ping_during.unavailable == "the server answered no ping (7 sent)"
    assert network.ping_during.distribution.p50 is None and network.ping_during.distribution.n == 0
    assert "the system does not tell" in network.tcp_before.unavailable
    assert network.path is None
    behind = Trips(PingStretch(1, [3.0], [1.0], 1.0), PingStretch(1, [5.0], [1.0], 1.0), proxied=True)
    network = network_of({"d0001": behind}, "ws://host/reflect", [stretch(*HONEST)], 400.0)
    assert (network.ping_before.distribution.p50, network.ping_during.distribution.p50) == (3.0, 5.0)
    assert network.tcp_during.unavailable == "the TCP connection ends at a proxy" and network.tcp_least_ms is None
    direct = Trips(PingStretch(1, [3.0], [1.0], 1.0), PingStretch(2, [5.0], [9.0, 7.0], 0.5), proxied=False)
    again = network_of({"d0001": direct, "d0002": behind}, "", [], None)
    assert (again.tcp_during.distribution.p50, again.tcp_least_ms) == (8.0, 0.5)
    assert network.path is not None
    assert network.path.voice_to_voice_less_path_ms == 340.0
    assert network_of({}, "", [], None).ping_before.unavailable == "no ping was sent before the first turn"


def test_the_file_is_read_as_it_was_written_and_survives_a_kill(tmp_path: FilePath) -> None:
    lines: list[AnyLine] = [BEGUN, RunBegan(5), *HONEST, Exchange(2, 9), Failed(10, "gone"), Ended(11)]
    append(tmp_path, lines)
    with (tmp_path / FILE).open("ab") as torn:
        torn.write(b'{"kind":"exch')
    append(tmp_path, [BEGUN])
    first, second = read(tmp_path)
    assert first == Stretch(BEGUN, 5, [*HONEST, Exchange(2, 9)], "gone", 11)
    assert second.ended_ns is None
    (tmp_path / FILE).write_text('{"kind":"ended","t_ns":1}\n')
    with pytest.raises(BadFile, match="begun"):
        read(tmp_path)


# ---- on sockets: order and causality, never milliseconds -------------------------------------------------------------


@contextlib.asynccontextmanager
async def reflector() -> AsyncIterator[str]:
    async with serve_front(NoModel(), front="reflector") as running:
        yield running.url


async def hold(folder: FilePath, address: str, body: Callable[[], Awaitable[None]]) -> tuple[Stretch, list[str]]:
    """What one stretch with a reflector left behind, and what the user was told."""
    told: list[str] = []
    async with asyncio.timeout(60):
        async with reflecting(folder, address, TimerWheel(CLOCK), Secrets(), told.append):
            await body()
    (found,) = read(folder)
    return found, told


async def a_while() -> None:
    await CLOCK.sleep_until_ns(CLOCK.now_ns() + 300 * MS)


@pytest.mark.sockets
@pytest.mark.parametrize("delays_ms", [(30, 30), (60, 0)])
async def test_a_path_of_sixty_milliseconds_is_found(tmp_path: FilePath, delays_ms: tuple[float, float]) -> None:
    """Every part of the path that is not the proxy's own hold takes some time, and none takes less than none."""
    up_ms, down_ms = delays_ms
    async with (
        reflector() as url,
        fault_proxy(url, CLOCK, up=Path(delay_ms=up_ms), down=Path(delay_ms=down_ms)) as proxy,
    ):
        found, told = await hold(tmp_path, proxy.url, a_while)
        assert told == []
        seen = passages(proxy.log, found.exchanges)
    times = path_times([found])
    assert (times.problem_before, times.problem_during) == ("", "")
    paths_ms = times.before_ms + times.during_ms
    assert len(seen) == len(paths_ms) >= 20
    for passage, path_ms in zip(seen, paths_ms, strict=True):
        one = passage.exchange
        assert one.received_ns is not None and one.arrived_ns is not None and one.written_ns is not None
        in_order = [
            one.sent_ns,
            passage.up_arrival_ns,
            passage.up_leave_ns,
            one.arrived_ns,
            one.written_ns,
            passage.down_arrival_ns,
            passage.down_leave_ns,
            one.received_ns,
        ]
        assert in_order == sorted(in_order)
        assert passage.added_ns >= 60 * MS
        outside_ns = sum(in_order[k + 1] - in_order[k] for k in (0, 2, 4, 6))
        assert round(path_ms * MS) == passage.added_ns + outside_ns


Handler = Callable[[ServerConnection], Awaitable[None]]


@contextlib.asynccontextmanager
async def false_reflector(handle: Handler) -> AsyncIterator[str]:
    async with serve(handle, "127.0.0.1", 0, compression=None, close_timeout=1) as server:
        yield f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}/reflect"


def replies(make: Callable[[Reflect, int], str], *, stop_after: int = 10**9) -> Handler:
    async def handle(ws: ServerConnection) -> None:
        count = 0
        with contextlib.suppress(ConnectionClosed):
            async for message in ws:
                if count == stop_after:
                    return
                count += 1
                await ws.send(make(parse_request(str(message)), CLOCK.now_ns()))

    return handle


def true_answer(request: Reflect, now_ns: int) -> str:
    return answer(request, now_ns).text(now_ns)


FALSE: Sequence[tuple[str, Handler, str]] = [
    ("garbage", replies(lambda request, now_ns: "<html>"), "does not answer as a reflector"),
    ("short", replies(lambda request, now_ns: true_answer(Reflect(request.n, 300), now_ns)), "300 bytes"),
    ("other", replies(lambda request, now_ns: true_answer(Reflect(request.n + 1000, 5200), now_ns)), "not waiting"),
    ("hours", replies(lambda request, now_ns: answer(request, now_ns).text(now_ns + 3600 * NS_PER_S)), "be true"),
    ("backwards", replies(lambda request, now_ns: answer(request, now_ns).text(now_ns - 1)), "be true"),
    ("stopped", replies(lambda request, now_ns: true_answer(request, -now_ns)), "clock does not run"),
    ("leaves", replies(true_answer, stop_after=5), "closed by the server"),
    ("leaves in mid-run", replies(true_answer, stop_after=20), "closed by the server"),
]


@pytest.mark.sockets
@pytest.mark.parametrize(("handle", "says"), [case[1:] for case in FALSE], ids=[case[0] for case in FALSE])
async def test_a_false_reflector_leaves_the_path_unavailable(tmp_path: FilePath, handle: Handler, says: str) -> None:
    performed = []

    async def body() -> None:
        await a_while()
        performed.append(True)

    async with false_reflector(handle) as url:
        found, _ = await hold(tmp_path, url, body)
    network = network_of({}, url, [found], 400.0)
    assert performed and network.path is not None
    assert says in network.path.during.unavailable
    assert network.path.during.distribution.p50 is None
    assert network.path.voice_to_voice_less_path_ms is None


@pytest.mark.sockets
async def test_a_reflector_that_never_answers(tmp_path: FilePath, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ANSWER_NS", NS_PER_S // 5)

    async def reads(ws: ServerConnection) -> None:
        with contextlib.suppress(ConnectionClosed):
            async for _ in ws:
                pass

    async with false_reflector(reads) as url:
        found, told = await hold(tmp_path, url, a_while)
    assert len(told) == 1 and "no answer within" in told[0]
    assert "no answer within" in path_times([found]).problem_before


@pytest.mark.sockets
async def test_no_reflector_is_one_line_and_the_run_goes_on(tmp_path: FilePath) -> None:
    found, told = await hold(tmp_path, "ws://127.0.0.1:1/reflect", a_while)
    assert len(told) == 1 and "nothing listens at" in told[0]
    assert "nothing listens at" in path_times([found]).problem_during


@pytest.mark.sockets
async def test_a_run_that_is_stopped_keeps_what_there_was(tmp_path: FilePath) -> None:
    async def stopped() -> None:
        await a_while()
        raise KeyError

    async with reflector() as url:
        with contextlib.suppress(KeyError):
            await hold(tmp_path, url, stopped)
    (found,) = read(tmp_path)
    assert path_times([found]).problem_during == ""


@pytest.mark.sockets
async def test_the_reflector_closes_on_what_it_does_not_understand() -> None:
    async with reflector() as url, connect(url) as ws:
        await ws.send("hello")
        with pytest.raises(ConnectionClosed) as closed:
            await ws.recv()
    assert closed.value.rcvd is not None and closed.value.rcvd.code == 1003
    assert "not a message for a reflector" in closed.value.rcvd.reason


@pytest.mark.sockets
async def test_answers_keep_to_the_order_of_messages() -> None:
    async with reflector() as url, connect(url) as ws:
        for n in range(50):
            await ws.send(request_text(n))
        seen: list[Any] = [json.loads(await ws.recv()) for _ in range(50)]
    assert [one["n"] for one in seen] == list(range(50))
    instants = [t for one in seen for t in (one["arrived_ns"], one["written_ns"])]
    assert instants == sorted(instants)
