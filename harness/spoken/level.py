"""Synthetic speech as a user would send it: cut to what is spoken, at one level, with an end that is known."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sessions import audio
from sessions.audio import Pcm
from sessions.speech_end import RANGE_DB, block_edges, block_powers, energy_1

LEVEL_DBFS: Final = -23.0
LEAD_MS: Final = 40
TAIL_MS: Final = 200
_FADE_MS: Final = 5


@dataclass(frozen=True, slots=True)
class Spoken:
    """pcm: int16 (samples,) at the rate it was made at · end_sample: index of the last speech sample."""

    pcm: Pcm
    end_sample: int


def cut(samples: NDArray[np.float32], rate_hz: int) -> Spoken:
    """Trim to 40 ms before and 200 ms after the speech, and set −23 dBFS (RMS over the blocks within 35 dB).

    The last speech sample is, in the last block that `speech_end/energy-1` counts as speech, the last one whose own
    magnitude is within 35 dB of the loudest block's level. Raises `BadAudio` where nothing is spoken.
    """
    lead, tail, fade = (rate_hz * ms // 1000 for ms in (LEAD_MS, TAIL_MS, _FADE_MS))
    edges = block_edges(len(samples), rate_hz)
    block_end = energy_1(samples, rate_hz, name="the synthesised text").index_samples
    powers = block_powers(samples, edges)
    threshold = powers.max() * 10 ** (-RANGE_DB / 10)
    spoken = np.flatnonzero(powers >= threshold)
    last_block = np.square(samples[edges[spoken[-1]] : block_end + 1], dtype=np.float64)
    end = int(edges[spoken[-1]] + np.flatnonzero(last_block >= threshold)[-1])
    start = max(0, int(edges[spoken[0]]) - lead)
    wanted = np.zeros(end + 1 + tail - start, dtype=np.float64)
    kept = samples[start : start + len(wanted)]
    wanted[: len(kept)] = kept
    wanted *= 10 ** (LEVEL_DBFS / 20) / np.sqrt(powers[spoken].mean())
    ramp = np.linspace(0.0, 1.0, fade)
    wanted[:fade] *= ramp
    wanted[-fade:] *= ramp[::-1]
    return Spoken(audio.to_pcm16(wanted), end - start)
