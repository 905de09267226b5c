"""A whole calibration of this machine: its floor, every transport's grid at each concurrency, what that resolves."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from harness.calibrate.carriers import TRANSPORTS, Carrier
from harness.calibrate.converse import compare, converse, longest_stall_ms
from harness.calibrate.grid import Cell, behaviour, quick_grid, utterances, whole_grid
from harness.calibrate.loopback import round_trips
from harness.calibrate.spread import Spread, spread
from harness.dialogue.record import Record
from harness.runs.floor import heartbeat_floor, percentiles, timer_slack, timing_floor
from harness.runs.loop import run_timed
from harness.runs.own_server import own_server
from harness.runs.planning import software
from servers.write_log import Write, read_write_log
from sessions.clock import Clock, MonotonicClock, TimerWheel, wall_time

VERSION = 1


@dataclass(frozen=True, slots=True)
class Extent:
    """How much is done. rounds: dialogues at once → how often each of them goes through all cells · floor: samples."""

    cells: tuple[Cell, ...]
    rounds: dict[int, int]
    floor: int


def whole_extent() -> Extent:
    """About 100 s. One dialogue goes twice through the grid, so that its p99 has its hundred turns."""
    return Extent(tuple(whole_grid()), {1: 2, 4: 1, 16: 1}, 300)


def quick_extent() -> Extent:
    """About 12 s; a p99 only where many speak at once."""
    return Extent(tuple(quick_grid()), {1: 2, 4: 1, 16: 1}, 120)


class Level(msgspec.Struct, frozen=True):
    """reported − true with so many dialogues at once over one transport.

    turns: attempts · invalid: those of them in which this machine was late, in no spread ·
    stall_max_ms: largest lag of a heartbeat of 5 ms or more, 0 without any. underruns is a count, behind no buffer.
    """

    transport: str
    dialogues: int
    turns: int
    invalid: int
    stall_max_ms: float
    first_packet_ms: Spread
    voice_to_voice_ms: Spread
    gaps_ms: Spread
    underruns: Spread


class Resolution(msgspec.Struct, frozen=True):
    """What can be told, by the rule of docs/accuracy.md; None where no turn was on time.

    latency_ms: one turn's latency is known to ± this · difference_ms: two turns that differ by less cannot be told
    apart · gap_ms: nor can a gap or an underrun that is shorter.
    """

    transport: str
    dialogues: int
    latency_ms: float | None
    difference_ms: float | None
    gap_ms: float | None


class Calibration(msgspec.Struct, frozen=True):
    """All of it, as `--json` and `--out` give it. machine: cores, load average · floor: milliseconds by name."""

    created: str
    quick: bool
    machine: dict[str, float]
    software: dict[str, str]
    floor: dict[str, float]
    levels: list[Level]
    verdict: list[Resolution]
    version: int = VERSION


Told = Callable[[str], None]


def calibrate(quick: bool, told: Told) -> Calibration:
    """Calibrate this machine, over loopback only. told: takes a line on what is being done, over and over.

    Raises `SetupError` when the metronome does not start, and a dialogue's own error when one cannot be held.
    """
    extent = quick_extent() if quick else whole_extent()
    machine = _machine()
    told("this machine's own floor")
    floor = run_timed(machine_floor(TimerWheel(MonotonicClock()), extent.floor))
    levels = [
        level for name, carrier in TRANSPORTS.items() for level in _calibrate_transport(name, carrier, extent, told)
    ]
    return Calibration(
        created=wall_time(),
        quick=quick,
        machine=machine,
        software=software(),
        floor=floor,
        levels=levels,
        verdict=[resolve(level) for level in levels],
    )


async def machine_floor(clock: Clock, samples: int) -> dict[str, float]:
    """What lies under every figure: clock, timers, heartbeat, a bare loopback round trip; `samples` of each."""
    return {
        **await timing_floor(clock, samples),
        **timer_slack(),
        **await heartbeat_floor(clock, samples),
        **percentiles("loopback_round_trip", await round_trips(clock, samples)),
    }


def _calibrate_transport(name: str, carrier: Carrier, extent: Extent, told: Told) -> list[Level]:
    """One metronome for all levels; its log is whole when it has stopped."""
    with tempfile.TemporaryDirectory(prefix="duologue-calibrate-") as scratch:
        place = Path(scratch)
        (place / "grid.yaml").write_text(behaviour(extent.cells))
        log = place / "writes.jsonl"
        arguments = ["--metronome", str(place / "grid.yaml"), "--write-log", str(log), "--front", carrier.front]
        held = {}
        with own_server(arguments, place / "server.log") as url:
            for dialogues, rounds in extent.rounds.items():
                clock = TimerWheel(MonotonicClock())  # one for each loop
                turns = utterances(rounds * len(extent.cells))
                counter = _Counter(name, dialogues, dialogues * len(turns), told)
                held[dialogues] = run_timed(
                    converse(carrier, carrier.dialler(url, clock), clock, turns, dialogues, counter.count)
                )
        writes = read_write_log(log)
    return [level_of(name, carrier, records, writes) for records in held.values()]


class _Counter:
    """Tells how many turns are over."""

    def __init__(self, transport: str, dialogues: int, total: int, told: Told) -> None:
        self._what = f"{transport}, {'1 dialogue' if dialogues == 1 else f'{dialogues} dialogues at once'}"
        self._total, self._done, self._told = total, 0, told
        told(f"{self._what}: {total} turns")

    def count(self) -> None:
        self._done += 1
        self._told(f"{self._what}: turn {self._done}/{self._total}")


def level_of(transport: str, carrier: Carrier, records: Sequence[Record], writes: Sequence[Write]) -> Level:
    """Judge the dialogues that were held at once. Raises `ValueError` where the log is not theirs."""
    found = compare(carrier, records, writes)
    return Level(
        transport=transport,
        dialogues=len(records),
        turns=len(found.first_packet_ms) + found.excluded,
        invalid=found.excluded,
        stall_max_ms=longest_stall_ms(records),
        first_packet_ms=spread(found.first_packet_ms),
        voice_to_voice_ms=spread(found.voice_to_voice_ms),
        gaps_ms=spread(found.gaps_ms),
        underruns=spread(found.underruns),
    )


def resolve(level: Level) -> Resolution:
    """The verdict's rule: what nearly all errors stay within, twice that for a difference; rounded up to 0.1 ms."""
    worst = [each.nearly_all for each in (level.first_packet_ms, level.voice_to_voice_ms)]
    known = [value for value in worst if value is not None]
    latency_ms = _round_up(max(known)) if known else None
    return Resolution(
        transport=level.transport,
        dialogues=level.dialogues,
        latency_ms=latency_ms,
        difference_ms=None if latency_ms is None else round(2 * latency_ms, 1),
        gap_ms=None if level.gaps_ms.nearly_all is None else _round_up(level.gaps_ms.nearly_all),
    )


def _round_up(value_ms: float) -> float:
    """To a tenth of a millisecond."""
    return math.ceil(round(value_ms * 10, 6)) / 10


def _machine() -> dict[str, float]:
    """Before anything of ours runs."""
    facts: dict[str, float] = {"cores": os.cpu_count() or 0}
    if hasattr(os, "getloadavg"):
        facts["load_1min"] = round(os.getloadavg()[0], 2)
    return facts
