"""A bare `websockets` server for the floor: equal messages 5 ms apart, then the instants at which it wrote them."""

from __future__ import annotations

import asyncio
import json

import click
from websockets.asyncio.server import ServerConnection, serve

from sessions.clock import NS_PER_MS, MonotonicClock

MESSAGES = 1_000
MESSAGE = "x" * 5_200
"""As long as a message with 80 ms of audio."""


async def handle(ws: ServerConnection) -> None:
    clock = MonotonicClock()
    written = []
    start_ns = clock.now_ns()
    for k in range(MESSAGES):
        await clock.sleep_until_ns(start_ns + (k + 1) * 5 * NS_PER_MS)
        written.append(clock.now_ns())
        await ws.send(MESSAGE)
    await ws.recv()
    await ws.send(json.dumps(written))
    await ws.wait_closed()


async def main() -> None:
    async with serve(handle, "127.0.0.1", 0, compression=None, max_size=None) as server:
        click.echo(f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}/")
        await asyncio.get_running_loop().create_future()


if __name__ == "__main__":
    asyncio.run(main())
