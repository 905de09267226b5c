"""Drives PyPI `locust` as its manual says, from the environment that it is installed in: one WebSocket user a stream.

A user's task sends a 20 ms frame and reports it as a request; `constant_pacing` has it done every 20 ms; a greenlet of
each user receives, as the manual does for protocols that push. The WebSocket client is `websocket-client`, which locust
brings; its check of UTF-8, which is done in Python and would be half of the cost, is off, as its manual offers. locust
keeps no schedule of deadlines, so a frame is due 20 ms after the one before left.

    python drive_locust.py URL STREAMS SECONDS     prints the window as JSON
"""

import array
import base64
import gc
import json
import math
import os
import resource
import statistics
import sys
from typing import Any

import click
import gevent
import websocket
from locust import User, constant_pacing, task
from locust.env import Environment

from sessions.clock import NS_PER_MS, NS_PER_S, MonotonicClock, process_cpu_ns

FRAME_NS = 20 * NS_PER_MS
SPAWNS_PER_S = 100  # above it, locust warns
SETTLE_NS = NS_PER_S
CLOCK = MonotonicClock()
PCM = array.array("h", (round(8000 * math.cos(2 * math.pi * 220 * k / 24_000)) for k in range(480))).tobytes()
SETUP = json.dumps({"type": "session.update", "event_id": "s", "session": {"type": "realtime"}})

sent: list[tuple[int, int]] = []
received: list[int] = []
ready: list[int] = []


class Talker(User):  # type: ignore[misc]  # where locust is installed it has types, in our environment it is not
    """One stream."""

    wait_time = constant_pacing(0.02)

    def on_start(self) -> None:
        self.ws = websocket.create_connection(self.host, skip_utf8_validation=True)
        self.ws.recv()
        self.ws.send(SETUP)
        self.ws.recv()
        gevent.spawn(self.listen)
        self.left_ns = CLOCK.now_ns()
        ready.append(self.left_ns)

    def listen(self) -> None:
        while True:
            text = self.ws.recv()
            t_ns = CLOCK.now_ns()
            message = json.loads(text)
            if message["type"] == "response.output_audio.delta":
                base64.b64decode(message["delta"])
                received.append(t_ns)
                self.report("packet", len(text), 0.0)

    @task  # type: ignore[untyped-decorator]
    def frame(self) -> None:
        audio = base64.b64encode(PCM).decode()
        began_ns = CLOCK.now_ns()
        size = self.ws.send(json.dumps({"type": "input_audio_buffer.append", "audio": audio}))
        now_ns = CLOCK.now_ns()
        sent.append((self.left_ns + FRAME_NS, now_ns))
        self.left_ns = now_ns
        self.report("frame", size, (now_ns - began_ns) / NS_PER_MS)

    def report(self, name: str, size: int, ms: float) -> None:
        self.environment.events.request.fire(
            request_type="WS", name=name, response_time=ms, response_length=size, exception=None, context={}
        )


def sleep_until_ns(due_ns: int) -> None:
    while (left_ns := due_ns - CLOCK.now_ns()) > 0:
        gevent.sleep(left_ns / NS_PER_S)


def window(streams: int, seconds: float) -> dict[str, Any]:
    """`benchmarks.streams.Window`, whose package is not installed here."""
    while len(ready) < streams:
        gevent.sleep(0.05)
    begin_ns = ready[-1] + SETTLE_NS
    end_ns = begin_ns + int(seconds * NS_PER_S)
    sleep_until_ns(begin_ns)
    packets, cpu_ns = len(received), process_cpu_ns()
    sleep_until_ns(end_ns)
    cpu_ns, packets = process_cpu_ns() - cpu_ns, len(received) - packets
    late_ms = [(t_ns - due_ns) / NS_PER_MS for due_ns, t_ns in sent if begin_ns <= due_ns < end_ns]
    late_ms = late_ms if len(late_ms) > 1 else [float(1 << 40)] * 2
    percentiles = statistics.quantiles(late_ms, n=100, method="inclusive")
    return {
        "streams": streams,
        "seconds": seconds,
        "sent": len(late_ms),
        "expected": int(streams * seconds * NS_PER_S) // FRAME_NS,
        "left": sum(begin_ns <= t_ns < end_ns for _, t_ns in sent),
        "received": packets,
        "parsed": packets,
        "late_p50_ms": percentiles[49],
        "late_p99_ms": percentiles[98],
        "late_max_ms": max(late_ms),
        "cpu_s": cpu_ns / NS_PER_S,
    }


def main() -> None:
    url, streams, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    gc.disable()  # as in every arm
    Talker.host = url
    runner = Environment(user_classes=[Talker]).create_local_runner()
    runner.start(streams, spawn_rate=SPAWNS_PER_S)
    click.echo(json.dumps(window(streams, seconds)))
    sys.stdout.flush()
    os._exit(0)  # without closing a thousand connections in order


if __name__ == "__main__":
    main()
