"""A TCP path of our own between a client and a server: it delays, stalls, trickles and cuts, and logs what it did.

```
async with fault_proxy("ws://127.0.0.1:9000/v1/realtime", clock, down=Path(delay_ms=60)) as proxy:
    ... connect to proxy.url ...
proxy.log        # every piece that passed: direction, arrival, leave, bytes
```

"up" runs from the client to the server, "down" the other way. Also a command:
`python -m tests.support.fault_proxy --help`.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Container
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlsplit

import click
import msgspec

from sessions.clock import NS_PER_MS, Clock, MonotonicClock

Direction = Literal["up", "down"]
How = Literal["fin", "reset", "half close", "black hole"]
"""fin: both ends see an orderly end of stream · reset: both see RST · half close: this direction ends, the other goes
on · black hole: nothing moves any more, either way, and both ends keep their connection."""


@dataclass(frozen=True, slots=True)
class Trickle:
    """At most `size_bytes` at a time, `every_ms` apart. 0 ms: as fast as the loop turns."""

    size_bytes: int
    every_ms: float = 0


@dataclass(frozen=True, slots=True)
class Stall:
    """Once, when `after_bytes` have passed: nothing leaves for `duration_ms`, then all that waits leaves at once."""

    after_bytes: int
    duration_ms: float


@dataclass(frozen=True, slots=True)
class Cut:
    """`how` it ends when `after_bytes` have passed, or with the piece that completes `after_text`."""

    how: How
    after_bytes: int | None = None
    after_text: bytes | None = None


@dataclass(frozen=True, slots=True)
class Path:
    """What one direction of a connection does to its bytes. Their order is kept.

    delay_ms: each piece leaves at its arrival + this, so lateness never adds up · window_bytes: how much the path
    holds before it stops reading; unlimited without it.
    """

    delay_ms: float = 0
    trickle: Trickle | None = None
    stall: Stall | None = None
    cut: Cut | None = None
    window_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Passed:
    """One piece that went through. first_byte: its offset in this direction of this connection, from 0."""

    connection: int
    direction: Direction
    arrival_ns: int
    leave_ns: int
    bytes: int
    first_byte: int


class _End(asyncio.Protocol):
    """The proxy's socket on one side of a connection."""

    transport: asyncio.Transport

    def __init__(self, link: _Link, reads: Direction) -> None:
        self._link, self._reads = link, reads
        self.made = asyncio.Event()
        self.writable = asyncio.Event()
        self.writable.set()
        self.lost = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.set_write_buffer_limits(high=0)
        self.made.set()
        if self._reads == "up":
            self._link.begin()

    def data_received(self, data: bytes) -> None:
        self._link.pipes[self._reads].feed(data)

    def eof_received(self) -> bool:
        self._link.pipes[self._reads].feed(b"")
        return True  # the other direction goes on

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost = True
        self.writable.set()
        self._link.lost(self._reads, exc)

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    def finish(self) -> None:
        if self.made.is_set() and not self.lost and not self.transport.is_closing():
            with contextlib.suppress(OSError):
                self.transport.write_eof()

    def reset(self) -> None:
        if self.made.is_set() and not self.lost:
            sock = self.transport.get_extra_info("socket")
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self.transport.abort()


