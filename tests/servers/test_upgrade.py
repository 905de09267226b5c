"""A client's first message in the packet of its upgrade request, or byte by byte."""

from __future__ import annotations

import asyncio
import json
import os

import pytest

from servers.app import serve
from servers.models.metronome import load_metronome

pytestmark = pytest.mark.sockets
REQUEST = (
    "GET /v1/realtime?model=m HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
FIRST = {"type": "session.update", "event_id": "first", "session": {"type": "realtime", "instructions": "Be brief."}}


def masked_frame(payload: bytes) -> bytes:
    """One client text frame (RFC 6455 §5.2), shorter than 64 kB."""
    mask = os.urandom(4)
    body = bytes(byte ^ mask[k % 4] for k, byte in enumerate(payload))
    return b"\x81\xfe" + len(payload).to_bytes(2, "big") + mask + body


async def messages_until(reader: asyncio.StreamReader, wanted: str) -> list[str]:
    """Types of the server's messages up to `wanted`."""
    await reader.readuntil(b"\r\n\r\n")
    seen: list[str] = []
    while wanted not in seen:
        first, length = await reader.readexactly(2)
        assert first == 0x81
        size = int.from_bytes(await reader.readexactly(2), "big") if length == 126 else length
        seen.append(json.loads(await reader.readexactly(size))["type"])
    return seen


@pytest.mark.parametrize("piece", [None, 1, 7])
async def test_the_first_message_may_ride_with_the_request(piece: int | None) -> None:
    async with serve(load_metronome("steady")) as server:
        request = REQUEST.format(host=f"{server.host}:{server.port}").encode()
        data = request + masked_frame(json.dumps(FIRST).ljust(130).encode())
        reader, writer = await asyncio.open_connection(server.host, server.port)
        for start in range(0, len(data), piece or len(data)):
            writer.write(data[start : start + (piece or len(data))])
            if piece:
                await asyncio.sleep(0)
        async with asyncio.timeout(10):
            assert await messages_until(reader, "session.updated") == ["session.created", "session.updated"]
        writer.close()
        await writer.wait_closed()
