"""The server as a whole, on real loopback sockets: order and bounds only."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosedError, ConnectionClosedOK, InvalidStatus

from clients.wire import openai_realtime as wire
from servers.app import RunningServer, serve
from servers.fronts import websocket as shell
from servers.models.behaviour import Behaviour, ConnectionFile, FaultAt, ReplyPlan
from servers.models.metronome import MetronomeServer, load_metronome, timeline
from servers.speech_model import Audio
from servers.write_log import Write, WriteLog, read_write_log
from sessions.clock import MonotonicClock
from sessions.errors import BadFile, SetupError
from tests.support.listening_model import ListeningServer
from tests.support.realtime_client import Json, check_schema, sound, tone, types

pytestmark = pytest.mark.sockets
QUICK = ReplyPlan(delay_ms=20, duration_ms=200, packet_ms=20)


@contextlib.asynccontextmanager
async def running(reply: ReplyPlan = QUICK, **options: Any) -> AsyncIterator[RunningServer]:
    connection = options.pop("connection", ConnectionFile())
    async with serve(MetronomeServer(Behaviour(reply=reply, connection=connection)), **options) as server:
        yield server


@contextlib.asynccontextmanager
async def talking(server: RunningServer, **options: Any) -> AsyncIterator[ClientConnection]:
    """A client with a manual session."""
    async with connect(server.url, compression=None, max_size=None, **options) as ws:
        assert json.loads(await ws.recv())["type"] == "session.created"
        await ws.send(wire.session_update(event_id="s", server_vad=None, voice="", instructions=""))
        assert json.loads(await ws.recv())["type"] == "session.updated"
        yield ws


async def ask(ws: ClientConnection) -> None:
    await ws.send(wire.append(tone(200)))
    await ws.send(wire.commit("c"))
    await ws.send(wire.create_response("r"))


async def until(ws: ClientConnection, kind: str) -> list[Json]:
    events: list[Json] = []
    while not events or events[-1]["type"] != kind:
        events.append(json.loads(await ws.recv()))
        check_schema(events[-1])
    return events


async def gone(server: RunningServer) -> None:
    """Wait until the server has no connection left."""
    async with asyncio.timeout(10):
        while len(server.connections):
            await asyncio.sleep(0.01)


# ---- turns ---------------------------------------------------------------------------------------------------------


async def test_a_turn_and_the_truth_about_it() -> None:
    clock = MonotonicClock()
    async with running() as server, talking(server) as ws:
        asked_ns = clock.now_ns()
        await ask(ws)
        events: list[Json] = []
        arrivals: list[int] = []
        while not events or events[-1]["type"] != "response.done":
            text = await ws.recv()
            arrivals.append(clock.now_ns())
            events.append(json.loads(text))
        writes = server.write_log.entries[2:]
        assert [write.type for write in writes] == types(events)
        instants = [write.t_ns for write in writes]
        assert instants == sorted(instants)
        assert all(write <= arrival for write, arrival in zip(instants, arrivals, strict=True))
        # No packet leaves before it is due; how late it was is what the log is for.
        due = [t for t, piece in timeline(QUICK, asked_ns, text_only=False) if isinstance(piece, Audio)]
        packets = [write for write in writes if write.type == "response.output_audio.delta"]
        assert all(packet.t_ns >= t for packet, t in zip(packets, due, strict=True))
        assert sum(packet.samples for packet in packets) == len(sound(events)) == 4800


async def test_connections_at_once_and_each_on_its_own() -> None:
    async def turns(server: RunningServer) -> set[str]:
        async with talking(server) as ws:
            replies = set()
            for _ in range(3):
                await ask(ws)
                events = await until(ws, "response.done")
                assert len(sound(events)) == 4800
                replies |= {event["response_id"] for event in events if "response_id" in event}
            return replies

    async with running() as server:
        replies = await asyncio.gather(*(turns(server) for _ in range(8)))
        assert [len(one) for one in replies] == [3] * 8
        assert len(set().union(*replies)) == 24
        assert len({write.connection for write in server.write_log.entries}) == 8
        await gone(server)


async def test_a_client_that_leaves_stops_its_reply() -> None:
    model = ListeningServer(hangs=True)
    async with serve(model) as server:
        async with talking(server) as ws:
            await ws.send(
                json.dumps({"type": "session.update", "session": {"type": "realtime", "instructions": "Talk."}})
            )
            await ask(ws)
            await until(ws, "response.output_audio.delta")
        await gone(server)
        assert (model.told.stopped, model.told.closed) == (1, 1)


async def test_a_client_that_vanishes_stops_its_reply() -> None:
    async with running(ReplyPlan(duration_ms=3_600_000, packet_ms=100)) as server:
        async with talking(server) as ws:
            await ask(ws)
            await until(ws, "response.output_audio.delta")
            ws.transport.abort()
        await gone(server)


async def test_a_client_that_does_not_read_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell, "MAX_UNREAD_BYTES", 2**20)
    endless = ReplyPlan(delay_ms=0, pace="interval", interval_ms=1, duration_ms=3_600_000, packet_ms=60_000)
    async with running(endless) as server:
        async with talking(server) as ws:
            await ask(ws)
            ws.transport.pause_reading()
            await gone(server)
            ws.transport.abort()
        assert 0 < sum(write.samples for write in server.write_log.entries) < 30 * 60_000 * 24


async def test_stopping_says_goodbye() -> None:
    async with running(ReplyPlan(duration_ms=3_600_000)) as server, contextlib.AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(talking(server)) for _ in range(3)]
        await ask(clients[0])
        await until(clients[0], "response.output_audio.delta")
        closing = asyncio.create_task(server.connections.close_all())  # the first thing that the end does
        for ws in clients:
            with pytest.raises(ConnectionClosedOK) as closed:
                while True:
                    await ws.recv()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1001
        await closing


# ---- the handshake -------------------------------------------------------------------------------------------------


async def test_a_key_is_wanted_where_one_is_set() -> None:
    async with running(api_key="sesame") as server:
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "sesame"}):
            with pytest.raises(InvalidStatus) as refused:
                await connect(server.url, additional_headers=headers)
            assert refused.value.response.status_code == 401
            body = json.loads(refused.value.response.body or b"")
            assert body["error"]["code"] == "invalid_api_key"
        async with talking(server, additional_headers={"Authorization": "Bearer sesame"}) as ws:
            await ask(ws)
            await until(ws, "response.done")


@pytest.mark.parametrize("status", [401, 404, 429, 503])
async def test_the_upgrade_can_be_refused_by_any_status(status: int) -> None:
    async with running(connection=ConnectionFile(refuse_status=status, refuse_body="not today")) as server:
        with pytest.raises(InvalidStatus) as refused:
            await connect(server.url)
        assert refused.value.response.status_code == status
        assert b"not today" in (refused.value.response.body or b"")


async def test_health_and_unknown_paths() -> None:
    async with running() as server, aiohttp.ClientSession() as http, talking(server):
        async with http.get(server.health_url) as answer:
            assert await answer.json() == {
                "status": "ok",
                "model": "metronome",
                "front": "openai-realtime",
                "connections": 1,
            }
        async with http.get(server.health_url.replace("health", "other")) as answer:
            assert answer.status == 404


async def test_compression_is_declined() -> None:
    async with running() as server, connect(server.url, compression="deflate") as ws:
        assert "Sec-WebSocket-Extensions" not in (ws.response.headers if ws.response else {})


async def test_the_greeting_is_seen_however_the_bytes_come() -> None:
    """A raw client that reads the 101 answer and the greeting byte by byte, and writes its request in two halves."""
    async with running() as server:
        for _ in range(20):
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            request = (
                f"GET /v1/realtime HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nUpgrade: websocket\r\n"
                "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
            ).encode()
            writer.write(request[:40])
            await writer.drain()
            writer.write(request[40:])
            head = b""
            while not head.endswith(b"\r\n\r\n"):
                head += await reader.readexactly(1)
            assert head.startswith(b"HTTP/1.1 101")
            first, length = await reader.readexactly(2)
            assert first == 0x81
            if length == 126:
                length = struct.unpack(">H", await reader.readexactly(2))[0]
            assert json.loads(await reader.readexactly(length))["type"] == "session.created"
            writer.close()
            await writer.wait_closed()
        await gone(server)


# ---- rude clients --------------------------------------------------------------------------------------------------


async def test_binary_messages_and_huge_ones() -> None:
    async with running() as server, talking(server) as ws:
        await ws.send(b"\x00\x01\xff")
        assert (await until(ws, "error"))[-1]["error"]["code"] == "invalid_json"
        await ws.send(json.dumps({"type": "input_audio_buffer.append", "event_id": "big", "audio": "A" * 20_000_000}))
        error = (await until(ws, "error"))[-1]["error"]
        assert (error["code"], error["event_id"]) == ("invalid_value", "big")
        await ask(ws)
        assert (await until(ws, "response.done"))[-1]["response"]["status"] == "completed"
        with pytest.raises(ConnectionClosedError) as closed:
            await ws.send("A" * (shell.MAX_MESSAGE_BYTES + 1))
            await ws.recv()
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1009


# ---- faults on the wire --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [1000, 1001, 1011])
async def test_a_close_in_mid_reply_carries_its_code(code: int) -> None:
    fault = FaultAt("close", at_packet=5, value=code, message="on purpose")
    async with running(ReplyPlan(delay_ms=0, pace="burst", packet_ms=20, faults=(fault,))) as server:
        async with connect(server.url) as ws:
            await ws.send(wire.session_update(event_id="s", server_vad=None, voice="", instructions=""))
            await ask(ws)
            packets = 0
            with pytest.raises((ConnectionClosedOK, ConnectionClosedError)) as closed:
                while True:
                    packets += json.loads(await ws.recv())["type"] == "response.output_audio.delta"
            assert packets == 5
            assert closed.value.rcvd is not None
            assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (code, "on purpose")
        await gone(server)


async def test_a_reset_in_mid_reply_is_a_reset() -> None:
    reply = ReplyPlan(delay_ms=0, pace="burst", packet_ms=20, faults=(FaultAt("reset", at_packet=5, delay_ms=50),))
    async with running(reply) as server:
        async with talking(server) as ws:
            await ask(ws)
            with pytest.raises(ConnectionClosedError) as closed:
                while True:
                    await ws.recv()
            assert closed.value.rcvd is None
            assert isinstance(closed.value.__cause__, ConnectionResetError)
        await gone(server)


async def test_a_blocked_loop_holds_everybody_up() -> None:
    reply = ReplyPlan(delay_ms=0, packet_ms=20, faults=(FaultAt("block_loop", at_packet=2, value=300),))
    clock = MonotonicClock()
    async with running(reply) as server, talking(server) as ws:
        await ask(ws)
        await until(ws, "response.output_audio.delta")
        await until(ws, "response.output_audio.delta")
        since_ns = clock.now_ns()
        pong = await ws.ping()
        await until(ws, "response.output_audio.delta")
        await pong
        packets = [w.t_ns for w in server.write_log.entries if w.type == "response.output_audio.delta"]
        assert packets[2] - packets[1] >= 300_000_000
        assert clock.now_ns() - since_ns >= 200_000_000


# ---- starting and stopping -----------------------------------------------------------------------------------------


async def test_a_port_in_use_is_one_line_with_the_mend() -> None:
    async with running() as server:
        with pytest.raises(SetupError, match=rf"port {server.port} of 127.0.0.1 is in use. .*--port"):
            async with running(port=server.port):
                pass


async def test_a_port_in_use_is_told_before_anything_is_loaded_or_emptied(tmp_path: Path) -> None:
    class Heavy(MetronomeServer):
        async def start(self) -> None:
            raise AssertionError("loaded for nothing")

    log = tmp_path / "writes.jsonl"
    async with running(write_log=WriteLog(log)) as server:
        async with talking(server):
            pass
        await gone(server)
        with pytest.raises(SetupError, match="is in use"):
            async with serve(Heavy(Behaviour()), port=server.port, write_log=WriteLog(log)):
                pass
    assert [entry.type for entry in read_write_log(log)] == ["session.created", "session.updated"]


async def test_an_address_that_is_not_ours_and_an_unknown_front() -> None:
    with pytest.raises(SetupError, match=r"cannot listen on 203\.0\.113\.1"):
        async with running(host="203.0.113.1"):
            pass
    with pytest.raises(SetupError, match="openai-realtime"):
        async with running(front="openai-real-time"):
            pass


def test_the_write_log_reaches_its_file(tmp_path: Path) -> None:
    path = tmp_path / "writes.jsonl"
    path.write_text("what another server wrote\n")
    log = WriteLog(path)
    assert path.read_text()  # until the address is ours, the file is not
    log.begin()
    entries = [Write(n, "1", "response.output_audio.delta", "r", n) for n in range(1000)]
    for entry in entries:
        log.add(entry)
    log.close()
    assert read_write_log(path) == entries == log.entries


def test_a_write_log_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="cannot be written"):
        WriteLog(tmp_path / "none" / "writes.jsonl")
    path = tmp_path / "writes.jsonl"
    log = WriteLog(path)
    log.begin()
    path.unlink()
    path.mkdir()  # stands for a disk that fails in the middle
    log.add(Write(1, "1", "x"))
    with pytest.raises(SetupError, match="is not complete"):
        log.close()
    (tmp_path / "bad.jsonl").write_text('{"t_ns":1,"connection":"1","type":"x"}\n{"t_ns":"x"}\n')
    with pytest.raises(BadFile, match=r"bad.jsonl:2"):
        read_write_log(tmp_path / "bad.jsonl")


SERVE = (sys.executable, "-c", "from harness.cli.main import main; main()", "serve")


def _run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*SERVE, *arguments], capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_the_command_serves_until_it_is_told_to_stop(tmp_path: Path, number: signal.Signals) -> None:
    log = tmp_path / "writes.jsonl"
    options = ("--metronome", "steady", "--port", "0", "--write-log", str(log), "--json", "--nice", "1")
    process = await asyncio.create_subprocess_exec(*SERVE, *options, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert process.stdout is not None
        place = json.loads(await process.stdout.readline())
        assert (place["pid"], place["model"]) == (process.pid, "metronome")
        async with connect(place["url"], compression=None) as ws:
            assert json.loads(await ws.recv())["type"] == "session.created"
            process.send_signal(number)
            with pytest.raises(ConnectionClosedOK):
                await ws.recv()
        _, complaints = await asyncio.wait_for(process.communicate(), 30)
        assert (process.returncode, complaints) == (0, b"")
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    assert [entry.type for entry in read_write_log(log)] == ["session.created"]


_SLOW = """
import asyncio, time
from servers.app import run_forever
from servers.models.behaviour import Behaviour
from servers.models.metronome import MetronomeServer

