"""Holes in speech: silence that begins and ends in the midst of a sound, as it does where a packet was lost.

Where a speaker stops, or closes the lips for a p, the sound fades over some milliseconds into the noise of the room.
"""

from __future__ import annotations

import math

import numpy as np

from metrics.scoring import FloatPcm
from metrics.speech_quality.signal.levels import runs_where

SILENT = 0.0005
"""−66 dBFS. No sample of a hole is larger."""
SHORTEST_S = 0.005
LONGEST_S = 1.0
"""A longer silence is a pause, however it begins."""
EDGE_S = 0.002
BELOW_SPEECH_DB = 30.0
"""The sound on either side is louder than so much below the speech. Both are standard deviations: an offset is no
sound."""


def dropouts(samples: FloatPcm, rate_hz: int, level: float) -> list[tuple[int, int]]:
    """(first sample, samples) of each hole. level: root mean square of the speech."""
    edge = max(1, round(EDGE_S * rate_hz))
    needed = level * 10 ** (-BELOW_SPEECH_DB / 20)
    found = []
    for start, length in runs_where(samples, lambda part: np.abs(part) <= SILENT, math.ceil(SHORTEST_S * rate_hz)):
        stop = start + length
        if length > LONGEST_S * rate_hz or start < edge or stop + edge > len(samples):
            continue
        if samples[start - edge : start].std() >= needed and samples[stop : stop + edge].std() >= needed:
            found.append((start, length))
    return found


def ends_at(samples: FloatPcm, rate_hz: int, level: float) -> bool:
    """Whether the sound is over in the midst of speech: its last 5 ms are within 10 dB of the speech."""
    tail = samples[-max(1, round(0.005 * rate_hz)) :]
    return level > 0 and float(tail.std()) >= level * 10 ** (-10 / 20)
