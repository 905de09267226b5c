"""The log-mel spectrogram that DNSMOS P.808 was trained on, in numpy alone.

It equals librosa 0.11's `power_to_db(melspectrogram(...), ref=max)` with the settings below, whose mel scale is that of
Slaney's Auditory Toolbox (1998): linear up to 1 kHz, then 27 steps to a factor of 6.4; each filter has unit area.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

from metrics.scoring import FloatPcm

RATE_HZ = 16_000
FFT_SAMPLES = 321
HOP_SAMPLES = 160
MELS = 120
_FLOOR = 1e-10
_RANGE_DB = 80.0

Wide = NDArray[np.float64]


def log_mel(samples: FloatPcm) -> FloatPcm:
    """dB below the sound's own loudest bin, at most 80. float32 (n,) at 16 kHz → float32 (1 + n // 160, 120)."""
    edge = FFT_SAMPLES // 2
    padded = np.pad(samples, edge)
    frames = np.lib.stride_tricks.sliding_window_view(padded, FFT_SAMPLES)[::HOP_SAMPLES]
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(FFT_SAMPLES) / FFT_SAMPLES)
    power = np.abs(np.fft.rfft(frames * window, axis=1)) ** 2
    level_db = 10 * np.log10(np.maximum(power @ mel_filters().T, _FLOOR))
    below_db = level_db - level_db.max()
    log: FloatPcm = np.maximum(below_db, -_RANGE_DB).astype(np.float32)
    return log


@cache
def mel_filters() -> Wide:
    """(mels, bins): triangles between neighbouring mel centres, each scaled to unit area in Hz."""
    edges_hz = _to_hz(np.linspace(0.0, _to_mel(RATE_HZ / 2), MELS + 2))
    bins_hz = np.arange(FFT_SAMPLES // 2 + 1) * RATE_HZ / FFT_SAMPLES
    rising = (bins_hz - edges_hz[:-2, None]) / (edges_hz[1:-1] - edges_hz[:-2])[:, None]
    falling = (edges_hz[2:, None] - bins_hz) / (edges_hz[2:] - edges_hz[1:-1])[:, None]
    heights = 2.0 / (edges_hz[2:] - edges_hz[:-2])
    filters: Wide = np.maximum(0.0, np.minimum(rising, falling)) * heights[:, None]
    return filters


_HZ_PER_MEL = 200.0 / 3
_KNEE_HZ, _KNEE_MEL = 1000.0, 15.0
_LOG_STEP = np.log(6.4) / 27


def _to_mel(hz: float) -> float:
    return float(_KNEE_MEL + np.log(hz / _KNEE_HZ) / _LOG_STEP) if hz >= _KNEE_HZ else hz / _HZ_PER_MEL


def _to_hz(mel: Wide) -> Wide:
    return np.where(mel >= _KNEE_MEL, _KNEE_HZ * np.exp(_LOG_STEP * (mel - _KNEE_MEL)), mel * _HZ_PER_MEL)
