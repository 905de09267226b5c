"""Servers of k places and fixed service time, on the virtual clock: what is found about them, beside what is true.

The product's own dialogues, drive, records, measures and search, against a server in the same event loop, whose clock
jumps. What is true of a queue is computed apart, from arrivals, places and service time alone.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from harness.compare.slo import parse_slo
from harness.load.drive import arrivals_ns
from harness.load.levels import Ladder
from harness.results.derive import Derived
from harness.results.finish import FinishedRun, finish_run
from metrics.result import Value
from metrics.turns import measure_conversation
from sessions.clock import NS_PER_MS, NS_PER_S
from sessions.runs import Limits, Load
from tests.support.load_runs import Slots, Workers, hold, make_run
from tests.support.peers import Peer

SERVICE_MS = 2000
"""Long beside the 20 ms between two connections of a closed loop, so that all sessions of a level ask together."""
SPEECH_NS = 500 * NS_PER_MS
DEMAND = 1.25
"""Open loop: dialogues begin so much faster than the server can hold them."""
MOST = 64


def searched(k: int, place: Path, rounds: int = 2) -> int:
    """The most sessions that the product's search finds for a server that makes `k` replies at once."""
    place.mkdir(parents=True)

    def level(sessions: int) -> FinishedRun:
        run = make_run(place / f"sessions-{sessions:04d}", Load(sessions=sessions), rounds * sessions)
        hold(run, lambda: Workers(k, SERVICE_MS))
        return finish_run(run)

    slo = parse_slo(f"voice_to_voice max <= {SERVICE_MS}ms")
    highest = Ladder(place, "ws://memory", [slo], level).search(MOST).highest
    assert highest is not None
    return highest


@dataclass(frozen=True, slots=True)
class Found:
    """What was reported of a load: in ms, per dialogue in the order of the plan. start_delay_ms: of an open loop."""

    latency_ms: list[float]
    start_delay_ms: list[float]

    def waited_ms(self) -> list[float]:
        """What a caller waited in all, from the intended start on, less what he said himself."""
        return [sum(pair) for pair in zip(self.latency_ms, self.start_delay_ms or itertools.repeat(0.0), strict=False)]


@dataclass(frozen=True, slots=True)
class Queue:
    """One kind of server under both loads. true_ms: of each dialogue of the open loop, what `waited_ms` should be."""

    closed: Found
    open: Found
    true_ms: list[float]

    @property
    def error_ms(self) -> float:
        """The largest difference between what was reported and what is true, over all dialogues of the open loop."""
        return max(abs(told - true) for told, true in zip(self.open.waited_ms(), self.true_ms, strict=True))


def callers_queue(k: int, dialogues: int, place: Path) -> Queue:
    """A server that holds `k` dialogues; further callers wait at its door, before the session is ready."""
    closed = _held(Load(sessions=k), dialogues, lambda: Slots(k), place / "closed")
    lasts_ns = _lasts_ns(closed[0])
    load = Load(rate_per_s=DEMAND * k * NS_PER_S / lasts_ns)
    opened = _held(load, dialogues, lambda: Slots(k), place / "open")
    true_ns = waits_ns(list(itertools.islice(arrivals_ns(load), dialogues)), k, lasts_ns)
    own_ms = _found(closed).latency_ms[0]
    return Queue(_found(closed), _found(opened), [wait / NS_PER_MS + own_ms for wait in true_ns])


def requests_queue(k: int, dialogues: int, place: Path) -> Queue:
    """A server that makes `k` replies at once; further requests wait after the user has spoken."""
    closed = _held(Load(sessions=k), dialogues, lambda: Workers(k, SERVICE_MS), place / "closed")
    load = Load(rate_per_s=DEMAND * k * 1000 / SERVICE_MS)
    opened = _held(load, dialogues, lambda: Workers(k, SERVICE_MS), place / "open")
    asked_ns = [arrival + SPEECH_NS for arrival in itertools.islice(arrivals_ns(load), dialogues)]
    true_ns = waits_ns(asked_ns, k, SERVICE_MS * NS_PER_MS)
    return Queue(_found(closed), _found(opened), [wait / NS_PER_MS + SERVICE_MS for wait in true_ns])


def waits_ns(arrivals: Sequence[int], k: int, service_ns: int) -> list[int]:
    """First come, first served, `k` places, fixed service time: how long each arrival waits for its place."""
    free = [0] * k
    waits = []
    for arrival_ns in arrivals:
        begins_ns = max(arrival_ns, heapq.heappop(free))
        waits.append(begins_ns - arrival_ns)
        heapq.heappush(free, begins_ns + service_ns)
    return waits


def percentiles(values: Sequence[float]) -> str:
    p50, p95, largest = (float(np.percentile(values, q)) for q in (50, 95, 100))
    return f"{p50:9.0f}{p95:9.0f}{largest:9.0f}"


def _held(load: Load, dialogues: int, peer: Callable[[], Peer], place: Path) -> list[Derived]:
    place.parent.mkdir(parents=True, exist_ok=True)
    return hold(make_run(place, load, dialogues, limits=Limits(connect_s=3600, reply_s=3600, idle_s=3600)), peer)


def _lasts_ns(dialogue: Derived) -> int:
    """How long a dialogue keeps its place, from ready to the end."""
    return (dialogue.conversation.ended_ns or 0) - (dialogue.conversation.ready_ns or 0)


def _found(dialogues: Sequence[Derived]) -> Found:
    latencies = []
    for dialogue in dialogues:
        (turn,) = measure_conversation(dialogue.conversation)
        measured = turn.measures["voice_to_voice_ms"]
        assert isinstance(measured, Value), measured
        latencies.append(measured.value)
    delays = [one.start_delay_ns / NS_PER_MS for one in dialogues if one.start_delay_ns is not None]
    return Found(latencies, delays)
