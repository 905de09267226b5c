"""Where somebody speaks in a lane, by level or by Silero. Positions are samples of the recording."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from types import MappingProxyType
from typing import Final

import numpy as np
import soxr

from harness.speech_end_error.methods import silero_detector
from sessions.audio import FloatPcm, source_index_to_out, to_pcm16
from sessions.speech_end import (
    ENERGY_1,
    RANGE_DB,
    SILENCE_DBFS,
    SILERO_1,
    SPEECH_PROBABILITY,
    block_edges,
    block_powers,
)

SHORTEST_MS: Final = 60
"""What is shorter is a click."""
BRIDGE_MS: Final = 200
"""Speech has gaps: the closure of a stop, a breath."""
QUIET_PROBABILITY: Final = 0.35


@dataclass(frozen=True, slots=True)
class Stretch:
    """Somebody speaks from sample `first` up to, and without, sample `stop`."""

    first: int
    stop: int


Find = Callable[[Iterable[FloatPcm], int], list[Stretch]]


def by_level(blocks: Iterable[FloatPcm], rate_hz: int) -> list[Stretch]:
    """5 ms blocks within 35 dB of the lane's loudest. blocks: pieces of whole seconds, but for the last."""
    parts = [block_powers(piece, block_edges(len(piece), rate_hz)) for piece in blocks]
    powers = np.concatenate(parts) if parts else np.zeros(0)
    loudest = float(powers.max(initial=0.0))
    if loudest < 10 ** (SILENCE_DBFS / 10):
        return []
    loud = powers >= loudest * 10 ** (-RANGE_DB / 10)
    edges = np.arange(len(loud) + 1, dtype=np.int64) * rate_hz // 200
    return _tidy(_runs(loud.tolist(), edges.tolist()), rate_hz)


def by_silero(blocks: Iterable[FloatPcm], rate_hz: int) -> list[Stretch]:
    """Frames of 32 ms: speech begins at a probability of 0.5 and goes on while it is above 0.35; its last frame is the
    last one of at least 0.5, as `speech_end/silero-1` has it. Raises `MissingExtra` or `MissingWeights`."""
    detector = silero_detector()
    detector.reset()
    probabilities = [
        detector.probability(frame) for frame in _frames(blocks, rate_hz, detector.rate_hz, detector.frame_samples)
    ]
    size = detector.frame_samples
    edges = [source_index_to_out(at * size - 1, detector.rate_hz, rate_hz) + 1 for at in range(len(probabilities) + 1)]
    return _tidy(_runs(_speaking(probabilities), edges), rate_hz)


METHODS: Final = MappingProxyType({"silero": by_silero, "energy-1": by_level})
VERSIONED: Final = MappingProxyType({"silero": SILERO_1, "energy-1": ENERGY_1})


def joined(stretches: Sequence[Stretch], within_samples: int) -> list[Stretch]:
    """Stretches less than so far apart are one."""
    out: list[Stretch] = []
    for one in stretches:
        if out and one.first - out[-1].stop < within_samples:
            out[-1] = Stretch(out[-1].first, one.stop)
        else:
            out.append(one)
    return out


def _frames(
    blocks: Iterable[FloatPcm], rate_hz: int, to_hz: int, size: int
) -> Iterator[np.ndarray[tuple[int], np.dtype[np.int16]]]:
    stream = soxr.ResampleStream(rate_hz, to_hz, 1, dtype="float32", quality="HQ") if rate_hz != to_hz else None
    waiting = np.zeros(0, dtype=np.float32)
    for piece in chain(blocks, (None,)):
        new = _resampled(stream, piece)
        waiting = np.concatenate([waiting, new])
        if piece is None:  # the last frame is filled up with zeros
            waiting = np.pad(waiting, (0, -len(waiting) % size))
        whole = len(waiting) // size * size
        for first in range(0, whole, size):
            yield to_pcm16(waiting[first : first + size])
        waiting = waiting[whole:]


def _resampled(stream: soxr.ResampleStream | None, piece: FloatPcm | None) -> FloatPcm:
    if stream is None:
        return np.zeros(0, dtype=np.float32) if piece is None else piece
    chunk = np.zeros(0, dtype=np.float32) if piece is None else piece
    return np.asarray(stream.resample_chunk(chunk, last=piece is None), dtype=np.float32)


def _speaking(probabilities: Sequence[float]) -> list[bool]:
    speaking, out = False, []
    for probability in probabilities:
        speaking = probability >= (QUIET_PROBABILITY if speaking else SPEECH_PROBABILITY)
        out.append(speaking)
    for at in reversed(range(len(out))):  # what trails off below 0.5 is the end of no speech
        if out[at] and probabilities[at] < SPEECH_PROBABILITY and (at + 1 == len(out) or not out[at + 1]):
            out[at] = False
    return out


def _runs(marks: Sequence[bool], edges: Sequence[int]) -> list[Stretch]:
    steps = np.diff(np.concatenate(([0], np.asarray(marks, dtype=np.int8), [0])))
    starts, stops = np.flatnonzero(steps == 1), np.flatnonzero(steps == -1)
    return [Stretch(edges[a], edges[b]) for a, b in zip(starts.tolist(), stops.tolist(), strict=True)]


def _tidy(runs: list[Stretch], rate_hz: int) -> list[Stretch]:
    bridged = joined(runs, BRIDGE_MS * rate_hz // 1000)
    return [one for one in bridged if one.stop - one.first >= SHORTEST_MS * rate_hz // 1000]