class Slow(MetronomeServer):
    async def start(self):
        loading = asyncio.to_thread(time.sleep, 600)
        asyncio.get_running_loop().call_later(0.1, lambda: print("loading", flush=True))
        await loading

asyncio.run(run_forever(Slow(Behaviour()), on_ready=print, host="127.0.0.1", port=0))
"""


async def test_a_second_interrupt_ends_it_at_once_even_while_it_loads() -> None:
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", _SLOW, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert await process.stdout.readline() == b"loading\n"
        async with asyncio.timeout(60):
            while process.returncode is None:
                process.send_signal(signal.SIGINT)
                await asyncio.sleep(0.2)
        assert process.returncode == -signal.SIGINT
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def test_a_standard_input_that_is_not_there_is_no_way_to_stop() -> None:
    command = ["/bin/sh", "-c", 'exec "$@" 0<&-', "sh", *SERVE, "--metronome", "steady", "--stop-with-stdin"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no standard input" in done.stderr


def test_the_command_says_what_is_wrong_in_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        cases = {
            ("--metronome", "stedy"): "steady",
            ("--metronome", "steady", "--port", port): "is in use",
            ("--metronome", "steady", "--api-key-env", "DUOLOGUE_NO_SUCH_KEY"): "export DUOLOGUE_NO_SUCH_KEY",
        }
        for arguments, word in cases.items():
            done = _run(*arguments)
            assert (done.returncode, done.stdout) == (2, "")
            assert word in done.stderr
            assert done.stderr.count("\n") == 1


def test_the_behaviours_are_listed() -> None:
    done = _run("--metronome", "list")
    assert (done.returncode, done.stderr) == (0, "")
    assert "steady" in done.stdout
    assert load_metronome("steady").name == "metronome"
