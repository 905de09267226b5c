"""Scripted servers for the client's tests: a coroutine over a `Wire`, in memory on the virtual clock or on a socket."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Protocol

import numpy as np
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed as WsClosed

from clients.transports import Connection, Message, Take, TcpRoundTrip
from clients.wire.pcm import encode_base64
from sessions.clock import NS_PER_S, Clock
from sessions.errors import ConnectionClosed, ConnectionReset, TransportError


class Wire(Protocol):
    """The server's end of one connection."""

    clock: Clock

    async def receive(self) -> dict[str, Any]:
        """The client's next message. Raises `Gone` when it left."""
        ...

    async def send(self, message: dict[str, Any] | str | bytes) -> int:
        """Write one message; the instant just before the write."""
        ...

    async def close(self, code: int = 1000, reason: str = "") -> None: ...

    async def reset(self) -> None: ...


Peer = Callable[[Wire], Awaitable[None]]


class Gone(Exception):
    """The client closed the connection."""


class MemoryTransport:
    """The client's end. A message takes no time."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.connection = Connection(clock.now_ns())
        self.to_client: deque[Message] = deque()
        self.to_server: asyncio.Queue[str | None] = asyncio.Queue()
        self.news = asyncio.Event()
        self.ended: TransportError | None = None
        self.last_sign_ns = clock.now_ns()
        self.unread_bytes = 0
        self.is_released = False
        self.sent: list[tuple[int, str]] = []
        self.take: Take = lambda data, t_ns, first_ns, binary: False
        self.pings: list[bytes] = []
        self.answers_pings = True
        self.on_pong: Callable[[bytes, int], None] = lambda payload, t_ns: None

    async def send(self, text: str) -> int:
        if self.ended is not None:
            raise self.ended
        self.sent.append((self.clock.now_ns(), text))
        self.to_server.put_nowait(text)
        return self.clock.now_ns()

    def send_now(self, payload: bytes) -> int | None:
        if self.ended is not None:
            return None
        self.sent.append((self.clock.now_ns(), payload.decode()))
        self.to_server.put_nowait(payload.decode())
        return self.clock.now_ns()

    def offer(self, take: Take) -> None:
        self.take = take

    async def receive(self) -> Message:
        while not self.to_client:
            if self.ended is not None:
                raise self.ended
            self.news.clear()
            await self.news.wait()
        return self.to_client.popleft()

    @property
    def buffered_bytes(self) -> int:
        return self.unread_bytes

    def ping(self, payload: bytes) -> int | None:
        if self.ended is not None:
            return None
        now_ns = self.clock.now_ns()
        self.pings.append(payload)
        if self.answers_pings:
            self.pong(payload)
        return now_ns

    def pong(self, payload: bytes) -> None:
        self.on_pong(payload, self.clock.now_ns())

    def release(self) -> None:
        self.is_released = True

    def tell_pongs(self, told: Callable[[bytes, int], None]) -> None:
        self.on_pong = told

    def tcp_round_trip(self) -> TcpRoundTrip | None:
        return None

    def push(self, data: bytes, binary: bool) -> None:
        now_ns = self.last_sign_ns = self.clock.now_ns()
        if not self.to_client and self.take(data, now_ns, now_ns, binary):
            return
        self.to_client.append(Message(data, now_ns, now_ns, binary))
        self.news.set()

    def end(self, error: TransportError) -> None:
        if self.ended is None:
            self.ended = error
            self.to_server.put_nowait(None)
            self.news.set()

    async def close(self) -> None:
        self.end(ConnectionClosed("us", 1000))

    def abort(self) -> None:
        self.end(ConnectionReset("aborted"))


class MemoryWire:
    def __init__(self, transport: MemoryTransport) -> None:
        self._transport = transport
        self.clock = transport.clock

    async def receive(self) -> dict[str, Any]:
        text = await self._transport.to_server.get()
        if text is None:
            raise Gone
        message: dict[str, Any] = json.loads(text)
        return message

    async def send(self, message: dict[str, Any] | str | bytes) -> int:
        data, binary = _encoded(message)
        if self._transport.ended is not None:
            raise Gone
        self._transport.push(data, binary)
        return self.clock.now_ns()

    async def close(self, code: int = 1000, reason: str = "") -> None:
        self._transport.end(ConnectionClosed("peer", code, reason))

    async def reset(self) -> None:
        self._transport.end(ConnectionReset("reset by peer"))


def _encoded(message: dict[str, Any] | str | bytes) -> tuple[bytes, bool]:
    if isinstance(message, bytes):
        return message, True
    return (message if isinstance(message, str) else json.dumps(message)).encode(), False


@contextlib.asynccontextmanager
async def in_memory(peer: Peer, clock: Clock) -> AsyncIterator[Callable[[], Awaitable[MemoryTransport]]]:
    """Yields a connect function; each connection runs `peer`, which is stopped in the end."""
    tasks = []

    async def connect() -> MemoryTransport:
        transport = MemoryTransport(clock)
        tasks.append(asyncio.create_task(_run(peer, MemoryWire(transport))))
        return transport

    try:
        yield connect
    finally:
        await _stop(tasks)


class SocketWire:
    def __init__(self, ws: ServerConnection, clock: Clock) -> None:
        self._ws = ws
        self.clock = clock

    async def receive(self) -> dict[str, Any]:
        try:
            message: dict[str, Any] = json.loads(await self._ws.recv())
        except WsClosed as error:
            raise Gone from error
        return message

    async def send(self, message: dict[str, Any] | str | bytes) -> int:
        data, binary = _encoded(message)
        t_ns = self.clock.now_ns()
        try:
            await self._ws.send(data, text=not binary)
        except WsClosed as error:
            raise Gone from error
        return t_ns

    async def close(self, code: int = 1000, reason: str = "") -> None:
        await self._ws.close(code, reason)

    async def reset(self) -> None:
        import socket
        import struct

        sock = self._ws.transport.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._ws.transport.abort()


@contextlib.asynccontextmanager
async def on_a_socket(peer: Peer, clock: Clock, **options: Any) -> AsyncIterator[str]:
    """Yields the ws:// address of a server on a free loopback port that runs `peer` on every connection."""

    async def handle(ws: ServerConnection) -> None:
        await _run(peer, SocketWire(ws, clock))

    settings: dict[str, Any] = {"compression": None, "ping_interval": None, "max_size": None, "close_timeout": 1}
    async with serve(handle, "127.0.0.1", 0, **(settings | options)) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        scheme = "wss" if options.get("ssl") else "ws"
        yield f"{scheme}://127.0.0.1:{port}/v1/realtime"


