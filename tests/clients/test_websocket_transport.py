"""The stamping transport on real loopback sockets: order and bounds, never milliseconds."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import ssl
from collections.abc import AsyncIterator
from typing import Any

import pytest
import trustme
from websockets.utils import accept_key

from clients.transports.byte_clock import ByteClock
from clients.transports.websocket import WebSocketTransport, open_websocket
from sessions.clock import NS_PER_MS, MonotonicClock
from sessions.errors import (
    ConnectFailed,
    ConnectionClosed,
    ConnectionReset,
    ConnectTimeout,
    Flood,
    HandshakeRefused,
    SetupError,
)
from sessions.secrets import Secrets
from tests.support.peers import Peer, Wire, on_a_socket

pytestmark = pytest.mark.sockets
CLOCK = MonotonicClock()
RESPONSE = (
    "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Accept: {key}\r\n\r\n"
)


async def dial(url: str, **settings: Any) -> WebSocketTransport:
    options: dict[str, Any] = {"headers": {}, "timeout_s": 5, "byte_cap": 2**28, "secrets": Secrets()} | settings
    return await open_websocket(url, clock=CLOCK, **options)


@contextlib.asynccontextmanager
async def raw_server(*writes: bytes, piece: int = 0) -> AsyncIterator[str]:
    """Answers the upgrade by hand: each of `writes` is one send (the 101 stands in them as b"%101%").

    piece: cut every write into sends of that many bytes.
    """
    writers: list[asyncio.StreamWriter] = []

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        request = (await reader.readuntil(b"\r\n\r\n")).decode()
        key = re.search(r"(?i)sec-websocket-key: (\S+)", request)
        assert key is not None
        response = RESPONSE.format(key=accept_key(key[1])).encode()
        for data in writes:
            whole = data.replace(b"%101%", response)
            for start in range(0, len(whole), piece or len(whole)):
                writer.write(whole[start : start + (piece or len(whole))])
                await asyncio.sleep(0.001)

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    async with server:
        yield f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1/realtime"
        for writer in writers:
            writer.transport.abort()
            with contextlib.suppress(OSError):
                await writer.wait_closed()


def frame(payload: bytes) -> bytes:
    """One unmasked text frame."""
    size = len(payload)
    length = bytes([size]) if size < 126 else bytes([126]) + size.to_bytes(2, "big")
    return b"\x81" + length + payload


async def test_first_message_may_ride_with_the_101() -> None:
    """In one send with the response, every time."""
    async with raw_server(b"%101%" + frame(b'{"type":"session.created"}')) as url:
        for _ in range(500):
            transport = await dial(url)
            message = await transport.receive()
            assert json.loads(message.data)["type"] == "session.created"
            assert message.first_ns <= message.t_ns
            assert message.t_ns == transport.connection.connected_ns
            transport.abort()


async def test_first_message_byte_by_byte() -> None:
    """The first frame one byte at a time: stamped once, by its last byte; its first byte came earlier."""
    payload = frame(b'{"type":"session.created"}')
    async with raw_server(b"%101%", *(payload[k : k + 1] for k in range(len(payload)))) as url:
        transport = await dial(url)
        message = await transport.receive()
        assert message.data == payload[2:]
        assert transport.connection.connected_ns <= message.first_ns < message.t_ns
        transport.abort()


@pytest.mark.parametrize("piece", [1, 60, 150])
async def test_the_cut_may_lie_anywhere_in_the_response(piece: int) -> None:
    """Inside the headers of the 101, or between them and the first frame."""
    async with raw_server(b"%101%" + frame(b'{"type":"session.created"}'), piece=piece) as url:
        transport = await dial(url)
        message = await transport.receive()
        assert json.loads(message.data)["type"] == "session.created"
        assert transport.connection.connected_ns <= message.t_ns
        transport.abort()


async def test_a_sleeping_consumer_changes_no_stamp() -> None:
    """200 messages 1 ms apart, read only after half a second of silence from the consumer."""
    sent_ns: list[int] = []

    async def peer(wire: Wire) -> None:
        await wire.receive()
        for k in range(200):
            sent_ns.append(await wire.send({"type": "x", "k": k}))
            await asyncio.sleep(0.001)
        await wire.receive()

    async with on_a_socket(peer, CLOCK) as url:
        transport = await dial(url)
        await transport.send('{"type":"go"}')
        await asyncio.sleep(0.5)
        woke_ns = CLOCK.now_ns()
        messages = [await transport.receive() for _ in range(200)]
        assert [json.loads(m.data)["k"] for m in messages] == list(range(200))
        stamps = [m.t_ns for m in messages]
        assert stamps == sorted(stamps)
        assert all(stamp >= sent for stamp, sent in zip(stamps, sent_ns, strict=True))
        early = sum(stamp < woke_ns - 50 * NS_PER_MS for stamp in stamps)
        assert early >= 100, "stamps follow the arrivals, not the reading"
        await transport.close()


async def test_a_message_of_20_mb_is_stamped_once() -> None:
    big = "x" * (20 * 2**20)

    async def peer(wire: Wire) -> None:
        await wire.send(big)
        await wire.send("after")
        with contextlib.suppress(Exception):
            await wire.receive()

    async with on_a_socket(peer, CLOCK) as url:
        transport = await dial(url)
        first, second = await transport.receive(), await transport.receive()
        assert (len(first.data), second.data) == (len(big), b"after")
        assert first.first_ns < first.t_ns <= second.t_ns
        await transport.close()


async def test_a_flood_is_cut_off_at_the_cap() -> None:
    async def peer(wire: Wire) -> None:
        while True:
            await wire.send("x" * 65_536)

    async with on_a_socket(peer, CLOCK) as url:
        transport = await dial(url, byte_cap=2**20)
        with pytest.raises(Flood, match="1048576 bytes"):
            while True:
                await transport.receive()


async def _closes(wire: Wire) -> None:
    await wire.close(1011, "tired")


async def _resets(wire: Wire) -> None:
    await wire.receive()
    await wire.reset()


async def test_who_closed_is_told() -> None:
    async with on_a_socket(_closes, CLOCK) as url:
        transport = await dial(url)
        with pytest.raises(ConnectionClosed) as closed:
            await transport.receive()
        assert (closed.value.by, closed.value.code, closed.value.reason) == ("peer", 1011, "tired")
    async with on_a_socket(_resets, CLOCK) as url:
        transport = await dial(url)
        await transport.send("{}")
        with pytest.raises(ConnectionReset):
            await transport.receive()


async def test_a_close_frame_is_the_end_even_if_the_connection_stays_open() -> None:
    """The peer says goodbye and does not hang up: neither reading, writing nor closing waits for it."""
    async with raw_server(b"%101%" + frame(b"last") + b"\x88\x02\x03\xe8") as url:
        async with asyncio.timeout(10):  # the library alone would wait for its keepalive, 20 s
            transport = await dial(url)
            assert (await transport.receive()).data == b"last"
            with pytest.raises(ConnectionClosed) as closed:
                await transport.receive()
            assert (closed.value.by, closed.value.code) == ("peer", 1000)
            with pytest.raises(ConnectionClosed):
                await transport.send("too late")
            await transport.close()


async def _idle(wire: Wire) -> None:
    await wire.receive()


BROKEN_RULES = {
    "incorrect masking": b"\x81\x85abcdhello",
    "reserved bits must be 0": b"\xc1\x05hello",
    "invalid opcode": b"\x83\x05hello",
    "control frame too long": b"\x89\x7e\x01\x00" + b"x" * 256,
    "fragmented control frame": b"\x09\x01x",
    "unexpected continuation frame": b"\x80\x01x",
    "expected a continuation frame": b"\x01\x01a\x81\x01b",
    "invalid status code": b"\x88\x02\x00\x01",
}


@pytest.mark.parametrize("rule", BROKEN_RULES)
@pytest.mark.parametrize("with_another", [False, True])
async def test_a_broken_rule_ends_the_connection_at_once_and_is_named(rule: str, with_another: bool) -> None:
    """The server keeps the connection open; nothing that follows is read. Not a silence: no limit has to pass."""
    before, wrong = frame(b'{"type":"x"}'), BROKEN_RULES[rule] + frame(b"ignored")
    writes = [b"%101%" + before + wrong] if with_another else [b"%101%" + before, wrong]
    async with raw_server(*writes) as url:
        async with asyncio.timeout(20):
            transport = await dial(url)
            assert (await transport.receive()).data == b'{"type":"x"}'
            with pytest.raises(ConnectionClosed, match=f"the server broke the WebSocket protocol: {rule}") as closed:
                await transport.receive()
            assert (closed.value.by, closed.value.code) == ("us", 1002)
            with pytest.raises(ConnectionClosed):
                await transport.send("too late")
            await transport.close()


async def test_phases_are_told_apart() -> None:
    authority = trustme.CA()
    server_tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(server_tls)
    client_tls = ssl.create_default_context()
    authority.configure_trust(client_tls)
    async with on_a_socket(_idle, CLOCK, ssl=server_tls) as url:
        transport = await dial(url, tls=client_tls)
        assert set(transport.connection.phases_ns) == {"dns", "tcp", "tls", "upgrade"}
        assert all(ns >= 0 for ns in transport.connection.phases_ns.values())
        await transport.close()
        with pytest.raises(ConnectFailed, match="TLS failed"):
            await dial(url)
        with pytest.raises(ConnectFailed):
            await dial(url.replace("wss:", "ws:"))
    async with on_a_socket(_idle, CLOCK) as url:
        with pytest.raises(ConnectFailed, match="use ws:// instead"):
            await dial(url.replace("ws:", "wss:"))


async def test_bad_addresses_are_one_clear_line() -> None:
    with pytest.raises(SetupError, match="ws://"):
        await dial("http://127.0.0.1:1/")
    with pytest.raises(SetupError, match="not valid"):
        await dial("ws://127.0.0.1:notaport/")
    with pytest.raises(ConnectFailed, match="nothing listens"):
        await dial("ws://127.0.0.1:1/v1/realtime")
    with pytest.raises(ConnectFailed, match="not known"):
        await dial("ws://no-such-host.invalid/v1/realtime")


async def test_http_refusals_keep_their_status_and_no_secret() -> None:
    from http import HTTPStatus

    def refuse(connection: Any, request: Any) -> Any:
        return connection.respond(HTTPStatus.UNAUTHORIZED, f"bad key {request.headers['Authorization']}\n")

    secrets = Secrets()
    secrets.add("canary-1234")
    async with on_a_socket(_idle, CLOCK, process_request=refuse) as url:
        with pytest.raises(HandshakeRefused) as refused:
            await dial(url, headers={"Authorization": "Bearer canary-1234"}, secrets=secrets)
    assert refused.value.status == 401
    assert "canary" not in str(refused.value)
    assert "--api-key-env" in str(refused.value)


async def test_a_server_that_never_answers_the_upgrade_times_out() -> None:
    async with raw_server() as url:
        with pytest.raises(ConnectTimeout, match="within"):
            await dial(url, timeout_s=0.2)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "[::1]"])
async def test_loopback_is_never_proxied(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    async with _serve_all(_idle) as port:
        transport = await dial(f"ws://{host}:{port}/v1/realtime")
        assert transport.connection.proxy == ""
        await transport.close()


@contextlib.asynccontextmanager
async def _serve_all(peer: Peer) -> AsyncIterator[int]:
    """Both loopback addresses on one port."""
    from websockets.asyncio.server import serve

    from tests.support.peers import SocketWire

    async def handle(ws: Any) -> None:
        with contextlib.suppress(Exception):
            await peer(SocketWire(ws, CLOCK))

    async with serve(handle, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        async with serve(handle, "::1", port):
            yield port


async def test_a_proxy_that_refuses_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://someone:hunter22@127.0.0.1:1")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    with pytest.raises(ConnectFailed, match=r"proxy http://127\.0\.0\.1:1 refused") as failed:
        await dial("ws://example.invalid/v1/realtime")
    assert "hunter22" not in str(failed.value)


def test_byte_clock_knows_which_arrival_brought_the_first_byte() -> None:
    clock = ByteClock()
    clock.arrived(10, 1)
    clock.arrived(5, 2)
    assert clock.consume(12) == 1
    assert clock.consume(3) == 2
    clock.arrived(1, 3)
    clock.arrived(9, 4)
    assert clock.consume(10) == 3
