"""The peer of the capacity benchmark, as cheap as can be: a WebSocket server that reads and throws away.

On a path that ends in /duplex it sends a 20 ms audio message to every connection every 20 ms, rendered once for all.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import itertools
import re
from typing import cast

import click
import numpy as np

from clients.wire.openai_realtime import encode
from clients.wire.pcm import encode_base64
from harness.load.descriptors import room_for
from harness.runs.loop import run_timed
from sessions.clock import NS_PER_MS, MonotonicClock

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
PHASES = 20
"""One a millisecond: connections are spread over the frame's 20 ms."""


def frame(text: str) -> bytes:
    """One unmasked text frame of less than 64 kB."""
    payload = text.encode()
    size = len(payload)
    head = bytes((0x81, size)) if size < 126 else bytes((0x81, 126)) + size.to_bytes(2)
    return head + payload


CREATED = frame(encode("session.created", event_id="e1", session={"type": "realtime"}))
UPDATED = frame(encode("session.updated", event_id="e2", session={"type": "realtime"}))
BEGUN = frame(encode("response.created", event_id="e3", response={"id": "r", "status": "in_progress"}))
_TONE = np.round(8000 * np.cos(2 * np.pi * 220 * np.arange(480) / 24_000)).astype(np.int16)
DELTA = frame(
    encode("response.output_audio.delta", event_id="e4", response_id="r", item_id="i", delta=encode_base64(_TONE))
)


class Sink(asyncio.Protocol):
    """One connection. phases: where those that want audio join."""

    def __init__(self, phases: list[list[asyncio.Transport]], number: int) -> None:
        self._phase = phases[number % PHASES]
        self._head = b""
        self._state = "handshake"
        self._duplex = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's own is none by inheritance
        self._transport.set_write_buffer_limits(high=0)

    def data_received(self, data: bytes) -> None:
        if self._state == "streaming":
            return
        if self._state == "handshake":
            self._head += data
            if b"\r\n\r\n" in self._head:
                self._upgrade()
            return
        self._state = "streaming"
        self._transport.write(UPDATED)
        if self._duplex:
            self._transport.write(BEGUN)
            self._phase.append(self._transport)

    def _upgrade(self) -> None:
        key = re.search(rb"(?i)sec-websocket-key: *(\S+)", self._head)
        assert key is not None
        accept = base64.b64encode(hashlib.sha1(key[1] + _GUID).digest())
        self._duplex = b"/duplex " in self._head.split(b"\r\n", 1)[0]
        self._state = "set-up"
        lines = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        self._transport.write(lines + b"Sec-WebSocket-Accept: " + accept + b"\r\n\r\n" + CREATED)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport in self._phase:
            self._phase.remove(self._transport)


async def main() -> None:
    clock = MonotonicClock()
    phases: list[list[asyncio.Transport]] = [[] for _ in range(PHASES)]
    numbers = itertools.count()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Sink(phases, next(numbers)), "127.0.0.1", 0, backlog=4096)
    click.echo(f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    start_ns = clock.now_ns()
    for k in itertools.count():
        await clock.sleep_until_ns(start_ns + k * NS_PER_MS)
        for transport in phases[k % PHASES]:
            transport.write(DELTA)


if __name__ == "__main__":
    room_for(8000)
    run_timed(main())
