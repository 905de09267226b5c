"""What can be done to a clip. Samples are float64, 1.0 = 0 dBFS; every effect gives back as many as it was given.

Active speech: the 5 ms blocks within 35 dB of the clip's loudest one, as `speech_end/energy-1` has it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sessions import audio
from sessions.perturb import ulaw
from sessions.speech_end import RANGE_DB, block_edges, block_powers

Wave = NDArray[np.float64]

PACKET_MS: Final = 20
TELEPHONE_HZ: Final = 8000
DIRECT_TO_REVERBERANT_DB: Final = 3.0
_FIRST_REFLECTION_MS: Final = 3


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of effect.

    act: (wave, rate_hz, amount, rng) → wave · unit: of the amount, as it is written · default, least, most: of the
    amount; a kind without an amount has the unit "" · about: one line for people.
    """

    act: Callable[[Wave, int, float, np.random.Generator], Wave]
    unit: str
    default: float
    least: float
    most: float
    about: str


def noise(wave: Wave, rate_hz: int, snr_db: float, rng: np.random.Generator) -> Wave:
    """Pink noise over the whole clip; over active speech its power is exactly `snr_db` below that of the speech."""
    hz = np.fft.rfftfreq(len(wave), 1 / rate_hz)
    shape = 1 / np.sqrt(np.maximum(hz, 50.0))
    shape[0] = 0.0
    pink = np.fft.irfft(np.fft.rfft(rng.standard_normal(len(wave))) * shape, len(wave))
    speech_power, noise_power = _active_power(wave, wave, rate_hz), _active_power(wave, pink, rate_hz)
    return np.asarray(wave + pink * np.sqrt(speech_power / noise_power) * 10 ** (-snr_db / 20))


def reverb(wave: Wave, rate_hz: int, decay_s: float, rng: np.random.Generator) -> Wave:
    """A synthetic room: the direct path at sample 0, then from 3 ms on noise that decays by 60 dB in `decay_s`.

    The reverberant energy is 3 dB below the direct; the level of active speech stays as it was; what rings on after
    the clip's end is cut.
    """
    first = rate_hz * _FIRST_REFLECTION_MS // 1000
    t = np.arange(max(round(decay_s * rate_hz), first + 1)) / rate_hz
    response = rng.standard_normal(len(t)) * 10 ** (-3 * t / decay_s)
    response[:first] = 0.0
    response *= 10 ** (-DIRECT_TO_REVERBERANT_DB / 20) / np.sqrt(np.square(response).sum())
    response[0] = 1.0
    size = len(wave) + len(response) - 1
    wet = np.fft.irfft(np.fft.rfft(wave, size) * np.fft.rfft(response, size), size)[: len(wave)]
    return np.asarray(wet * np.sqrt(_active_power(wave, wave, rate_hz) / _active_power(wave, wet, rate_hz)))


def telephone(wave: Wave, rate_hz: int, _: float, __: np.random.Generator) -> Wave:
    """Through G.711 µ-law at 8 kHz and back; both resamplings have no delay."""
    narrow = audio.resample(audio.to_pcm16(wave), rate_hz, TELEPHONE_HZ)
    heard = audio.to_float(audio.resample(ulaw.decode(ulaw.encode(narrow)), TELEPHONE_HZ, rate_hz))
    out = np.zeros(len(wave))
    out[: len(heard)] = heard[: len(wave)]
    return out


def loss(wave: Wave, rate_hz: int, percent: float, rng: np.random.Generator) -> Wave:
    """Packets of 20 ms from the clip's first sample on, each lost with that chance: nothing is heard in its place."""
    size = rate_hz * PACKET_MS // 1000
    kept = rng.random(-(-len(wave) // size)) >= percent / 100
    return wave * np.repeat(kept, size)[: len(wave)]


def clip(wave: Wave, _: int, over_db: float, __: np.random.Generator) -> Wave:
    """An overdriven microphone: the peak would lie `over_db` above full scale, and is cut off there."""
    return np.asarray(np.clip(wave / np.abs(wave).max() * 10 ** (over_db / 20), -1.0, 1.0))


KINDS: Final = MappingProxyType(
    {
        "noise": Kind(noise, "dB", 10.0, -20.0, 80.0, "pink noise so far below active speech"),
        "reverb": Kind(reverb, "s", 0.4, 0.05, 5.0, "a room that decays by 60 dB in so long"),
        "mulaw8k": Kind(telephone, "", 0.0, 0.0, 0.0, "a telephone line: G.711 µ-law at 8 kHz"),
        "loss": Kind(loss, "%", 2.0, 0.0, 90.0, "packets of 20 ms, each lost with that chance"),
        "clip": Kind(clip, "dB", 6.0, 0.0, 40.0, "a microphone overdriven by so much"),
    }
)


def _active_power(speech: Wave, of: Wave, rate_hz: int) -> float:
    """Mean square of `of` in the blocks in which `speech` is active."""
    edges = block_edges(len(speech), rate_hz)
    powers = block_powers(speech.astype(np.float32), edges)
    active = np.repeat(powers >= powers.max() * 10 ** (-RANGE_DB / 10), np.diff(edges))
    return float(np.square(of[active]).mean())
