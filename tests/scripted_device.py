"""A microphone and a loudspeaker on any clock, and a person who says set things at set times."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from harness.microphone.device import Ears, Heard, Sounded
from harness.microphone.queue import PlayQueue
from sessions.clock import NS_PER_MS, Clock, samples_to_ns

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


class ScriptedDevice:
    """Blocks of 20 ms both ways.

    says: (milliseconds from the start of the device, int16 (samples,)) · noise: RMS of the room, int16 steps · echo:
    how much of the loudspeaker the microphone hears, after 60 ms · slow_ppm: how much slower its clock is than ours ·
    waits_ms: from a block's last sample to its hand-over · lies_ms: how much too late its stamps are · lost: blocks
    that never come · gone_ms: when the device goes · output_ms: from a block being given to its sound.
    """

    rate_hz = 24_000

    def __init__(self, clock: Clock, says: Sequence[tuple[float, Pcm]], **how: float | Sequence[int]) -> None:
        self._clock, self._how = clock, {"noise": 0, "echo": 0, "slow_ppm": 0, "waits_ms": 0, "lies_ms": 0} | how
        self._says = says
        self._queue = PlayQueue()
        self._task: asyncio.Task[None] | None = None
        self.start_ns = 0
        self.played: list[tuple[int, Pcm]] = []
        """(when it was heard, block) of all that had sound in it."""

    def true_ns(self, ms: float) -> int:
        """When what is said `ms` after the device's start really is at the microphone, by our clock."""
        return self.start_ns + round(ms * NS_PER_MS * (1 + self._how["slow_ppm"] / 1e6))  # type: ignore[operator]

    def start(self, ears: Ears) -> None:
        self.start_ns = self._clock.now_ns()
        self._task = asyncio.create_task(self._run(ears))

    def play(self, reply: str, pcm: Pcm) -> None:
        self._queue.put(reply, pcm)

    def drop(self) -> None:
        self._queue.drop()

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()

    async def _run(self, ears: Ears) -> None:
        how, waits_ns = self._how, self._ns("waits_ms")
        dice = np.random.default_rng(7)
        lost_before = False
        for block in range(1 << 30):
            end_ns = self.true_ns((block + 1) * BLOCK * 1000 / self.rate_hz)
            await self._clock.sleep_until_ns(end_ns + waits_ns)
            now_ns = self._clock.now_ns()
            self._sound(ears, now_ns)
            if block in how.get("lost", ()):  # type: ignore[operator]
                lost_before = True
                continue
            pcm = self._said(block) + dice.standard_normal(BLOCK) * float(how["noise"])  # type: ignore[arg-type]
            if how["echo"]:
                pcm += self._echo(end_ns - samples_to_ns(BLOCK, self.rate_hz)) * float(how["echo"])  # type: ignore[arg-type]
            at_ns = end_ns - samples_to_ns(BLOCK, self.rate_hz) + self._ns("lies_ms")
            if how.get("gone_ms") and now_ns >= self.true_ns(float(how["gone_ms"])):  # type: ignore[arg-type]
                ears.failed("a microphone has stopped")
                return
            ears.heard(Heard(np.clip(np.rint(pcm), -32768, 32767).astype(np.int16), at_ns, now_ns, lost_before))
            lost_before = False

    def _ns(self, name: str) -> int:
        return round(float(self._how.get(name, 0)) * NS_PER_MS)  # type: ignore[arg-type]

    def _said(self, block: int) -> NDArray[np.float64]:
        out = np.zeros(BLOCK)
        for at_ms, pcm in self._says:
            first = round(at_ms * self.rate_hz / 1000) - block * BLOCK
            lo, hi = max(0, first), min(BLOCK, first + len(pcm))
            if lo < hi:
                out[lo:hi] += pcm[lo - first : hi - first]
        return out

    def _sound(self, ears: Ears, now_ns: int) -> None:
        out = np.zeros(BLOCK, dtype=np.int16)
        pieces = self._queue.take(out)
        if pieces:
            at_ns = now_ns + self._ns("output_ms")
            self.played.append((at_ns, out))
            ears.sounded(Sounded(out, at_ns, now_ns, pieces))

    def _echo(self, from_ns: int) -> NDArray[np.float64]:
        out = np.zeros(BLOCK)
        for at_ns, pcm in self.played[-12:]:
            first = round((at_ns + 60 * NS_PER_MS - from_ns) * self.rate_hz / 1e9)
            lo, hi = max(0, first), min(BLOCK, first + BLOCK)
            if lo < hi:
                out[lo:hi] += pcm[lo - first : hi - first]
        return out
