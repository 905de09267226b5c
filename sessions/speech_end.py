"""Where an utterance ends: the index of its last speech sample.

`speech_end/energy-1`: the clean source, at its own rate, is cut into 5 ms blocks on its sample index (block j = samples
⌊j·rate/200⌋ up to ⌊(j+1)·rate/200⌋, a short last block by its own length, as in `gate/1`). The level of a block is its
root mean square. Speech ends with the last sample of the last block whose level is within 35 dB of the loudest block's.

The method hears no difference between speech and noise: where a recording's noise floor or DC offset lies within 35 dB
of the voice, annotate the end instead.

`speech_end/silero-1`: a voice detector reads the source, resampled to the detector's rate, from its first sample in
whole frames (the last one filled up with zeros). Speech ends with the last sample of the last frame whose probability
is at least 0.5. The detector is handed in: this package knows no engine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sessions.audio import FULL_SCALE, FloatPcm, Pcm, resample, source_index_to_out, to_pcm16
from sessions.clock import samples_to_ns
from sessions.errors import BadAudio

ANNOTATION = "annotation"
ENERGY_1 = "speech_end/energy-1"
SILERO_1 = "speech_end/silero-1"
FLOOR_1 = "speech_end/floor-1"
"""By level above the noise of a room, while it is heard (harness/microphone/detector.py)."""

BLOCKS_PER_S = 200
RANGE_DB = 35.0
# Below this the loudest 5 ms are hiss or dither: a muted microphone, not a voice.
SILENCE_DBFS = -70.0
SPEECH_PROBABILITY = 0.5

_CHUNK_BLOCKS = 60 * BLOCKS_PER_S


@dataclass(frozen=True, slots=True)
class SpeechEnd:
    """index_samples: the last speech sample, counted at rate_hz · method: `ANNOTATION` or a named, versioned method."""

    index_samples: int
    rate_hz: int
    method: str

    @property
    def offset_ns(self) -> int:
        """From the utterance's first sample to the end of its last speech sample: (index + 1)/rate."""
        return samples_to_ns(self.index_samples + 1, self.rate_hz)

    def at_rate(self, rate_hz: int) -> SpeechEnd:
        """The same end in the same audio resampled to `rate_hz`."""
        index = source_index_to_out(self.index_samples, self.rate_hz, rate_hz)
        return SpeechEnd(index, rate_hz, self.method)


class FindEnd(Protocol):
    """A method that finds where speech ends. `energy_1` is one, and so is `silero_1` with its detector bound."""

    def __call__(self, samples: Pcm | FloatPcm, rate_hz: int, *, name: str) -> SpeechEnd: ...


class FrameDetector(Protocol):
    """A voice detector with a state of its own."""

    @property
    def frame_samples(self) -> int: ...
    @property
    def rate_hz(self) -> int: ...

    def probability(self, frame: Pcm) -> float:
        """How likely `frame` (int16, exactly `frame_samples` at `rate_hz`) is speech, 0 to 1."""
        ...

    def reset(self) -> None: ...


def energy_1(samples: Pcm | FloatPcm, rate_hz: int, *, name: str) -> SpeechEnd:
    """Find the end by `speech_end/energy-1`.

    samples: int16 or float32 (samples,) mono, the clean source at its own rate · name: what to call it in an error.
    Raises `BadAudio` if no block reaches `SILENCE_DBFS`.
    """
    edges = block_edges(len(samples), rate_hz)
    powers = block_powers(samples, edges)
    loudest = float(powers.max(initial=0.0))
    if loudest < 10 ** (SILENCE_DBFS / 10):
        raise BadAudio(
            f"no speech in {name}: cannot tell where it ends (nothing in it reaches {SILENCE_DBFS:g} dBFS)",
            "Give a recording with speech in it, or annotate speech_end_sample in the script",
        )
    last = int(np.flatnonzero(powers >= loudest * 10 ** (-RANGE_DB / 10))[-1])
    return SpeechEnd(int(edges[last + 1]) - 1, rate_hz, ENERGY_1)


def silero_1(detector: FrameDetector, samples: Pcm | FloatPcm, rate_hz: int, *, name: str) -> SpeechEnd:
    """Find the end by `speech_end/silero-1`.

    samples, name: as for `energy_1` · detector: of Silero; it is reset first.
    Raises `BadAudio` if no frame is speech to the detector.
    """
    scale = np.float32(FULL_SCALE if samples.dtype == np.int16 else 1.0)
    pcm = to_pcm16(resample(samples.astype(np.float32) / scale, rate_hz, detector.rate_hz))
    size = detector.frame_samples
    pcm = np.pad(pcm, (0, -len(pcm) % size))
    detector.reset()
    last = -1
    for frame in range(len(pcm) // size):
        if detector.probability(pcm[frame * size : (frame + 1) * size]) >= SPEECH_PROBABILITY:
            last = frame
    if last < 0:
        raise BadAudio(
            f"no speech in {name}: cannot tell where it ends (to {SILERO_1} none of it is speech)",
            f"Annotate it (duologue scripts annotate --at), or let {ENERGY_1} find the end by level",
        )
    index = source_index_to_out((last + 1) * size - 1, detector.rate_hz, rate_hz)
    return SpeechEnd(min(index, len(samples) - 1), rate_hz, SILERO_1)


def block_edges(length_samples: int, rate_hz: int) -> NDArray[np.int64]:
    """int64 (blocks + 1,): block j is samples edges[j] up to edges[j + 1]. The last block may be short."""
    blocks = -(-length_samples * BLOCKS_PER_S // rate_hz)
    edges = np.arange(blocks + 1, dtype=np.int64) * rate_hz // BLOCKS_PER_S
    edges[-1] = length_samples
    return edges


def block_powers(samples: Pcm | FloatPcm, edges: NDArray[np.int64]) -> NDArray[np.float64]:
    """float64 (blocks,): mean square of each block, 1.0 = full scale."""
    scale = FULL_SCALE if samples.dtype == np.int16 else 1.0
    parts = [_powers_of(samples, part, scale) for part in _chunks(edges)]
    return np.concatenate(parts) if parts else np.zeros(0)


def _powers_of(samples: Pcm | FloatPcm, edges: NDArray[np.int64], scale: float) -> NDArray[np.float64]:
    squares = np.square(samples[edges[0] : edges[-1]].astype(np.float64) / scale)
    sums = np.add.reduceat(squares, edges[:-1] - edges[0])
    return np.asarray(sums / np.diff(edges), dtype=np.float64)


def _chunks(edges: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Runs of edges of a minute each, so that an hour of audio is never squared in one piece."""
    blocks = len(edges) - 1
    starts = [*range(0, blocks, _CHUNK_BLOCKS), blocks]
    for first, last in pairwise(starts):
        yield edges[first : last + 1]
