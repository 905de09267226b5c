"""How loud a sound is, and whether it was clipped or shifted."""

from __future__ import annotations

import importlib.util
import math
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from metrics.result import Measured, Unavailable, Value
from metrics.scoring import FloatPcm

FULL_SCALE = 32766.5 / 32768
"""What rounds to the outermost step of int16."""
CLIPPED_SAMPLES = 3
"""So many in a row at full scale are no peak any more, but a flat top."""
LUFS_BLOCK_S = 0.4
_LUFS_STEP_S = 0.1
_ABSOLUTE_GATE_LUFS = -70.0
_RELATIVE_GATE_LU = -10.0
_CHUNK_S = 60
_RUN_CHUNK = 1 << 20
_LEAD_S = 1
"""For the filters to settle, where a chunk is not the first."""


@dataclass(frozen=True, slots=True)
class Clipping:
    """runs: (first sample, samples) of each flat top."""

    runs: tuple[tuple[int, int], ...]
    share: float


def clipping(samples: FloatPcm) -> Clipping:
    """Runs of at least `CLIPPED_SAMPLES` samples at full scale, and the share of all samples that lie in them."""
    high = runs_where(samples, lambda part: part >= FULL_SCALE, CLIPPED_SAMPLES)
    low = runs_where(samples, lambda part: part <= -FULL_SCALE, CLIPPED_SAMPLES)
    found = sorted((*high, *low))
    return Clipping(tuple(found), sum(length for _, length in found) / len(samples))


def runs_where(samples: FloatPcm, holds: Callable[[FloatPcm], NDArray[np.bool_]], least: int) -> list[tuple[int, int]]:
    """(first, length) of each run of at least so many samples for which something holds; a stretch at a time."""
    found: list[tuple[int, int]] = []
    begun: int | None = None
    for at in range(0, len(samples), _RUN_CHUNK):
        mask = holds(samples[at : at + _RUN_CHUNK])
        steps = np.diff(np.concatenate(([False], mask, [False])).astype(np.int8))
        starts, stops = at + np.flatnonzero(steps == 1), at + np.flatnonzero(steps == -1)
        if begun is not None and mask[0]:
            starts[0] = begun
        elif begun is not None and at - begun >= least:
            found.append((begun, at - begun))
        begun = None
        if mask[-1] and at + len(mask) < len(samples):
            begun = int(starts[-1])
            starts, stops = starts[:-1], stops[:-1]
        long = stops - starts >= least
        found += zip(starts[long].tolist(), (stops - starts)[long].tolist(), strict=True)
    return found


def peak_dbfs(samples: FloatPcm) -> Measured:
    """20·log10 of the largest |x|."""
    peak = max(float(samples.max()), -float(samples.min()))
    return Value(20 * math.log10(peak)) if peak > 0 else Unavailable("digital silence")


def mean_offset(samples: FloatPcm) -> float:
    """The mean, of full scale."""
    return float(samples.mean(dtype=np.float64))


def loudness_lufs(samples: FloatPcm, rate_hz: int) -> Measured:
    """Integrated loudness, ITU-R BS.1770-4, mono as one front channel; filters and blocks by pyloudnorm.

    A sound of more than a minute is taken a minute at a time: the same 400 ms blocks, gated together.
    """
    if importlib.util.find_spec("pyloudnorm") is None:
        return Unavailable("pyloudnorm is not installed; run: pip install 'duologue[mos]'")
    if len(samples) < LUFS_BLOCK_S * rate_hz:
        return Unavailable("shorter than 0.4 s, one block of the loudness meter")
    blocks = np.concatenate([_block_loudness(samples, rate_hz, minute) for minute in range(_minutes(samples, rate_hz))])
    return _gated(blocks)


def _minutes(samples: FloatPcm, rate_hz: int) -> int:
    """How many chunks hold a first sample of a block."""
    return 1 + int((len(samples) - LUFS_BLOCK_S * rate_hz) // (_CHUNK_S * rate_hz))


def _block_loudness(samples: FloatPcm, rate_hz: int, minute: int) -> NDArray[np.float64]:
    """Loudness of the blocks that begin in that minute, in LUFS; −inf for silence."""
    import pyloudnorm

    lead_s = _LEAD_S if minute else 0
    start = (minute * _CHUNK_S - lead_s) * rate_hz
    # The last block of a minute begins 100 ms before its end.
    stop = (minute + 1) * _CHUNK_S * rate_hz + round((LUFS_BLOCK_S - _LUFS_STEP_S) * rate_hz)
    meter = pyloudnorm.Meter(rate_hz)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # the logarithm of silence
        meter.integrated_loudness(samples[start:stop].astype(np.float64))
    return np.asarray(meter.blockwise_loudness, dtype=np.float64)[round(lead_s / _LUFS_STEP_S) :]


def _gated(blocks: NDArray[np.float64]) -> Measured:
    """The mean power of the blocks above −70 LUFS and within 10 LU of the mean of those."""
    loud = blocks[blocks >= _ABSOLUTE_GATE_LUFS]
    if not len(loud):
        return Unavailable("silence: no block reaches -70 LUFS")
    gate = _mean_lufs(loud) + _RELATIVE_GATE_LU
    return Value(_mean_lufs(loud[loud > gate]))


def _mean_lufs(blocks: NDArray[np.float64]) -> float:
    return float(10 * np.log10(np.mean(10 ** (blocks / 10))))
