"""How far up a sound reaches: 8 kHz audio in a 24 kHz file still ends at 4 kHz."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from metrics.result import Measured, Unavailable, Value
from metrics.scoring import FloatPcm

FRAME_S = 0.032
BAND_HZ = 125.0
BELOW_LOUDEST_DB = 60.0
"""Telephone audio that was resampled has its own rounding noise above 4 kHz, 85 to 95 dB below."""
NARROW = 0.55
"""Of what the file's rate could hold; less is flagged. 16 kHz audio in a 24 kHz file has 0.67."""
_LEAST_FRAMES = 3
_FRAMES_AT_ONCE = 2000


def bandwidth_hz(samples: FloatPcm, rate_hz: int, runs: tuple[tuple[int, int], ...]) -> Measured:
    """The upper edge of the highest 125 Hz band whose mean power is within 60 dB of the loudest band's.

    Power: Hann windows of 32 ms, half overlapping, in the audible stretches. runs: (first sample, one past the last).
    """
    width = round(FRAME_S * rate_hz)
    total, count = np.zeros(width // 2 + 1), 0
    for frames in _frames(samples, width, runs):
        total += (np.abs(np.fft.rfft(frames * np.hanning(width))) ** 2).sum(axis=0)
        count += len(frames)
    if count < _LEAST_FRAMES:
        return Unavailable("too little audible sound")
    bands = (np.fft.rfftfreq(width, 1 / rate_hz) / BAND_HZ).astype(np.int64)
    power = np.bincount(bands, total) / np.bincount(bands)
    highest = int(np.flatnonzero(power >= power.max() * 10 ** (-BELOW_LOUDEST_DB / 10))[-1])
    return Value(min((highest + 1) * BAND_HZ, rate_hz / 2))


def is_narrow(bandwidth: Measured, rate_hz: int) -> bool:
    """Whether much of what the file could hold is empty."""
    return isinstance(bandwidth, Value) and bandwidth.value < NARROW * rate_hz / 2


def _frames(samples: FloatPcm, width: int, runs: tuple[tuple[int, int], ...]) -> Iterator[NDArray[np.float64]]:
    hop = width // 2
    for first, last in runs:
        starts = np.arange(first, last - width + 1, hop)
        for at in range(0, len(starts), _FRAMES_AT_ONCE):
            some = starts[at : at + _FRAMES_AT_ONCE]
            yield samples[some[:, None] + np.arange(width)].astype(np.float64)
