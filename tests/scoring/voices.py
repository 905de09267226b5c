"""Spoken sounds for tests of scoring: the installed voice at 16 kHz, and quiet of any length."""

from __future__ import annotations

import functools

import numpy as np

from metrics.scoring import FloatPcm, Piece, Sample
from servers.engines.hibari import RATE_HZ as VOICE_HZ
from servers.engines.hibari import HibariEngine
from sessions.audio import resample, to_float
from sessions.weights import folder

RATE_HZ = 16_000


@functools.cache
def _voice() -> HibariEngine:
    return HibariEngine(folder("hibari"))


@functools.cache
def say(text: str) -> FloatPcm:
    """`text`, float32 (n,) mono at 16 kHz: 20 ms of quiet before, 100 or 240 ms after it."""
    return to_float(resample(_voice().speak(text), VOICE_HZ, RATE_HZ))


def quiet(ms: float) -> FloatPcm:
    return np.zeros(int(RATE_HZ * ms / 1000), np.float32)


def noise(ms: float, dbfs: float) -> FloatPcm:
    dice = np.random.RandomState(7)
    return (dice.standard_normal(int(RATE_HZ * ms / 1000)) * 10 ** (dbfs / 20)).astype(np.float32)


def join(*parts: FloatPcm) -> FloatPcm:
    return np.concatenate(parts)


def piece(samples: FloatPcm, language: str = "en", name: str = "a") -> Piece:
    return Piece(Sample(name, f"{name}.wav", language=language), samples, RATE_HZ)
