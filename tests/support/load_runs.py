"""Runs of many dialogues on the virtual clock, from a plan to its summary."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import soundfile

from harness.results.derive import Derived, derive
from harness.runs.planning import Ask, make_plan, store_clips
from harness.runs.run import Access, Watcher, perform_run
from sessions.clock import TimerWheel
from sessions.events import read_log
from sessions.runs import Limits, Load, RunFolder
from sessions.scripts import script_from_audio
from sessions.secrets import Secrets
from tests.support.peers import Peer, Wire, audio, created, done, greet, in_memory, request, sleep_ms, tone
from tests.support.virtual_time import VirtualClock, run_virtual

ACCESS = Access("ws://memory/v1/realtime", {}, "", Secrets())


def make_run(
    place: Path, load: Load, repeat: int = 1, *, limits: Limits | None = None, scripts: int = 1, warmup: int = 0
) -> RunFolder:
    """A run of `repeat` rounds of dialogues of one turn, half a second of tone."""
    clip = place.parent / "clip.wav"
    soundfile.write(clip, tone(500), 24_000)
    spoken = [script_from_audio([str(clip)])] * scripts
    ask = Ask("ws://memory", spoken, repeat=repeat, warmup=warmup, load=load, limits=limits or Limits())
    run = RunFolder.create(place, make_plan(ask, Secrets(), {}))
    store_clips(run, spoken)
    return run


def hold(run: RunFolder, peer: Callable[[], Peer], watcher: Watcher | None = None) -> list[Derived]:
    """Perform the run against `peer()`; its dialogues in the order of the plan."""

    async def make(clock: VirtualClock) -> None:
        async with in_memory(peer(), clock) as connect:
            await perform_run(run, ACCESS, TimerWheel(clock), watcher or Watcher(), connect=connect)

    run_virtual(make)
    lines = sorted(run.journal(), key=lambda line: line.number)
    return [
        derive(read_log(run.dialogue(line.id) / "events.jsonl"), (run.dialogue(line.id) / "received.bin").read_bytes())
        for line in lines
    ]


class Slots:
    """A server that holds `k` sessions at once; the others wait for its greeting. It answers after 300 ms."""

    def __init__(self, k: int) -> None:
        self._free = asyncio.Semaphore(k)
        self.most = self.now = 0

    async def __call__(self, wire: Wire) -> None:
        async with self._free:
            self.now += 1
            self.most = max(self.most, self.now)
            try:
                await greet(wire)
                while True:
                    await request(wire)
                    await sleep_ms(wire, 300)
                    await wire.send(created("r"))
                    await wire.send(audio("r", tone(200)))
                    await wire.send(done("r"))
            finally:
                self.now -= 1


class Workers:
    """A server that makes `k` replies at once, each in `service_ms`; the other requests wait in order."""

    def __init__(self, k: int, service_ms: float = 300) -> None:
        self._free = asyncio.Semaphore(k)
        self._service_ms = service_ms

    async def __call__(self, wire: Wire) -> None:
        await greet(wire)
        while True:
            await request(wire)
            async with self._free:
                await sleep_ms(wire, self._service_ms)
            await wire.send(created("r"))
            await wire.send(audio("r", tone(200)))
            await wire.send(done("r"))


class Full(Slots):
    """Closes the connection where it has no place."""

    async def __call__(self, wire: Wire) -> None:
        if self._free.locked():
            await wire.close(1013, "full")
            return
        await super().__call__(wire)
