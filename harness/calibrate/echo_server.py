"""A bare `websockets` server that sends back what it gets: the other end of the loopback floor, in its own process."""

from __future__ import annotations

import asyncio
import sys

import click
from websockets.asyncio.server import ServerConnection, serve


async def _echo(ws: ServerConnection) -> None:
    async for message in ws:
        await ws.send(message)


async def main() -> None:
    async with serve(_echo, "127.0.0.1", 0, compression=None, max_size=None) as server:
        click.echo(f"ws://127.0.0.1:{next(iter(server.sockets)).getsockname()[1]}/")
        # Standard input closes when the process that started this one is done, or gone.
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.buffer.read)


if __name__ == "__main__":
    asyncio.run(main())