async def _run(peer: Peer, wire: Wire) -> None:
    with contextlib.suppress(Gone):
        await peer(wire)


async def _stop(tasks: list[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    for result in results:
        if isinstance(result, Exception):
            raise result


# ---- pieces that scripted peers are made of ----------------------------------------------------------------------


async def greet(wire: Wire) -> None:
    """session.created, then wait for session.update and accept it."""
    await wire.send({"type": "session.created", "event_id": "e1", "session": {"type": "realtime"}})
    while (await wire.receive())["type"] != "session.update":
        pass
    await wire.send({"type": "session.updated", "event_id": "e2", "session": {"type": "realtime"}})


async def request(wire: Wire) -> int:
    """Read until the client asks for a reply; how many samples it appended since the last time."""
    samples = 0
    while True:
        message = await wire.receive()
        if message["type"] == "input_audio_buffer.append":
            samples += len(message["audio"]) * 3 // 4 // 2
        elif message["type"] == "response.create":
            return samples


def created(reply: str) -> dict[str, Any]:
    return {"type": "response.created", "response": {"id": reply, "status": "in_progress"}}


def audio(reply: str, pcm: np.ndarray[Any, np.dtype[np.int16]]) -> dict[str, Any]:
    return raw_audio(reply, encode_base64(pcm))


def raw_audio(reply: str, delta: str) -> dict[str, Any]:
    return {"type": "response.output_audio.delta", "response_id": reply, "item_id": f"item-{reply}", "delta": delta}


def text(reply: str, words: str) -> dict[str, Any]:
    return {"type": "response.output_audio_transcript.delta", "response_id": reply, "item_id": "i", "delta": words}


def done(reply: str, status: str = "completed", **fields: Any) -> dict[str, Any]:
    return {"type": "response.done", "response": {"id": reply, "status": status, **fields}}


def tone(duration_ms: float, rate_hz: int = 24_000, level: float = 0.2) -> np.ndarray[Any, np.dtype[np.int16]]:
    """int16 (samples,): 440 Hz, loud from its first sample on."""
    t = np.arange(round(duration_ms * rate_hz / 1000)) / rate_hz
    return np.round(level * 32767 * np.cos(2 * np.pi * 440 * t)).astype(np.int16)


async def sleep_ms(wire: Wire, ms: float) -> None:
    await wire.clock.sleep_until_ns(wire.clock.now_ns() + round(ms * NS_PER_S / 1000))
