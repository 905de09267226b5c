"""The mel spectrogram that the speaker encoder was trained on: power, not its logarithm, in numpy alone.

Equal to librosa 0.11's `feature.melspectrogram` with these settings; the mel scale is that of Slaney's Auditory Toolbox
(1998), linear up to 1 kHz, then 27 steps to a factor of 6.4, each filter of unit area.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from metrics.scoring import FloatPcm

RATE_HZ = 16_000
MELS = 40
FFT_SAMPLES = 400
HOP_SAMPLES = 160
_FRAMES_AT_ONCE = 4000
_HZ_PER_MEL = 200 / 3
_KNEE_HZ, _KNEE_MEL = 1000.0, 15.0
_LOG_STEP = np.log(6.4) / 27


def power_mel(samples: FloatPcm) -> NDArray[np.float32]:
    """float32 (n,) at 16 kHz → (1 + n // 160, 40). Frame j has its middle at sample 160 j; outside is silence."""
    padded = np.pad(samples, FFT_SAMPLES // 2)
    windows = np.lib.stride_tricks.sliding_window_view(padded, FFT_SAMPLES)[::HOP_SAMPLES]
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(FFT_SAMPLES) / FFT_SAMPLES)
    out = np.empty((len(windows), MELS), dtype=np.float32)
    for at in range(0, len(windows), _FRAMES_AT_ONCE):
        spectrum = np.fft.rfft(windows[at : at + _FRAMES_AT_ONCE] * hann)
        out[at : at + _FRAMES_AT_ONCE] = np.abs(spectrum) ** 2 @ _filters().T
    return out


@cache
def _filters() -> NDArray[np.float64]:
    """(mels, bins): triangles between neighbouring centres."""
    edges = np.linspace(0, _KNEE_MEL + np.log(RATE_HZ / 2 / _KNEE_HZ) / _LOG_STEP, MELS + 2)
    edges_hz = np.where(edges >= _KNEE_MEL, _KNEE_HZ * np.exp(_LOG_STEP * (edges - _KNEE_MEL)), edges * _HZ_PER_MEL)
    bins_hz = np.arange(FFT_SAMPLES // 2 + 1) * RATE_HZ / FFT_SAMPLES
    rising = (bins_hz - edges_hz[:-2, None]) / (edges_hz[1:-1] - edges_hz[:-2])[:, None]
    falling = (edges_hz[2:, None] - bins_hz) / (edges_hz[2:] - edges_hz[1:-1])[:, None]
    area = 2 / (edges_hz[2:] - edges_hz[:-2])[:, None]
    return np.asarray(np.maximum(0, np.minimum(rising, falling)) * area, dtype=np.float64)
