"""Round trips from ping to pong: what is logged, how often, and what becomes of a peer that answers none."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve

from clients.dialect import SessionOptions
from clients.openai_realtime import OpenAIRealtime
from clients.transports.websocket import WebSocketTransport, open_websocket
from harness.dialogue.perform import Dialogue
from harness.dialogue.record import Performance
from harness.network.pings import APART_NS, BURST, PERIOD_NS, Pings
from harness.network.trips import trips_of
from sessions.clock import NS_PER_MS, NS_PER_S, MonotonicClock, TimerWheel
from sessions.events import AnyEvent, Connected, Pinged, Ponged, TurnStarted, encode_log, read_log
from sessions.runs import Limits
from sessions.secrets import Secrets
from tests.support.dialogues import utterance
from tests.support.peers import MemoryTransport, Wire, audio, created, done, greet, in_memory, request, sleep_ms, tone
from tests.support.virtual_time import VirtualClock, run_virtual

CLOCK = MonotonicClock()


def test_one_connection_is_pinged_at_once_and_then_every_two_seconds() -> None:
    async def hold(clock: VirtualClock) -> list[AnyEvent]:
        events: list[AnyEvent] = []
        pings, transport = Pings(TimerWheel(clock)), MemoryTransport(clock)
        began_ns = clock.now_ns()
        pings.join(transport, events.append)
        await clock.sleep_until_ns(began_ns + 9 * NS_PER_S)
        await pings.leave(transport)
        await clock.sleep_until_ns(began_ns + 20 * NS_PER_S)
        sent_ns = [event.t_ns - began_ns for event in events if isinstance(event, Pinged)]
        assert sent_ns == [k * PERIOD_NS for k in range(5)]
        return events

    events = run_virtual(hold)
    assert len(events) == 10
    assert trips_of(events).before.ping_ms == [0.0] * 5, "a message takes no time there"


def test_a_process_with_many_connections_sends_fifty_pings_a_second_at_most() -> None:
    async def hold(clock: VirtualClock) -> None:
        events: list[AnyEvent] = []
        pings = Pings(TimerWheel(clock))
        transports = [MemoryTransport(clock) for _ in range(400)]
        for transport in transports:
            pings.join(transport, events.append)
        began_ns = clock.now_ns()
        await clock.sleep_until_ns(began_ns + 8 * NS_PER_S + NS_PER_MS)
        for transport in transports:
            await pings.leave(transport)
        sent_ns = [event.t_ns for event in events if isinstance(event, Pinged)]
        assert sent_ns[:BURST] == [began_ns] * BURST
        assert sent_ns[BURST:] == [began_ns + k * APART_NS for k in range(BURST, 401)], "made up for, then even"
        assert {len(transport.pings) for transport in transports} == {1, 2}, "each in its turn"

    run_virtual(hold)


def test_connections_that_come_like_a_load_s_are_each_pinged_as_they_come() -> None:
    async def hold(clock: VirtualClock) -> None:
        pings = Pings(TimerWheel(clock))
        transports = []
        for k in range(100):
            transports.append(MemoryTransport(clock))
            pings.join(transports[k], lambda event: None)
            assert len(transports[k].pings) == 1
            await clock.sleep_until_ns(clock.now_ns() + APART_NS)
        for transport in transports:
            await pings.leave(transport)

    run_virtual(hold)


@pytest.mark.parametrize("answers", [True, False])
def test_a_dialogue_is_the_same_with_pings_and_without(answers: bool) -> None:
    """Whether or not the peer answers them: no frame is later, nothing arrives at another time."""

    async def peer(wire: Wire) -> None:
        await greet(wire)
        for number in range(3):
            await request(wire)
            await sleep_ms(wire, 700)
            await wire.send(created(f"r{number}"))
            await wire.send(audio(f"r{number}", tone(1500)))
            await wire.send(done(f"r{number}"))

    def talk(with_pings: bool) -> list[AnyEvent]:
        async def make(clock: VirtualClock) -> list[AnyEvent]:
            async with in_memory(peer, clock) as connect:

                async def dial() -> MemoryTransport:
                    transport = await connect()
                    transport.answers_pings = answers
                    return transport

                how = Performance(
                    dialect=OpenAIRealtime(SessionOptions(turn_detection="manual")),
                    connect=dial,
                    clock=clock,
                    limits=Limits(),
                    frame_ms=20,
                    secrets=Secrets(),
                    pings=Pings(TimerWheel(clock)) if with_pings else None,
                )
                return (await Dialogue(how, [utterance()] * 3).perform()).log()

        log: list[AnyEvent] = run_virtual(make)
        return log

    pinged, plain = talk(True), talk(False)
    trips = trips_of(pinged)
    assert trips.before.pings == 1 and trips.during.pings >= 3
    assert len(trips.during.ping_ms) == (trips.during.pings if answers else 0)
    assert [one.t_ns for one in pinged if not isinstance(one, Pinged | Ponged)] == [one.t_ns for one in plain]


def test_pongs_that_answer_nothing_are_not_logged() -> None:
    async def hold(clock: VirtualClock) -> None:
        events: list[AnyEvent] = []
        pings, transport = Pings(TimerWheel(clock)), MemoryTransport(clock)
        transport.answers_pings = False
        pings.join(transport, events.append)
        for payload in (b"", b"12345678", transport.pings[0], transport.pings[0]):
            transport.pong(payload)
        await pings.leave(transport)
        assert [type(event) for event in events] == [Pinged, Ponged]

    run_virtual(hold)


def test_a_connection_that_is_gone_is_not_pinged() -> None:
    async def hold(clock: VirtualClock) -> None:
        events: list[AnyEvent] = []
        pings, transport = Pings(TimerWheel(clock)), MemoryTransport(clock)
        transport.abort()
        pings.join(transport, events.append)
        await clock.sleep_until_ns(clock.now_ns() + 5 * NS_PER_S)
        await pings.leave(transport)
        assert events == []

    run_virtual(hold)


def turn_at(start_ns: int) -> TurnStarted:
    return TurnStarted(0, start_ns, 24_000, 24_000, 23_999, start_ns + NS_PER_S, "annotation")


def test_before_and_during_are_told_apart_by_the_first_turn() -> None:
    ms = NS_PER_MS
    events: list[AnyEvent] = [
        Connected(0, {}),
        Pinged(10 * ms, 0, tcp_ns=3 * ms, tcp_least_ns=2 * ms),
        Ponged(14 * ms, 0),
        turn_at(20 * ms),
        Pinged(20 * ms, 1, tcp_ns=None),
        Ponged(29 * ms, 1),
        Pinged(40 * ms, 2, tcp_ns=5 * ms),
    ]
    trips = trips_of(events)
    assert (trips.before.pings, trips.before.ping_ms, trips.before.tcp_ms) == (1, [4.0], [3.0])
    assert (trips.during.pings, trips.during.ping_ms, trips.during.tcp_ms) == (2, [9.0], [5.0])
    assert (trips.before.tcp_least_ms, trips.during.tcp_least_ms, trips.proxied) == (2.0, None, False)


def test_the_log_keeps_them(tmp_path: Path) -> None:
    events: list[AnyEvent] = [Pinged(1, 0, tcp_ns=7), Ponged(2, 0), Pinged(3, 1)]
    (tmp_path / "events.jsonl").write_bytes(encode_log(events))
    assert read_log(tmp_path / "events.jsonl") == events


# ---- on real sockets: order and causality, never milliseconds --------------------------------------------------------


@contextlib.asynccontextmanager
async def connected(handle: Any, **options: Any) -> AsyncIterator[WebSocketTransport]:
    async with serve(handle, "127.0.0.1", 0, compression=None, ping_interval=None, **options) as server:
        url = f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}/"
        transport = await open_websocket(url, headers={}, clock=CLOCK, timeout_s=10, byte_cap=2**20, secrets=Secrets())
        try:
            yield transport
        finally:
            await transport.close()


@pytest.mark.sockets
async def test_pongs_come_between_messages_and_are_stamped_in_order() -> None:
    async def talks(ws: ServerConnection) -> None:
        for number in range(20):
            await ws.send(f"{number}:" + "x" * 300)
            await asyncio.sleep(0.001)
        await ws.wait_closed()

    async with connected(talks) as transport:
        pongs: list[tuple[bytes, int]] = []
        transport.tell_pongs(lambda payload, t_ns: pongs.append((payload, t_ns)))
        sent = {}
        for number in range(20):
            payload = bytes((number,)) * 8
            sent[payload] = transport.ping(payload)
            message = await transport.receive()
            assert message.data.startswith(f"{number}:".encode())
        async with asyncio.timeout(10):
            while len(pongs) < len(sent):
                await asyncio.sleep(0.001)
        assert [payload for payload, _ in pongs] == list(sent)
        for payload, t_ns in pongs:
            assert (sent[payload] or 0) < t_ns <= CLOCK.now_ns()


@pytest.mark.sockets
async def test_a_reader_that_sleeps_leaves_the_stamps_unchanged() -> None:
    async def idle(ws: ServerConnection) -> None:
        await ws.wait_closed()

    async with connected(idle) as transport:
        events: list[AnyEvent] = []
        pings = Pings(TimerWheel(CLOCK))
        pings.join(transport, events.append)
        async with asyncio.timeout(10):
            while not any(isinstance(event, Ponged) for event in events):
                await asyncio.sleep(0.001)  # nobody ever asks this transport for a message
        await pings.leave(transport)
        (trip_ms,) = trips_of(events).before.ping_ms
        assert trip_ms > 0
        pinged = events[0]
        assert isinstance(pinged, Pinged)
        assert (pinged.tcp_ns is not None) == (sys.platform == "linux")
        assert pinged.tcp_least_ns is None or 0 < pinged.tcp_least_ns <= (pinged.tcp_ns or 0)


@pytest.mark.sockets
async def test_a_ping_after_the_end_is_none() -> None:
    async def leaves(ws: ServerConnection) -> None:
        await ws.close()

    async with connected(leaves) as transport:
        async with asyncio.timeout(10):
            with contextlib.suppress(Exception):
                await transport.receive()
        assert transport.ping(b"late") is None
