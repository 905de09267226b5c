"""One arm of the capacity benchmark, a process of its own: N streams of 20 ms frames; how late they left, at what cost.

    python -m benchmarks.streams ARM URL N SECONDS

The window that counts begins a second after the last stream was set up. Lateness is write returned − due.
"""

from __future__ import annotations

import asyncio
import base64
import gc
import heapq
import json
import os
import re
import select
import socket
import sys
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

import click
import msgspec
import numpy as np
from numpy.typing import NDArray
from websockets.asyncio.client import ClientConnection, connect

from clients.dialect import SessionOptions
from clients.openai_realtime import OpenAIRealtime
from clients.transports import Transport
from clients.transports.websocket import open_websocket
from clients.wire import openai_realtime as wire
from harness.dialogue.heartbeat import Heartbeat
from harness.dialogue.pacing import FrameTexts
from harness.dialogue.perform import Dialogue
from harness.dialogue.record import Performance, Record, TurnToSpeak
from harness.load.descriptors import room_for
from harness.runs.loop import run_timed
from sessions.clock import NS_PER_MS, NS_PER_S, MonotonicClock, TimerWheel, process_cpu_ns
from sessions.events import Received, Sent
from sessions.runs import Limits
from sessions.secrets import Secrets

FRAME_NS = 20 * NS_PER_MS
FRAME_SAMPLES = 480
STEP_NS = 21 * NS_PER_MS // 4
"""Between two connections: phases of frames lie as in a run, whose sessions begin 21 ms apart."""
SETTLE_NS = NS_PER_S
CLOCK = MonotonicClock()
_TONE_S = 60


class Window(msgspec.Struct, frozen=True):
    """What one arm did in its window.

    sent, expected: of the frames that were due in it · left: frames that left in it, whenever they were due · received:
    messages that arrived in it · parsed: messages that were parsed in it · cpu_s: of the process.
    """

    streams: int
    seconds: float
    sent: int
    expected: int
    left: int
    received: int
    parsed: int
    late_p50_ms: float
    late_p99_ms: float
    late_max_ms: float
    cpu_s: float


class Meter:
    """Collects sends and arrivals, and the process's CPU time over the window."""

    def __init__(self, streams: int, seconds: float) -> None:
        self._streams, self._seconds = streams, seconds
        self._ready = 0
        self.begin_ns = self.end_ns = 1 << 62
        self._cpu_ns = 0
        self.sent: list[tuple[int, int]] = []
        self.received: list[int] = []
        self.parsed: Callable[[], int] = lambda: len(self.received)
        self._parsed_before = 0

    def stream_is_ready(self) -> None:
        self._ready += 1
        if self._ready == self._streams:
            self.begin_ns = CLOCK.now_ns() + SETTLE_NS
            self.end_ns = self.begin_ns + int(self._seconds * NS_PER_S)

    def window_begins(self) -> None:
        self._parsed_before = self.parsed()
        self._cpu_ns = process_cpu_ns()

    def result(self) -> Window:
        cpu_s = (process_cpu_ns() - self._cpu_ns) / NS_PER_S
        inside = [(due_ns, t_ns) for due_ns, t_ns in self.sent if self.begin_ns <= due_ns < self.end_ns]
        late_ms = np.array([t_ns - due_ns for due_ns, t_ns in inside] or [1 << 50]) / NS_PER_MS
        p50, p99, largest = (float(np.percentile(late_ms, q)) for q in (50, 99, 100))
        return Window(
            streams=self._streams,
            seconds=self._seconds,
            sent=len(inside),
            expected=int(self._streams * self._seconds * NS_PER_S) // FRAME_NS,
            left=sum(self.begin_ns <= t_ns < self.end_ns for _, t_ns in self.sent),
            parsed=self.parsed() - self._parsed_before,
            received=sum(self.begin_ns <= t_ns < self.end_ns for t_ns in self.received),
            late_p50_ms=p50,
            late_p99_ms=p99,
            late_max_ms=largest,
            cpu_s=cpu_s,
        )


def tone(samples: int) -> NDArray[np.int16]:
    return np.round(8000 * np.cos(2 * np.pi * 220 * np.arange(samples) / 24_000)).astype(np.int16)


