"""Marked audio: recordings whose end of speech is known to the sample, made from the shipped utterances.

`marked-speech/1`: each utterance (its end annotated to the sample, then 200 ms of the voice's own decay) is set into
silence, its end 500 ms before the end of the clip. How it lies on a method's own grid of blocks or frames is chance in
real recordings, so each is placed three times, behind 200 ms and a seeded part of 32 ms. Every placement comes in every
condition. Levels are against the speech: RMS over its 5 ms blocks within 35 dB of the loudest.

- clean: nothing is added
- noise 20 dB, noise 10 dB: Gaussian noise that far below the speech over the whole clip, white and pink in turn
- breath: 300 ms of noise in the band of a breath (300 to 4000 Hz, pink, swelling and fading), at −38 dB, from 80 ms
  after the end on
- soft end: from 180 ms before the end on everything is 15 dB quieter, reached over the first 30 ms
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sessions.audio import Pcm, to_float, to_pcm16
from sessions.scripts import ScriptTurn, load_script
from sessions.speech_end import RANGE_DB, block_edges, block_powers

MARKED = "marked-speech/1"
SCRIPTS = ("facts", "small-talk", "trip-planning")
"""The shipped dialogues whose turns are the material."""
CONDITIONS = ("clean", "noise 20 dB", "noise 10 dB", "breath", "soft end")
PLACEMENTS = 3
RATE_HZ = 24_000
TAIL_MS = 500

_LEAD_MS, _SHIFT_MS = 200, 32
_BREATH_MS, _BREATH_AFTER_MS, _BREATH_DB = 300, 80, -38.0
_BREATH_HZ = (300.0, 4000.0)
_SOFT_MS, _FADE_MS, _SOFT_DB = 180, 30, -15.0

Wave = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Marked:
    """One clip. pcm: int16 (samples,) at rate_hz · end_sample: index of its last speech sample."""

    name: str
    condition: str
    pcm: Pcm
    end_sample: int
    rate_hz: int = RATE_HZ


def marked_audio() -> Iterator[Marked]:
    """Every clip, the same samples in every run."""
    utterances = material()
    for place in range(len(utterances) * PLACEMENTS):
        turn = utterances[place // PLACEMENTS]
        speech = to_float(turn.clip.pcm).astype(np.float64)
        for number, condition in enumerate(CONDITIONS):
            # RandomState, because numpy promises that its stream never changes.
            dice = np.random.RandomState([place, number])
            lead = _samples(_LEAD_MS) + int(np.random.RandomState(place).randint(_samples(_SHIFT_MS)))
            end = lead + turn.speech_end.index_samples
            wave = np.zeros(end + 1 + _samples(TAIL_MS))
            wave[lead : lead + len(speech)] = speech
            add_condition(condition, wave, end, level_of(turn.clip.pcm), dice, pink=place % 2 == 1)
            assert turn.audio_path is not None
            name = f"{turn.audio_path.parent.name}/{turn.audio_path.name} behind {lead} samples"
            yield Marked(name, condition, to_pcm16(wave), end)


def material() -> list[ScriptTurn]:
    """The utterances, at `RATE_HZ`."""
    return [turn for name in SCRIPTS for turn in load_script(name, rate_hz=RATE_HZ).turns]


def add_condition(
    condition: str, wave: Wave, end: int, level: float, dice: np.random.RandomState, *, pink: bool
) -> None:
    """Make the condition in `wave`, in place. end: the last speech sample · level: RMS of the speech."""
    if condition.startswith("noise"):
        below_db = float(condition.split()[1])
        slope = 0.5 if pink else 0.0
        wave += _noise(len(wave), dice, slope, (0.0, RATE_HZ / 2)) * level * 10 ** (-below_db / 20)
    elif condition == "breath":
        samples = _samples(_BREATH_MS)
        breath = _noise(samples, dice, 0.5, _BREATH_HZ) * np.hanning(samples)
        first = end + 1 + _samples(_BREATH_AFTER_MS)
        wave[first : first + samples] += breath / _rms(breath) * level * 10 ** (_BREATH_DB / 20)
    elif condition == "soft end":
        first = end + 1 - _samples(_SOFT_MS)
        fall_db = np.full(len(wave) - first, _SOFT_DB)
        fall_db[: _samples(_FADE_MS)] = np.linspace(0.0, _SOFT_DB, _samples(_FADE_MS))
        wave[first:] *= 10 ** (fall_db / 20)


def _noise(samples: int, dice: np.random.RandomState, slope: float, band_hz: tuple[float, float]) -> Wave:
    """float64 (samples,) with an RMS of 1, power falling as f^(−2·slope) within the band, nothing outside."""
    spectrum = np.fft.rfft(dice.standard_normal(samples))
    frequency_hz = np.fft.rfftfreq(samples, 1 / RATE_HZ)
    inside = (frequency_hz >= max(band_hz[0], 20.0)) & (frequency_hz <= band_hz[1])
    spectrum[~inside] = 0.0
    spectrum[inside] *= frequency_hz[inside] ** -slope
    wave: Wave = np.fft.irfft(spectrum, samples)
    return wave / _rms(wave)


def level_of(pcm: Pcm) -> float:
    """The speech's RMS over its blocks within 35 dB of the loudest, 1.0 = full scale."""
    powers = block_powers(pcm, block_edges(len(pcm), RATE_HZ))
    return float(np.sqrt(powers[powers >= powers.max() * 10 ** (-RANGE_DB / 10)].mean()))


def _rms(wave: Wave) -> float:
    return float(np.sqrt(np.mean(np.square(wave))))


def _samples(duration_ms: int) -> int:
    return duration_ms * RATE_HZ // 1000
