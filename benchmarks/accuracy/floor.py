"""The floor: write → `data_received` of equal messages between a bare `websockets` client and server."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import msgspec
from websockets.asyncio.client import ClientConnection, connect
from websockets.frames import Frame

from benchmarks.bare_server import MESSAGES
from harness.runs.loop import run_timed
from sessions.clock import NS_PER_MS, MonotonicClock

_CLOCK = MonotonicClock()


class _Bare(ClientConnection):
    """Nothing but the instant of the `data_received` that completed each message."""

    arrivals: list[int]
    now_ns = 0

    def data_received(self, data: bytes) -> None:
        self.now_ns = _CLOCK.now_ns()
        super().data_received(data)

    def process_event(self, event: Any) -> None:
        if isinstance(event, Frame):
            self.arrivals.append(self.now_ns)
        super().process_event(event)


def _create(*args: Any, **kwargs: Any) -> _Bare:
    connection = _Bare(*args, **kwargs)
    connection.arrivals = []
    return connection


async def _listen(url: str) -> list[float]:
    """In ms. The server sends its write instants at the end."""
    options: dict[str, Any] = {"create_connection": _create}
    async with connect(url, compression=None, max_size=None, max_queue=None, proxy=None, **options) as ws:
        assert isinstance(ws, _Bare)
        for _ in range(MESSAGES):
            await ws.recv()
        arrivals = ws.arrivals[:MESSAGES]
        await ws.send("and now your instants")
        written = msgspec.json.decode(await ws.recv(), type=list[int])
    return [(arrival - write) / NS_PER_MS for arrival, write in zip(arrivals, written, strict=True)]


def floor_ms() -> list[float]:
    """Of 1 000 messages, 5 ms apart, against a server in a process of its own."""
    server = subprocess.Popen([sys.executable, "-m", "benchmarks.bare_server"], stdout=subprocess.PIPE)
    try:
        assert server.stdout is not None
        return run_timed(_listen(server.stdout.readline().decode().strip()))
    finally:
        server.terminate()
        server.wait()
        if server.stdout is not None:
            server.stdout.close()