class _Pipe:
    """One direction of one connection."""

    def __init__(self, link: _Link, direction: Direction, path: Path) -> None:
        self._link, self._direction, self.path = link, direction, path
        self._clock = link.proxy.clock
        self._queue: asyncio.Queue[tuple[int, bytes]] = asyncio.Queue()
        self._held_bytes = 0
        self._passed_bytes = 0
        self._tail = b""
        self._stalled = False
        self.stopped = False
        self.hold_until_ns = 0

    def feed(self, data: bytes) -> None:
        """What came from the source; b"" is its end."""
        if self.stopped:
            return
        self._held_bytes += len(data)
        self._queue.put_nowait((self._clock.now_ns(), data))
        window = self.path.window_bytes
        if window is not None and self._held_bytes > window:
            self._link.ends[self._direction].transport.pause_reading()

    async def pump(self) -> None:
        to = self._link.ends["down" if self._direction == "up" else "up"]
        await to.made.wait()
        cut = self.path.cut
        if cut is not None and cut.after_bytes == 0:
            self._link.cut(cut.how, self._direction)
        while True:
            arrival_ns, data = await self._queue.get()
            due_ns = arrival_ns + round(self.path.delay_ms * NS_PER_MS)
            if not data:
                await self._until(due_ns)
                to.finish()
                self._link.ended(self._direction)
                return
            await self._carry(to, arrival_ns, due_ns, data)

    async def _carry(self, to: _End, arrival_ns: int, due_ns: int, data: bytes) -> None:
        while data and not self.stopped:
            size = self._next_size(len(data))
            await self._until(due_ns)
            await to.writable.wait()
            if self.stopped:
                return
            piece, data = data[:size], data[size:]
            if not to.lost:
                leave_ns = self._clock.now_ns()
                to.transport.write(piece)
                self._link.proxy.note(
                    Passed(self._link.number, self._direction, arrival_ns, leave_ns, size, self._passed_bytes), piece
                )
            self._account(piece, last=not data)
            if self.path.trickle is not None and data:
                due_ns = self._clock.now_ns() + round(self.path.trickle.every_ms * NS_PER_MS)
            for _ in range(2):  # who reads in this same loop has seen this piece before the next one leaves
                await asyncio.sleep(0)

    def _next_size(self, size: int) -> int:
        path = self.path
        if path.trickle is not None:
            size = min(size, path.trickle.size_bytes)
        stops = [path.stall.after_bytes] if path.stall is not None else []
        if path.cut is not None and path.cut.after_bytes is not None:
            stops.append(path.cut.after_bytes)
        for stop in stops:
            if self._passed_bytes < stop:
                size = min(size, stop - self._passed_bytes)
        stall = path.stall
        if stall is not None and not self._stalled and self._passed_bytes >= stall.after_bytes:
            self._stalled = True
            self.hold_until_ns = self._clock.now_ns() + round(stall.duration_ms * NS_PER_MS)
        return size

    async def _until(self, due_ns: int) -> None:
        while (until_ns := max(due_ns, self.hold_until_ns)) > self._clock.now_ns():
            await self._clock.sleep_until_ns(until_ns)

    def _account(self, piece: bytes, *, last: bool) -> None:
        self._passed_bytes += len(piece)
        self._held_bytes -= len(piece)
        window, source = self.path.window_bytes, self._link.ends[self._direction]
        if window is not None and self._held_bytes <= window and not source.lost:
            source.transport.resume_reading()
        cut = self.path.cut
        if cut is None:
            return
        if cut.after_bytes is not None and self._passed_bytes >= cut.after_bytes:
            self._link.cut(cut.how, self._direction)
        elif cut.after_text is not None:
            self._tail += piece
            if cut.after_text in self._tail and last:
                self._link.cut(cut.how, self._direction)
            elif cut.after_text not in self._tail:
                self._tail = self._tail[-len(cut.after_text) :]


class _Link:
    """One connection: two ends, two directions. `ends[d]` is the end that reads direction d."""

    def __init__(self, proxy: FaultProxy, number: int) -> None:
        self.proxy, self.number = proxy, number
        faulty = number in proxy.faulty
        self.pipes: dict[Direction, _Pipe] = {
            "up": _Pipe(self, "up", proxy.up if faulty else Path()),
            "down": _Pipe(self, "down", proxy.down if faulty else Path()),
        }
        self.ends: dict[Direction, _End] = {"up": _End(self, "up"), "down": _End(self, "down")}
        self._over: set[Direction] = set()
        self.tasks: list[asyncio.Task[None]] = []

    def begin(self) -> None:
        self.tasks = [asyncio.create_task(self._connect())]
        self.tasks += [asyncio.create_task(pipe.pump()) for pipe in self.pipes.values()]

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.create_connection(lambda: self.ends["down"], *self.proxy.target)
        except OSError:
            self.ends["up"].reset()

    def ended(self, direction: Direction) -> None:
        """One direction has brought its end of stream."""
        self._over.add(direction)
        if len(self._over) == 2:
            for end in self.ends.values():
                if end.made.is_set():
                    end.transport.close()

    def lost(self, direction: Direction, exc: Exception | None) -> None:
        """The end that reads `direction` is gone; the other learns it as it was."""
        if isinstance(exc, ConnectionResetError) and not self.pipes[direction].stopped:
            self.cut("reset", direction)
        else:
            self.pipes[direction].feed(b"")

    def cut(self, how: How, direction: Direction) -> None:
        for name, pipe in self.pipes.items():
            if how != "half close" or name == direction:
                pipe.stopped = True
        if how == "reset":
            for end in self.ends.values():
                end.reset()
        elif how == "black hole":
            for end in self.ends.values():
                if end.made.is_set() and not end.lost:
                    end.transport.pause_reading()
        elif how == "fin":  # both go on reading and drop it: to close with bytes unread would be a reset
            for end in self.ends.values():
                end.finish()
        else:
            self.ends["down" if direction == "up" else "up"].finish()

    def abort(self) -> None:
        for task in self.tasks:
            task.cancel()
        for end in self.ends.values():
            if end.made.is_set() and not end.lost:
                end.transport.abort()


