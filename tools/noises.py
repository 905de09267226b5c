"""Sounds that are no speech, made from nothing by a seeded recipe: what the scripts `noise` and `silence` play.

Each is float32 (samples,) at 24 kHz with its loudest 5 ms block at −17 dBFS, 40 ms of quiet before it and 200 ms after.
They are models, not recordings: a cough is three bursts of breath through the throat's resonances, a door a latch and
the panel's low modes, music plucked strings by Karplus and Strong.
"""

from __future__ import annotations

from collections.abc import Callable
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

RATE_HZ: Final = 24_000
_SEED: Final = 7

Wave = NDArray[np.float64]


def _times(seconds: float) -> Wave:
    return np.arange(round(seconds * RATE_HZ)) / RATE_HZ


def _through(wave: Wave, resonances: tuple[tuple[float, float, float], ...]) -> Wave:
    """Filter by the sum of second-order resonances, each (Hz, bandwidth Hz, gain)."""
    hz = np.fft.rfftfreq(len(wave), 1 / RATE_HZ)
    response = sum(gain / (1 + ((hz - centre) / (width / 2)) ** 2) for centre, width, gain in resonances)
    return np.asarray(np.fft.irfft(np.fft.rfft(wave) * response, len(wave)))


def cough(rng: np.random.Generator) -> Wave:
    """Two coughs: a burst as the throat opens, breath that fades, a short voiced end."""
    throat = ((550.0, 300.0, 1.0), (1500.0, 500.0, 0.7), (2700.0, 900.0, 0.5), (5200.0, 3000.0, 0.15))
    parts = []
    for strength in (1.0, 0.7):
        t = _times(0.36)
        burst = np.exp(-t / 0.018)
        breath = 0.45 * np.exp(-((t - 0.09) ** 2) / (2 * 0.06**2))
        pitch_hz = 170 - 60 * t
        voiced = np.sign(np.sin(2 * np.pi * np.cumsum(pitch_hz) / RATE_HZ)) * np.exp(-((t - 0.23) ** 2) / (2 * 0.03**2))
        source = rng.standard_normal(len(t)) * (burst + breath) + 0.5 * voiced
        parts += [strength * _through(source * np.minimum(1, t / 0.004), throat), np.zeros(round(0.12 * RATE_HZ))]
    return np.concatenate(parts)


def door(rng: np.random.Generator) -> Wave:
    """A door falls shut: the thud of its panel, the rattle of the frame, the click of the latch."""
    t = _times(0.7)
    modes = ((62.0, 0.16, 1.0), (118.0, 0.12, 0.8), (207.0, 0.07, 0.5), (345.0, 0.04, 0.3))
    thud = sum(gain * np.sin(2 * np.pi * hz * t) * np.exp(-t / decay) for hz, decay, gain in modes)
    hit = _through(rng.standard_normal(len(t)) * np.exp(-t / 0.012), ((900.0, 1500.0, 1.0),))
    late = np.where(t >= 0.11, np.exp(-(t - 0.11) / 0.01), 0.0)
    latch = _through(rng.standard_normal(len(t)) * late, ((3100.0, 900.0, 1.0), (1700.0, 400.0, 0.6)))
    return np.asarray(thud + 2.0 * hit + 1.2 * latch)


def music(rng: np.random.Generator) -> Wave:
    """Two seconds of plucked strings: C E G C, then a chord."""
    notes = [(0.0, 261.63), (0.3, 329.63), (0.6, 392.0), (0.9, 523.25), (1.2, 261.63), (1.2, 329.63), (1.2, 392.0)]
    wave = np.zeros(round(2.2 * RATE_HZ))
    for start_s, hz in notes:
        first = round(start_s * RATE_HZ)
        wave[first:] += _plucked(rng, hz, len(wave) - first)
    return wave * np.minimum(1, (len(wave) - np.arange(len(wave))) / (0.1 * RATE_HZ))


def _plucked(rng: np.random.Generator, hz: float, samples: int) -> Wave:
    period = round(RATE_HZ / hz)
    string = rng.uniform(-1, 1, period)
    out = np.empty(samples)
    for first in range(0, samples, period):
        out[first : first + period] = string[: samples - first]
        string = 0.498 * (string + np.roll(string, 1))
    return out


NOISES: Final[MappingProxyType[str, Callable[[np.random.Generator], Wave]]] = MappingProxyType(
    {"cough": cough, "door": door, "music": music}
)


def make(name: str) -> NDArray[np.float32]:
    """The noise `name`, with quiet around it. The same samples each time on one version of numpy."""
    wave = NOISES[name](np.random.default_rng(_SEED))
    block = RATE_HZ // 200
    blocks = wave[: len(wave) // block * block].reshape(-1, block)
    wave = wave / np.sqrt(np.square(blocks).mean(axis=1).max()) * 10 ** (-17 / 20)
    return np.pad(wave, (RATE_HZ * 40 // 1000, RATE_HZ * 200 // 1000)).astype(np.float32)
