"""Audio files and arrays: reading with checks, mono, zero-delay resampling, int16.

Inside the project audio is `int16 (samples,)` mono with its rate beside it; 1.0 = 32768 = 0 dBFS.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from sessions.errors import BadAudio

Pcm = NDArray[np.int16]
FULL_SCALE = 32768.0


@dataclass(frozen=True, slots=True)
class Clip:
    """pcm: int16 (samples,) mono · rate_hz · notes: what was done to the source (mixed down, resampled)."""

    pcm: Pcm
    rate_hz: int
    notes: tuple[str, ...] = ()

    @property
    def duration_s(self) -> float:
        return len(self.pcm) / self.rate_hz
