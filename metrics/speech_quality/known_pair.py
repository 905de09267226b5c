"""Two sounds of which everybody knows which is the better: a clean sentence, and the same under noise as loud as it."""

from __future__ import annotations

from functools import cache
from importlib.resources import files

import numpy as np

from metrics.scoring import FloatPcm, Piece, Sample

_SEED = 20


@cache
def known_pair() -> tuple[Piece, Piece]:
    """(clean, noisy), English, 2.4 s at 16 kHz. The noise is white, its mean power that of the sentence (0 dB SNR)."""
    import soundfile

    with files("metrics.speech_quality").joinpath("self_check.flac").open("rb") as stream:
        samples, rate_hz = soundfile.read(stream, dtype="float32")
    clean: FloatPcm = samples
    noise = np.random.Generator(np.random.PCG64(_SEED)).standard_normal(len(clean))
    noisy = np.clip(clean + noise * np.sqrt(np.mean(np.square(clean, dtype=np.float64))), -1.0, 1.0)
    sounds = {"clean": clean, "noisy": noisy.astype(np.float32)}
    first, second = (Piece(Sample(name, "", language="en"), sound, rate_hz) for name, sound in sounds.items())
    return first, second
