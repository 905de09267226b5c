"""What of a sound goes into a voice's embedding: its speech, at one level, cut into windows."""

from __future__ import annotations

import math

import numpy as np

from metrics.gate import audible_runs
from metrics.mel import HOP_SAMPLES, RATE_HZ
from metrics.scoring import FloatPcm
from sessions.audio import to_pcm16

LONGEST_PAUSE_S = 0.18
"""Longer ones are cut out."""
LEVEL_DBFS = -30.0
"""A quieter sound is raised to here; a louder one is left."""
WINDOW_FRAMES = 160
HOP_FRAMES = 77
"""1.6 s, 1.3 times a second."""
_LEAST_FILLED = 0.75
"""Of a last window; one with less is left out."""


def speech_of(samples: FloatPcm) -> FloatPcm:
    """The audible stretches of a sound at 16 kHz (by the gate gate/1), with pauses up to 180 ms between them.

    Where the whole sound is quieter than −30 dBFS (root mean square) they are raised by as much as it lacks.
    """
    longest = round(LONGEST_PAUSE_S * RATE_HZ)
    joined: list[tuple[int, int]] = []
    for start, stop in audible_runs(to_pcm16(samples), RATE_HZ):
        if joined and start - joined[-1][1] <= longest:
            joined[-1] = (joined[-1][0], stop)
        else:
            joined.append((start, stop))
    if not joined:
        return samples[:0]
    factor = raised_by(samples)
    return np.concatenate([samples[start:stop] * factor for start, stop in joined])


def raised_by(samples: FloatPcm) -> np.float32:
    """The factor that takes a sound to −30 dBFS; 1 for one that is louder, or is silence."""
    rms = math.sqrt(sum(float(np.dot(part, part)) for part in np.array_split(samples, 64)) / len(samples))
    return np.float32(max(10 ** (LEVEL_DBFS / 20) / rms, 1.0)) if rms > 0 else np.float32(1)


def window_starts(samples: int) -> list[int]:
    """First frame of each window of a sound of so many samples: every 77 frames, as long as it is three quarters full.

    There is one always; a sound that ends within it is filled with silence.
    """
    frames = math.ceil((samples + 1) / HOP_SAMPLES)
    starts = list(range(0, max(1, frames - WINDOW_FRAMES + HOP_FRAMES + 1), HOP_FRAMES))
    filled = (samples - starts[-1] * HOP_SAMPLES) / (WINDOW_FRAMES * HOP_SAMPLES)
    return starts[:-1] if filled < _LEAST_FILLED and len(starts) > 1 else starts