async def _measure(meter: Meter, tasks: list[asyncio.Task[Any]]) -> Window:
    while meter.begin_ns == 1 << 62:
        _raise_failed(tasks)
        await asyncio.sleep(0.05)
    await CLOCK.sleep_until_ns(meter.begin_ns)
    meter.window_begins()
    await CLOCK.sleep_until_ns(meter.end_ns)
    return meter.result()


def _raise_failed(tasks: list[asyncio.Task[Any]]) -> None:
    for task in tasks:
        if task.done():
            raise RuntimeError(f"a stream ended before the window: {task.exception() or task.result()}")


async def _spread(count: int, make: Callable[[], Awaitable[Any]], meter: Meter) -> Window:
    """Begin `count` streams, one each step, then take the window."""
    tasks: list[asyncio.Task[Any]] = []
    start_ns = CLOCK.now_ns()
    for k in range(count):
        await CLOCK.sleep_until_ns(start_ns + k * STEP_NS)
        tasks.append(asyncio.ensure_future(make()))
    return await _measure(meter, tasks)


# ---- ours ----------------------------------------------------------------------------------------------------------


async def ours(url: str, count: int, seconds: float) -> None:
    """The product's own dialogues, as a run with --sessions holds them."""
    clock = TimerWheel(CLOCK)
    meter = Meter(count, seconds)
    dialect = OpenAIRealtime(SessionOptions())
    texts = FrameTexts(dialect.audio, FRAME_SAMPLES)
    limits = Limits(unread_ms=5_000)  # what waits in buffers is judged by the lateness here, not by giving up
    beat = Heartbeat(clock, limits.lateness_ms)
    pcm = tone(_TONE_S * 24_000)
    turn = TurnToSpeak(pcm, len(pcm) - 1, "annotation", 0)
    texts.of_clip(pcm, turn.last_sample)
    records: list[Record] = []
    meter.parsed = lambda: sum(record.received_bytes for record in records)  # in bytes, until the window is over

    async def dial() -> Transport:
        made = await open_websocket(url, headers={}, clock=clock, timeout_s=30, byte_cap=1 << 30, secrets=Secrets())
        meter.stream_is_ready()
        return made

    async def stream() -> None:
        one = OpenAIRealtime(SessionOptions())
        how = Performance(one, dial, clock, limits, 20, Secrets(), texts=texts, heartbeat=beat)
        dialogue = Dialogue(how, [turn])
        records.append(dialogue.record)
        await dialogue.perform()

    found = await _spread(count, stream, meter)
    for record in records:
        meter.sent += [(e.due_ns, e.t_ns) for e in record.events if isinstance(e, Sent) and e.due_ns is not None]
        meter.received += [e.t_ns for e in record.events if isinstance(e, Received)]
    whole = meter.result()
    parsed = round(found.parsed * len(meter.received) / max(1, meter.parsed()))
    _tell(msgspec.structs.replace(whole, cpu_s=found.cpu_s, parsed=parsed))


# ---- plain scripts -------------------------------------------------------------------------------------------------


async def _open(ws: ClientConnection, meter: Meter) -> asyncio.Task[None]:
    await ws.recv()
    await ws.send(wire.session_update(event_id="s", server_vad=None, voice="", instructions=""))
    await ws.recv()
    meter.stream_is_ready()
    return asyncio.ensure_future(_listen(ws, meter))


async def _listen(ws: ClientConnection, meter: Meter) -> None:
    async for text in ws:
        t_ns = CLOCK.now_ns()
        message = json.loads(text)
        if message["type"] == "response.output_audio.delta":
            base64.b64decode(message["delta"])
            meter.received.append(t_ns)


def _append(pcm: NDArray[np.int16]) -> str:
    audio = base64.b64encode(pcm.tobytes()).decode()
    return json.dumps({"type": "input_audio_buffer.append", "audio": audio})


async def sleeps(url: str, count: int, seconds: float) -> None:
    """`asyncio.sleep(0.02)` after each send. It keeps no schedule: a frame is due 20 ms after the one before left."""
    meter = Meter(count, seconds)
    pcm = tone(FRAME_SAMPLES)

    async def stream() -> None:
        async with connect(url, compression=None, max_size=None) as ws:
            listener = await _open(ws, meter)
            left_ns = CLOCK.now_ns()
            while not listener.done():
                await asyncio.sleep(0.02)
                await ws.send(_append(pcm))
                now_ns = CLOCK.now_ns()
                meter.sent.append((left_ns + FRAME_NS, now_ns))
                left_ns = now_ns

    _tell(await _spread(count, stream, meter))


