"""The loopback floor: a round trip between a bare `websockets` client and server in two processes."""

from __future__ import annotations

import asyncio
import sys

from websockets.asyncio.client import connect

from sessions.clock import NS_PER_MS, Clock
from sessions.errors import SetupError

MESSAGE = "x" * 5_200
"""As long as a message with 80 ms of audio."""
_APART_NS = 3 * NS_PER_MS
_WARMUP = 10


async def round_trips(clock: Clock, count: int) -> list[float]:
    """Milliseconds of `count` round trips, 3 ms apart, after a few that do not count. Raises `SetupError`."""
    server = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "harness.calibrate.echo_server",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    assert server.stdin is not None and server.stdout is not None
    try:
        url = (await server.stdout.readline()).decode().strip()
        if not url:
            raise SetupError("the bare loopback server did not start", "May this user listen on 127.0.0.1?")
        return await _trips(url, clock, count)
    finally:
        server.stdin.close()
        await server.wait()


async def _trips(url: str, clock: Clock, count: int) -> list[float]:
    trips = []
    async with connect(url, compression=None, proxy=None) as ws:
        for _ in range(_WARMUP + count):
            await clock.sleep_until_ns(clock.now_ns() + _APART_NS)
            start_ns = clock.now_ns()
            await ws.send(MESSAGE)
            await ws.recv()
            trips.append((clock.now_ns() - start_ns) / NS_PER_MS)
    return trips[_WARMUP:]
