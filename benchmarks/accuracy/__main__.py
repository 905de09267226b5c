"""Reported minus true: how far the client's figures lie from what the server really did.

The metronome runs as a process of its own and logs the instant of every write on the host's monotonic clock. True first
packet = logged write − speech_end; true voice-to-voice = the play-out model on all logged writes. Beside it the floor:
write → `data_received` of 1 000 equal messages between a bare `websockets` client and server, in the same run.

    python -m benchmarks.accuracy            about 4 minutes
    python -m benchmarks.accuracy --turns 20 a quick look
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec
import numpy as np
from websockets.asyncio.client import ClientConnection, connect
from websockets.frames import Frame

from clients.dialect import SessionOptions
from clients.openai_realtime import OpenAIRealtime
from clients.transports import Transport
from clients.transports.websocket import open_websocket
from harness.calibrate.truth import Errors, errors
from harness.dialogue.perform import Dialogue
from harness.dialogue.record import Performance, Record, TurnToSpeak
from harness.results.derive import derive
from harness.runs.loop import loop_name, run_timed
from harness.runs.own_server import own_server
from metrics.turns import measure_conversation
from servers.write_log import Write
from sessions.clock import NS_PER_MS, MonotonicClock, TimerWheel
from sessions.runs import Limits
from sessions.secrets import Secrets

CLOCK = MonotonicClock()
FLOOR_MESSAGES = 1_000
WARMUP_TURNS = 5
BEHAVIOUR = """\
version: 1
description: 300 ms after the request, 80 ms of silence, then sound from its first sample on.
reply: {delay_ms: 300, leading_silence_ms: 80, duration_ms: 240, packet_ms: 80, pace: realtime}
"""
GOAL_MS = 1.0


def utterance() -> TurnToSpeak:
    """Half a second of tone whose last sample is speech."""
    pcm = np.round(8000 * np.cos(2 * np.pi * 220 * np.arange(12_000) / 24_000)).astype(np.int16)
    return TurnToSpeak(pcm, len(pcm) - 1, "annotation", 20 * NS_PER_MS)


async def converse(url: str, turns: int) -> Record:
    """One dialogue: the warm-up, then `turns` turns. The clock and the loop are those of a run."""
    clock = TimerWheel(CLOCK)
    secrets = Secrets()
    limits = Limits()

    async def dial() -> Transport:
        return await open_websocket(
            url, headers={}, clock=clock, timeout_s=10, byte_cap=limits.bytes_per_dialogue, secrets=secrets
        )

    how = Performance(OpenAIRealtime(SessionOptions()), dial, clock, limits, 20, secrets)
    return await Dialogue(how, [utterance()] * (WARMUP_TURNS + turns)).perform()


def compare(record: Record, log: Path) -> Errors:
    """What was reported after the warm-up, against the truth in `log`."""
    derived = derive(record.log(), bytes(record.received))
    results = measure_conversation(derived.conversation, limit_lateness_ms=Limits().lateness_ms)
    writes = [msgspec.json.decode(line, type=Write) for line in log.read_bytes().splitlines()]
    return errors(results[WARMUP_TURNS:], derived.conversation, writes)


class _Bare(ClientConnection):
    """Nothing but the instant of the `data_received` that completed each message."""

    arrivals: list[int]
    now_ns = 0

    def data_received(self, data: bytes) -> None:
        self.now_ns = CLOCK.now_ns()
        super().data_received(data)

    def process_event(self, event: Any) -> None:
        if isinstance(event, Frame):
            self.arrivals.append(self.now_ns)
        super().process_event(event)


async def floor(url: str) -> list[float]:
    """write → data_received of equal messages, in ms. The server sends its write instants at the end."""

    def create(*args: Any, **kwargs: Any) -> _Bare:
        connection = _Bare(*args, **kwargs)
        connection.arrivals = []
        return connection

    options: dict[str, Any] = {"create_connection": create}
    async with connect(url, compression=None, max_size=None, max_queue=None, proxy=None, **options) as ws:
        assert isinstance(ws, _Bare)
        for _ in range(FLOOR_MESSAGES):
            await ws.recv()
        arrivals = ws.arrivals[:FLOOR_MESSAGES]
        await ws.send("and now your instants")
        written = msgspec.json.decode(await ws.recv(), type=list[int])
    return [(arrival - write) / NS_PER_MS for arrival, write in zip(arrivals, written, strict=True)]


def _row(name: str, values: Sequence[float]) -> tuple[float, str]:
    p50, p99, largest = (float(np.percentile(values, q)) for q in (50, 99, 100))
    bias = float(np.mean(values))
    return p50, f"{name:<34}{len(values):>6}{bias:>10.3f}{p50:>10.3f}{p99:>10.3f}{largest:>10.3f}"


@click.command()
@click.option("--turns", type=click.IntRange(1), default=130, show_default=True, help="After the warm-up.")
def main(turns: int) -> None:
    """Print reported − true beside the floor. Exit code 1 when the goal is missed."""
    with tempfile.TemporaryDirectory(prefix="duologue-accuracy-") as scratch:
        place = Path(scratch)
        (place / "metronome.yaml").write_text(BEHAVIOUR)
        log = place / "writes.jsonl"
        arguments = ["--metronome", str(place / "metronome.yaml"), "--write-log", str(log)]
        with own_server(arguments, place / "server.log") as url:
            click.echo(f"{WARMUP_TURNS + turns} turns of about 1.3 s each, on the product's own loop ...", err=True)
            record = run_timed(converse(url, turns))
        found = compare(record, log)  # the server has stopped, so its log is whole
    server = subprocess.Popen([sys.executable, "-m", "benchmarks.bare_server"], stdout=subprocess.PIPE)
    try:
        assert server.stdout is not None
        floor_ms = run_timed(floor(server.stdout.readline().decode().strip()))
    finally:
        server.terminate()
        server.wait()
    _tell(found, floor_ms)


def _tell(found: Errors, floor_ms: Sequence[float]) -> None:
    click.echo(f"event loop: {loop_name()}")
    click.echo(f"{'milliseconds':<34}{'n':>6}{'bias':>10}{'p50':>10}{'p99':>10}{'max':>10}")
    floor_p50, row = _row("floor: write to data_received", floor_ms)
    click.echo(row)
    goal = max(GOAL_MS, 2 * floor_p50)
    held = True
    for name, values in (("first packet", found.first_packet_ms), ("voice-to-voice", found.voice_to_voice_ms)):
        p50, row = _row(f"{name}: reported - true", values)
        held = held and abs(p50) <= goal
        click.echo(row)
    click.echo(f"turns left out (invalid or failed): {found.excluded}")
    click.echo(
        f"goal |p50| <= max({GOAL_MS:g} ms, 2 x the floor's p50) = {goal:.3f} ms: {'held' if held else 'MISSED'}"
    )
    sys.exit(0 if held else 1)


if __name__ == "__main__":
    main()
