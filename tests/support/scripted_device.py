"""A microphone and a loudspeaker on any clock, and a person who says set things at set times."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from harness.microphone.device import Ears, Heard, Sounded
from harness.microphone.queue import PlayQueue
from sessions.clock import NS_PER_MS, NS_PER_S, Clock, samples_to_ns

Pcm = NDArray[np.int16]
BLOCK = 480


@dataclass(slots=True)
class Screen:
    """What a person would have seen."""

    turns: list[tuple[int, float]] = field(default_factory=list)
    """(turn, latency in ms)"""
    warnings: list[str] = field(default_factory=list)
    is_ready: bool = False
    levels: int = 0

    def ready(self) -> None:
        self.is_ready = True

    def level(self, dbfs: float, speaking: bool, agent_sounds: bool) -> None:
        self.levels += 1

    def turn(self, index: int, said_s: float, latency_ms: float) -> None:
        self.turns.append((index, latency_ms))

    def warn(self, what: str) -> None:
        self.warnings.append(what)

    def close(self) -> None: ...


@dataclass(slots=True, repr=False)
class ScriptedDevice:
    """Blocks of 20 ms both ways.

    says: (milliseconds from the start of the device, int16 (samples,)) · noise: RMS of the room, int16 steps · echo:
    how much of the loudspeaker the microphone hears, after 60 ms · slow_ppm: how much slower its clock is than ours ·
    waits_ms: from a block's last sample to its hand-over · lies_ms: how much too late its stamps are · lost: blocks
    that never come · gone_ms: when the device goes · output_ms: from a block being given to its sound.
    """

    clock: Clock
    says: Sequence[tuple[float, Pcm]]
    noise: float = 0
    echo: float = 0
    slow_ppm: float = 0
    waits_ms: float = 0
    lies_ms: float = 0
    lost: Sequence[int] = ()
    gone_ms: float = math.inf
    output_ms: float = 0
    rate_hz: int = 24_000
    start_ns: int = 0
    played: list[tuple[int, Pcm]] = field(default_factory=list)
    """(when it was heard, block) of all that had sound in it."""
    _queue: PlayQueue = field(default_factory=PlayQueue)
    _task: asyncio.Task[None] | None = None

    def true_ns(self, ms: float) -> int:
        """When what is said `ms` after the device's start really is at the microphone, by our clock."""
        return self.start_ns + round(ms * NS_PER_MS * (1 + self.slow_ppm / 1e6))

    def start(self, ears: Ears) -> None:
        self.start_ns = self.clock.now_ns()
        self._task = asyncio.create_task(self._run(ears))

    def play(self, reply: str, pcm: Pcm) -> None:
        self._queue.put(reply, pcm)

    def drop(self) -> None:
        self._queue.drop()

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self, ears: Ears) -> None:
        dice = np.random.default_rng(7)
        lost_before = False
        for block in itertools.count():
            end_ns = self.true_ns((block + 1) * BLOCK * 1000 / self.rate_hz)
            await self.clock.sleep_until_ns(end_ns + round(self.waits_ms * NS_PER_MS))
            now_ns = self.clock.now_ns()
            self._sound(ears, now_ns)
            if now_ns >= self.start_ns + self.gone_ms * NS_PER_MS:
                ears.failed("a microphone has stopped")
                return
            if block in self.lost:
                lost_before = True
                continue
            begin_ns = end_ns - samples_to_ns(BLOCK, self.rate_hz)
            pcm = self._said(block)
            if self.noise:
                pcm += dice.standard_normal(BLOCK) * self.noise
            if self.echo:
                pcm += self._echo(begin_ns) * self.echo
            frame = np.clip(np.rint(pcm), -32768, 32767).astype(np.int16)
            ears.heard(Heard(frame, begin_ns + round(self.lies_ms * NS_PER_MS), now_ns, lost_before))
            lost_before = False

    def _said(self, block: int) -> NDArray[np.float64]:
        out = np.zeros(BLOCK)
        for at_ms, pcm in self.says:
            _add(out, pcm, round(at_ms * self.rate_hz / 1000) - block * BLOCK)
        return out

    def _sound(self, ears: Ears, now_ns: int) -> None:
        out = np.zeros(BLOCK, dtype=np.int16)
        pieces = self._queue.take(out)
        if pieces:
            at_ns = now_ns + round(self.output_ms * NS_PER_MS)
            self.played.append((at_ns, out))
            ears.sounded(Sounded(out, at_ns, now_ns, pieces))

    def _echo(self, from_ns: int) -> NDArray[np.float64]:
        out = np.zeros(BLOCK)
        for at_ns, pcm in self.played[-12:]:
            _add(out, pcm, round((at_ns + 60 * NS_PER_MS - from_ns) * self.rate_hz / NS_PER_S))
        return out


def _add(out: NDArray[np.float64], pcm: Pcm, first: int) -> None:
    """pcm (samples,) into out (block,) from its sample `first` on, as far as it lies in it."""
    lo, hi = max(0, first), min(len(out), first + len(pcm))
    if lo < hi:
        out[lo:hi] += pcm[lo - first : hi - first]
