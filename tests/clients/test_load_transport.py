"""The short way through the WebSocket stream: whatever is cut or mixed, the messages are those that were sent."""

from __future__ import annotations

import asyncio
import random

import pytest

from sessions.clock import MonotonicClock
from sessions.errors import TransportError
from tests.clients.test_websocket_transport import dial, raw_server

CLOCK = MonotonicClock()


def frame(first: int, payload: bytes) -> bytes:
    """One unmasked frame. first: FIN and opcode."""
    size = len(payload)
    if size < 126:
        head = bytes((first, size))
    elif size < 65536:
        head = bytes((first, 126)) + size.to_bytes(2)
    else:
        head = bytes((first, 127)) + size.to_bytes(8)
    return head + payload


def traffic(draw: random.Random) -> tuple[list[tuple[bytes, bool]], bytes]:
    """Messages, and the bytes that say them: whole ones, fragmented ones with a ping inside, tiny, empty and huge."""
    messages, stream = [], b""
    for _ in range(60):
        size = draw.choice([0, 1, 3, 125, 126, 127, 1300, 65535, 65536, 70000])
        payload, binary = draw.randbytes(size), draw.random() < 0.3
        opcode = 2 if binary else 1
        messages.append((payload, binary))
        if draw.random() < 0.3:
            cut = draw.randrange(size + 1)
            stream += frame(opcode, payload[:cut]) + frame(0x89, b"ping") + frame(0x80, payload[cut:])
        else:
            stream += frame(0x80 | opcode, payload)
        if draw.random() < 0.2:
            stream += frame(0x8A, b"unasked pong")
    return messages, stream


@pytest.mark.sockets
@pytest.mark.parametrize("seed", range(6))
async def test_any_mixture_cut_anywhere_is_what_was_sent(seed: int) -> None:
    draw = random.Random(seed)
    messages, stream = traffic(draw)
    pieces, at = [], 0
    while at < len(stream):
        size = draw.choice([1, 2, 5, 200, 1400, 9000, 100_000])
        pieces.append(stream[at : at + size])
        at += size
    async with raw_server(b"%101%", *pieces) as url:
        transport = await dial(url)
        got = []
        stamps = []
        async with asyncio.timeout(30):
            for _ in messages:
                message = await transport.receive()
                got.append((message.data, message.binary))
                stamps.append((message.first_ns, message.t_ns))
        assert [len(data) for data, _ in got] == [len(data) for data, _ in messages]
        assert got == messages
        assert all(first_ns <= t_ns for first_ns, t_ns in stamps)
        assert stamps == sorted(stamps)
        transport.abort()
        with pytest.raises(TransportError):
            await transport.receive()