class FaultProxy:
    """What `fault_proxy` yields. url: the target's address through the proxy · log: each piece, as it left.

    `up`, `down` may be replaced at any time; connections made later take them. faulty: numbers of the connections
    (0, 1, …) that they apply to; all others pass untouched.
    """

    def __init__(self, target: str, clock: Clock, up: Path, down: Path, faulty: Container[int] | None) -> None:
        parts = urlsplit(target)
        assert parts.hostname and parts.port, target
        self.target: tuple[str, int] = (parts.hostname, parts.port)
        self.clock, self.up, self.down = clock, up, down
        self.faulty: Container[int] = range(1 << 62) if faulty is None else faulty
        self.url = target
        self.log: list[Passed] = []
        self.kept: dict[tuple[Direction, int], bytearray] | None = None
        self.links: list[_Link] = []

    def accept(self) -> asyncio.Protocol:
        """The protocol of a new connection from a client."""
        self.links.append(_Link(self, len(self.links)))
        return self.links[-1].ends["up"]

    def cut(self, how: How, direction: Direction = "down") -> None:
        """Now, on every connection that stands."""
        for link in self.links:
            link.cut(how, direction)

    def stall(self, direction: Direction, duration_ms: float) -> None:
        """From now on, on every connection that stands: nothing leaves for so long."""
        for link in self.links:
            link.pipes[direction].hold_until_ns = self.clock.now_ns() + round(duration_ms * NS_PER_MS)

    def note(self, passed: Passed, piece: bytes) -> None:
        self.log.append(passed)
        if self.kept is not None:
            self.kept.setdefault((passed.direction, passed.connection), bytearray()).extend(piece)

    def stream(self, direction: Direction, connection: int = 0) -> bytes:
        """All bytes that left in that direction, where they were to be kept."""
        assert self.kept is not None
        return bytes(self.kept.get((direction, connection), b""))

    def passed(self, direction: Direction, connection: int = 0) -> list[Passed]:
        """The log of one direction of one connection, in order."""
        return [piece for piece in self.log if (piece.direction, piece.connection) == (direction, connection)]


@contextlib.asynccontextmanager
async def fault_proxy(
    target: str,
    clock: Clock,
    *,
    up: Path = Path(),
    down: Path = Path(),
    faulty: Container[int] | None = None,
    keep: bool = False,
    host: str = "127.0.0.1",
    port: int = 0,
) -> AsyncIterator[FaultProxy]:
    """Listen at `host`, on a free port by default, and carry each connection to `target` (any URL with host and port).

    keep: the bytes themselves too, for `stream`. On leaving every connection is dropped.
    """
    proxy = FaultProxy(target, clock, up, down, faulty)
    proxy.kept = {} if keep else None
    server = await asyncio.get_running_loop().create_server(proxy.accept, host, port)
    at = server.sockets[0].getsockname()[1]
    shown = f"[{host}]" if ":" in host else host
    proxy.url = urlsplit(target)._replace(netloc=f"{shown}:{at}").geturl()
    try:
        yield proxy
    finally:
        server.close()
        for link in proxy.links:
            link.abort()
        tasks = [task for link in proxy.links for task in link.tasks]
        results = await asyncio.gather(*tasks, return_exceptions=True)
        for result in results:
            if isinstance(result, Exception):
                raise result


@click.command()
@click.argument("target")
@click.option("--port", default=0, help="Where to listen; a free port by default.")
@click.option("--delay-up-ms", default=0.0)
@click.option("--delay-down-ms", default=0.0)
@click.option("--trickle-bytes", default=0, help="Pieces of so many bytes, downwards.")
@click.option("--trickle-every-ms", default=0.0)
@click.option("--stall", type=(int, float), help="After so many bytes downwards, for so many ms.")
@click.option("--cut", type=(click.Choice(["fin", "reset", "half close", "black hole"]), int), help="After N bytes.")
@click.option("--log", type=click.Path(dir_okay=False), help="Write each piece here, as JSON lines, at the end.")
def main(target: str, port: int, log: str | None, **asked: Any) -> None:
    """Stand between clients and TARGET (ws://HOST:PORT/PATH) until Ctrl-C; prints the address to use."""
    down = Path(
        delay_ms=asked["delay_down_ms"],
        trickle=Trickle(asked["trickle_bytes"], asked["trickle_every_ms"]) if asked["trickle_bytes"] else None,
        stall=Stall(*asked["stall"]) if asked["stall"] else None,
        cut=Cut(asked["cut"][0], asked["cut"][1]) if asked["cut"] else None,
    )
    proxies: list[FaultProxy] = []

    async def stand() -> None:
        up = Path(delay_ms=asked["delay_up_ms"])
        async with fault_proxy(target, MonotonicClock(), up=up, down=down, port=port) as proxy:
            proxies.append(proxy)
            click.echo(proxy.url)
            await asyncio.get_running_loop().create_future()

    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(stand())
    if log is not None:
        with click.open_file(log, "wb") as file:
            file.writelines(msgspec.json.encode(piece) + b"\n" for proxy in proxies for piece in proxy.log)


if __name__ == "__main__":
    main()
