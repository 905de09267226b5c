"""Listening to one lane: when somebody speaks in it, and what is wrong with it. It is read in pieces of 20 s."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from harness.analyze.inputs import Lane
from harness.from_recording.lanes import lane_blocks
from harness.from_recording.segments import Find
from metrics.spans import Span
from sessions.audio import FloatPcm
from sessions.clock import samples_to_ns

_FULL: Final = 32767 / 32768
"""The largest positive sample of 16 bit."""
_CLIPPED_RUN: Final = 3
"""So many samples in a row at full scale are no peak: the top is cut off."""


@dataclass(frozen=True, slots=True)
class Heard:
    """One lane. stretches: of speech, in order, in ns from the file's first sample · clipped: runs of at least three
    samples at full scale · is_silent: no sample differs from the first."""

    lane: Lane
    stretches: tuple[Span, ...]
    clipped: int = 0
    is_silent: bool = False

    @property
    def duration_ns(self) -> int:
        return samples_to_ns(self.lane.call.samples, self.lane.call.rate_hz)

    @property
    def speech_ns(self) -> int:
        return sum(stretch.length_ns for stretch in self.stretches)

    def notes(self) -> Iterator[str]:
        """What a user should know of this lane."""
        who = f"the {self.lane.side}'s lane ({self.lane.where})"
        if self.is_silent:
            yield f"{who} is silent"
        elif not self.stretches:
            yield f"the detector hears no speech in {who}, which is not silent: --method energy-1 goes by level alone"
        if self.clipped:
            yield f"{who} is clipped {self.clipped} times: edges of speech may be found elsewhere"


def listen(lane: Lane, find: Find) -> Heard:
    """Let `find` look for speech in a lane. Raises `BadAudio`, `MissingExtra` or `MissingWeights`."""
    rate_hz, samples = lane.call.rate_hz, lane.call.samples
    watch = _Watch()
    found = find(watch.through(lane_blocks(lane.call, lane.number)), rate_hz)
    stretches = tuple(
        Span(samples_to_ns(one.first, rate_hz), samples_to_ns(min(one.stop, samples), rate_hz))
        for one in found
        if one.first < samples
    )
    return Heard(lane, stretches, watch.clipped, watch.is_silent)


@dataclass(slots=True)
class _Watch:
    """Counts what passes by on its way to the detector."""

    clipped: int = 0
    is_silent: bool = True
    first: float | None = field(default=None)

    def through(self, blocks: Iterator[FloatPcm]) -> Iterator[FloatPcm]:
        for block in blocks:
            full = np.abs(block) >= _FULL
            if full.any():
                steps = np.diff(np.concatenate(([0], full.astype(np.int8), [0])))
                lengths = np.flatnonzero(steps == -1) - np.flatnonzero(steps == 1)
                self.clipped += int(np.count_nonzero(lengths >= _CLIPPED_RUN))
            if self.is_silent and len(block):
                self.first = float(block[0]) if self.first is None else self.first
                self.is_silent = bool((block == self.first).all())
            yield block
