"""The fault proxy itself: what it says that it did is what both ends saw."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from sessions.clock import NS_PER_MS, MonotonicClock
from tests.support.fault_proxy import Cut, FaultProxy, How, Path, Stall, Trickle, fault_proxy

pytestmark = pytest.mark.sockets
CLOCK = MonotonicClock()
Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def server(handler: Handler) -> AsyncIterator[str]:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            await handler(reader, writer)
        writer.close()

    async with await asyncio.start_server(handle, "127.0.0.1", 0) as listening:
        yield f"tcp://127.0.0.1:{listening.sockets[0].getsockname()[1]}"


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()


async def connected(proxy: FaultProxy) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, _, port = proxy.url.removeprefix("tcp://").partition(":")
    return await asyncio.open_connection(host, int(port))


DATA = bytes(range(256)) * 400


async def through(up: Path = Path(), down: Path = Path()) -> FaultProxy:  # noqa: B008 - frozen
    """Send `DATA` to an echo and read it back, whole."""
    async with server(echo) as target, fault_proxy(target, CLOCK, up=up, down=down) as proxy:
        reader, writer = await connected(proxy)
        writer.write(DATA)
        writer.write_eof()
        assert await reader.read() == DATA
        writer.close()
    for direction in ("up", "down"):
        pieces = proxy.passed(direction)
        assert sum(piece.bytes for piece in pieces) == len(DATA)
        assert all(piece.leave_ns >= piece.arrival_ns for piece in pieces)
    return proxy


async def test_an_untouched_path_is_transparent() -> None:
    await through()


async def test_a_delay_is_absolute_and_never_short() -> None:
    proxy = await through(up=Path(delay_ms=30), down=Path(delay_ms=10))
    assert all(piece.leave_ns - piece.arrival_ns >= 30 * NS_PER_MS for piece in proxy.passed("up"))
    assert all(piece.leave_ns - piece.arrival_ns >= 10 * NS_PER_MS for piece in proxy.passed("down"))


async def test_a_stall_holds_what_comes_after_its_byte() -> None:
    proxy = await through(down=Path(stall=Stall(1000, 80)))
    before = [piece for piece in proxy.passed("down") if piece.first_byte < 1000]
    after = [piece for piece in proxy.passed("down") if piece.first_byte >= 1000]
    assert sum(piece.bytes for piece in before) == 1000
    assert after[0].leave_ns - before[-1].leave_ns >= 80 * NS_PER_MS


async def test_a_trickle_keeps_its_size_and_distance() -> None:
    proxy = await through(up=Path(trickle=Trickle(4096)), down=Path(trickle=Trickle(20_000, 5)))
    assert max(piece.bytes for piece in proxy.passed("up")) == 4096
    assert max(piece.bytes for piece in proxy.passed("down")) <= 20_000


@pytest.mark.parametrize("how", ["fin", "reset", "half close", "black hole"])
async def test_a_cut_comes_after_its_byte(how: How) -> None:
    async with server(echo) as target, fault_proxy(target, CLOCK, down=Path(cut=Cut(how, 5000))) as proxy:
        reader, writer = await connected(proxy)
        writer.write(DATA)
        assert await reader.readexactly(5000) == DATA[:5000]
        if how == "reset":
            with pytest.raises(ConnectionResetError):
                await reader.read()
        elif how == "black hole":
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(reader.read(1), 0.05)
        else:
            assert await reader.read() == b""
        writer.close()


async def test_a_text_cuts_after_its_piece_and_only_the_faulty_connection() -> None:
    down = Path(cut=Cut("fin", after_text=b"enough"))
    async with server(echo) as target, fault_proxy(target, CLOCK, down=down, faulty={0}) as proxy:
        for alive in (False, True):
            reader, writer = await connected(proxy)
            writer.write(b"that is enough.")
            assert await reader.readexactly(15) == b"that is enough."
            writer.write(b"more")
            writer.write_eof()
            assert await reader.read() == (b"more" if alive else b"")
            writer.close()
        assert {piece.connection for piece in proxy.log} == {0, 1}


async def test_who_resets_is_passed_on() -> None:
    gone = asyncio.Event()

    async def resets(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionResetError):
            await reader.read()
            await reader.read()
        gone.set()

    async with server(resets) as target, fault_proxy(target, CLOCK) as proxy:
        _, writer = await connected(proxy)
        await asyncio.sleep(0.05)
        proxy.cut("reset")
        async with asyncio.timeout(10):
            await gone.wait()
        writer.close()


async def test_a_full_window_stops_the_source() -> None:
    read = asyncio.Event()

    async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read.wait()
        while await reader.read(65536):
            pass

    up = Path(delay_ms=50, window_bytes=100_000)
    async with server(late) as target, fault_proxy(target, CLOCK, up=up) as proxy:
        _, writer = await connected(proxy)
        writer.write(bytes(40_000_000))
        await asyncio.sleep(0.3)
        assert 0 < sum(piece.bytes for piece in proxy.passed("up")) < 40_000_000
        read.set()
        writer.transport.abort()
