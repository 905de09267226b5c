"""The shell around a WebSocket front: upgrade, stamps, limits and the end of a connection. Knows no protocol."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import socket
import struct
from collections.abc import Awaitable, Callable
from typing import Protocol

from aiohttp import WSCloseCode, WSMsgType, web

from sessions.clock import Clock

_log = logging.getLogger("duologue.serve")

MAX_MESSAGE_BYTES = 64 * 2**20
"""Larger ones close the connection (1009). A front refuses much smaller ones in its own words."""

MAX_UNREAD_BYTES = 64 * 2**20
"""More than this written and not read by the client, and the client is given up."""

_CLOSE_TIMEOUT_S = 2.0
_NEVER_WAIT = 2**62
"""Writes are never held back for a slow reader: that would delay the next packet. `MAX_UNREAD_BYTES` bounds them."""


class Connection(Protocol):
    """A protocol's side of one connection."""

    async def open(self) -> None: ...

    async def on_message(self, text: str, t_ns: int) -> None: ...

    async def on_disconnect(self) -> None: ...


class ConnectionIO:
    """How a connection writes and ends: `send`, `close` and `abort` of one socket."""

    def __init__(self, request: web.Request, ws: web.WebSocketResponse, name: str) -> None:
        transport = request.transport
        assert transport is not None  # there is one until the handler ends
        self._transport: asyncio.Transport = transport
        self._ws, self.name = ws, name

    async def send(self, text: str) -> None:
        """Write at once. Raises `ConnectionError` when the client is gone or does not read."""
        self._give_up_if_unread()
        await self._ws.send_str(text)

    async def send_raw(self, data: bytes, *, binary: bool) -> None:
        """As `send`, the message byte for byte, whether or not it is UTF-8."""
        self._give_up_if_unread()
        await self._ws.send_frame(data, WSMsgType.BINARY if binary else WSMsgType.TEXT)

    async def pong(self, data: bytes) -> None:
        """Answer a ping. Raises as `send` does: a client that only pings and never reads is given up too."""
        self._give_up_if_unread()
        await self._ws.pong(data)

    def _give_up_if_unread(self) -> None:
        if self._transport.get_write_buffer_size() > MAX_UNREAD_BYTES:
            _log.warning("connection %s: the client does not read; given up", self.name)
            self.abort()
            raise ConnectionResetError("the client does not read")

    async def close(self, code: int, reason: str) -> None:
        # 123 bytes are what a close frame has room for.
        await self._ws.close(code=code, message=reason.encode()[:123])

    def hang_up(self) -> None:
        """End the TCP connection without a close frame."""
        self._transport.close()

    def abort(self) -> None:
        """Break the TCP connection with a reset."""
        sock = self._transport.get_extra_info("socket")
        if sock is not None:
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self._transport.abort()


class OpenConnections:
    """The connections of a server, so that it can count them and close them in order."""

    def __init__(self) -> None:
        self._numbers = itertools.count(1)
        self._open: dict[str, web.WebSocketResponse] = {}

    def __len__(self) -> int:
        return len(self._open)

    async def close_all(self) -> None:
        closings = [
            ws.close(code=WSCloseCode.GOING_AWAY, message=b"the server is stopping") for ws in self._open.values()
        ]
        await asyncio.gather(*closings, return_exceptions=True)  # one that breaks meanwhile is closed as well

    async def serve(
        self, request: web.Request, clock: Clock, connect: Callable[[ConnectionIO], Connection]
    ) -> web.WebSocketResponse:
        """Upgrade `request` and carry its messages to the connection that `connect` makes, until it ends."""
        ws = web.WebSocketResponse(
            autoping=False,
            compress=False,
            max_msg_size=MAX_MESSAGE_BYTES,
            timeout=_CLOSE_TIMEOUT_S,
            writer_limit=_NEVER_WAIT,
            protocols=("realtime",),
        )
        name = str(next(self._numbers))
        await ws.prepare(request)
        _tune(request)
        io = ConnectionIO(request, ws, name)
        connection = connect(io)
        self._open[name] = ws
        try:
            await connection.open()
            await _carry(ws, clock, io, connection.on_message)
        except ConnectionError:
            _log.info("connection %s: lost", name)
        finally:
            try:
                await connection.on_disconnect()
            finally:
                del self._open[name]
        return ws


async def _carry(
    ws: web.WebSocketResponse, clock: Clock, io: ConnectionIO, on_message: Callable[[str, int], Awaitable[None]]
) -> None:
    async for message in ws:
        t_ns = clock.now_ns()
        if message.type is WSMsgType.TEXT:
            await on_message(message.data, t_ns)
        elif message.type is WSMsgType.BINARY:
            # No text protocol takes these; as text they are refused in its own words.
            await on_message(message.data.decode("utf-8", "replace"), t_ns)
        elif message.type is WSMsgType.PING:
            await io.pong(message.data)


def _tune(request: web.Request) -> None:
    """Packets leave at once, and a client whose machine has gone is noticed in about two minutes."""
    sock = request.transport.get_extra_info("socket") if request.transport is not None else None
    if sock is None:
        return
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4)):
            if hasattr(socket, option):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
