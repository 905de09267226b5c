"""The mel spectrogram that models of speech at 16 kHz were trained on, in numpy alone.

Equal to librosa 0.11's `feature.melspectrogram` with a hop of 160 samples. The mel scale is that of Slaney's Auditory
Toolbox (1998): linear up to 1 kHz, then 27 steps to a factor of 6.4; each filter has unit area in Hz.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from metrics.scoring import FloatPcm

RATE_HZ = 16_000
HOP_SAMPLES = 160
_FRAMES_AT_ONCE = 4000
_HZ_PER_MEL = 200 / 3
_KNEE_HZ, _KNEE_MEL = 1000.0, 15.0
_LOG_STEP = np.log(6.4) / 27


def power_mel(samples: FloatPcm, *, fft_samples: int, mels: int) -> FloatPcm:
    """float32 (n,) at 16 kHz → float32 (frames, mels). Frame j has its middle at sample 160 j; outside is silence."""
    windows = np.lib.stride_tricks.sliding_window_view(np.pad(samples, fft_samples // 2), fft_samples)[::HOP_SAMPLES]
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(fft_samples) / fft_samples)
    out = np.empty((len(windows), mels), dtype=np.float32)
    for at in range(0, len(windows), _FRAMES_AT_ONCE):
        spectrum = np.fft.rfft(windows[at : at + _FRAMES_AT_ONCE] * hann)
        out[at : at + _FRAMES_AT_ONCE] = np.abs(spectrum) ** 2 @ mel_filters(fft_samples, mels).T
    return out


@cache
def mel_filters(fft_samples: int, mels: int) -> NDArray[np.float64]:
    """(mels, bins): triangles between neighbouring centres."""
    edges = np.linspace(0, _KNEE_MEL + np.log(RATE_HZ / 2 / _KNEE_HZ) / _LOG_STEP, mels + 2)
    edges_hz = np.where(edges >= _KNEE_MEL, _KNEE_HZ * np.exp(_LOG_STEP * (edges - _KNEE_MEL)), edges * _HZ_PER_MEL)
    bins_hz = np.arange(fft_samples // 2 + 1) * RATE_HZ / fft_samples
    rising = (bins_hz - edges_hz[:-2, None]) / (edges_hz[1:-1] - edges_hz[:-2])[:, None]
    falling = (edges_hz[2:, None] - bins_hz) / (edges_hz[2:] - edges_hz[1:-1])[:, None]
    area = 2 / (edges_hz[2:] - edges_hz[:-2])[:, None]
    return np.asarray(np.maximum(0, np.minimum(rising, falling)) * area, dtype=np.float64)
