"""A voice detector by level alone: needs numpy only, and is exact enough where silence is digital."""

from __future__ import annotations

import math

import numpy as np

from servers.speech_model import Pcm

_FULL_SCALE = 32768.0
_FLOOR_DBFS = -120.0
_STEEPNESS_DB = 3.0  # 3 dB above the threshold is 73 %, 9 dB above is 95 %
_FRAMES_PER_S = 100


class EnergyDetector:
    """A `VoiceDetector` with frames of 10 ms: the louder over `threshold_dbfs`, the likelier speech; 0.5 at it.

    Level is the frame's standard deviation, as in the audibility gate, so that a DC offset is not speech.
    """

    def __init__(self, rate_hz: int, *, threshold_dbfs: float = -45.0) -> None:
        if rate_hz < _FRAMES_PER_S:
            raise ValueError(f"a rate of {rate_hz} Hz has no frames of 10 ms")
        self.rate_hz = rate_hz
        self.frame_samples = rate_hz // _FRAMES_PER_S
        self._threshold_dbfs = threshold_dbfs

    def probability(self, frame: Pcm) -> float:
        """0 to 1 for `frame`: int16, exactly `frame_samples` at `rate_hz`."""
        if len(frame) != self.frame_samples:
            raise ValueError(f"a frame has {len(frame)} samples, not {self.frame_samples}")
        deviation = float(np.std(frame.astype(np.float64))) / _FULL_SCALE
        level_dbfs = 20.0 * math.log10(deviation) if deviation > 0.0 else _FLOOR_DBFS
        return 1.0 / (1.0 + math.exp((self._threshold_dbfs - level_dbfs) / _STEEPNESS_DB))

    def reset(self) -> None:
        """Nothing is carried from frame to frame."""
