"""Where something can be heard: by the gate `gate/1`, the same that times the first audible sample."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from metrics.gate import THRESHOLD_DBFS, audible_runs, block_levels_dbfs
from metrics.scoring import FloatPcm
from sessions.audio import to_pcm16

_CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Audible:
    """runs: (first sample, one past the last) of everything audible · samples: of the whole sound.

    level: root mean square of the blocks above the gate, of full scale; 0 where there is none.
    """

    runs: tuple[tuple[int, int], ...]
    samples: int
    level: float

    @property
    def silence_share(self) -> float:
        return 1 - sum(stop - start for start, stop in self.runs) / self.samples

    @property
    def before(self) -> int:
        """Samples before the first audible one."""
        return self.runs[0][0]

    @property
    def after(self) -> int:
        """Samples after the last audible one."""
        return self.samples - self.runs[-1][1]


def audible(samples: FloatPcm, rate_hz: int) -> Audible:
    """samples: float32 (n,) mono at rate_hz."""
    pcm = np.empty(len(samples), dtype=np.int16)
    for at in range(0, len(samples), _CHUNK):  # an hour of floats is not held twice
        pcm[at : at + _CHUNK] = to_pcm16(samples[at : at + _CHUNK])
    levels = block_levels_dbfs(pcm, rate_hz)
    loud = levels[levels >= THRESHOLD_DBFS]
    level = math.sqrt(float(np.mean(10 ** (loud / 10)))) if len(loud) else 0.0
    return Audible(audible_runs(pcm, rate_hz), len(samples), level)