async def deadlines(url: str, count: int, seconds: float) -> None:
    """The same with absolute deadlines: one sleep a stream and frame, until the frame is due."""
    meter = Meter(count, seconds)
    pcm = tone(FRAME_SAMPLES)

    async def stream() -> None:
        async with connect(url, compression=None, max_size=None) as ws:
            listener = await _open(ws, meter)
            due_ns = CLOCK.now_ns()
            while not listener.done():
                due_ns += FRAME_NS
                await asyncio.sleep(max(0, due_ns - CLOCK.now_ns()) / NS_PER_S)
                await ws.send(_append(pcm))
                meter.sent.append((due_ns, CLOCK.now_ns()))

    _tell(await _spread(count, stream, meter))


# ---- the limit -----------------------------------------------------------------------------------------------------


def bare(url: str, count: int, seconds: float) -> None:
    """A loop that only writes ready frames to sockets when they are due, and throws away what comes."""
    meter = Meter(count, seconds)
    ready = _masked(_append(tone(FRAME_SAMPLES)))
    poller = select.epoll()
    socks: dict[int, socket.socket] = {}
    due: list[tuple[int, int]] = []
    for _ in range(count):
        sock = _upgraded(url)
        socks[sock.fileno()] = sock
        poller.register(sock, select.EPOLLIN)
        heapq.heappush(due, (CLOCK.now_ns() + FRAME_NS * (1 + len(due) % 20) // 20, sock.fileno()))
        meter.stream_is_ready()
    counting = False
    while (now_ns := CLOCK.now_ns()) < meter.end_ns:
        if not counting and now_ns >= meter.begin_ns:
            meter.window_begins()
            counting = True
        while due[0][0] <= now_ns:
            due_ns, number = due[0]
            heapq.heapreplace(due, (due_ns + FRAME_NS, number))
            socks[number].send(ready)
            now_ns = CLOCK.now_ns()
            meter.sent.append((due_ns, now_ns))
        left_ms = (due[0][0] - CLOCK.now_ns()) // NS_PER_MS
        for number, _event in poller.poll(max(0, left_ms) / 1000, 64):
            socks[number].recv(65536)
            meter.received.append(CLOCK.now_ns())
    _tell(meter.result())


def _masked(text: str) -> bytes:
    """A client's text frame of 126 bytes to 64 kB with a mask of zeros."""
    payload = text.encode()
    return bytes((0x81, 0xFE)) + len(payload).to_bytes(2) + bytes(4) + payload


def _upgraded(url: str) -> socket.socket:
    parts = urlsplit(url)
    sock = socket.create_connection((parts.hostname or "", parts.port or 80))
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    key = base64.b64encode(os.urandom(16)).decode()
    sock.sendall(
        f"GET {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: {key}\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
    )
    heard = b""
    while not re.search(rb"\r\n\r\n.*session.created", heard, re.DOTALL):
        heard += sock.recv(4096)
    sock.sendall(_masked(wire.session_update(event_id="s", server_vad=None, voice="", instructions="")))
    while b"session.updated" not in heard:
        heard += sock.recv(4096)
    sock.setblocking(False)
    return sock


ARMS: dict[str, Callable[[str, int, float], None]] = {
    "bare": bare,
    "ours": lambda url, count, seconds: run_timed(ours(url, count, seconds)),
    "ours-asyncio": lambda url, count, seconds: asyncio.run(ours(url, count, seconds)),
    "deadlines": lambda url, count, seconds: asyncio.run(deadlines(url, count, seconds)),
    "sleeps": lambda url, count, seconds: asyncio.run(sleeps(url, count, seconds)),
}


@click.command()
@click.argument("arm", type=click.Choice(list(ARMS)))
@click.argument("url")
@click.argument("count", type=int)
@click.argument("seconds", type=float)
def main(arm: str, url: str, count: int, seconds: float) -> None:
    """Hold the streams and print the window as JSON."""
    room_for(count)
    gc.disable()  # in every arm alike
    ARMS[arm](url, count, seconds)


def _tell(found: Window) -> None:
    """Print and go, without closing a thousand connections in order."""
    click.echo(msgspec.json.encode(found).decode())
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
