"""Sounds to be scored: short replies cut from the spoken clips that this project ships, no two alike."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import soundfile

from metrics.scoring import FloatPcm
from sessions.audio import read

_CLIPS = Path(__file__).resolve().parents[2] / "sessions" / "library"
RATE_HZ = 24_000


def _speech() -> FloatPcm:
    """All shipped clips in a row, float32 at 24 kHz."""
    clips = [read(path) for path in sorted(_CLIPS.rglob("*.flac"))]
    return np.concatenate([clip.samples for clip in clips if clip.rate_hz == RATE_HZ])


def write_replies(folder: Path, sets: int, each: int, seconds: tuple[float, float]) -> list[Path]:
    """`sets` folders of `each` FLAC files, their lengths spread evenly between both bounds, in seeded order."""
    speech, rng = _speech(), np.random.default_rng(20)
    lengths = rng.permutation(np.linspace(*seconds, sets * each))
    folders = [folder / f"set-{number + 1:02}" for number in range(sets)]
    for number, length_s in enumerate(lengths):
        place = folders[number // each]
        place.mkdir(parents=True, exist_ok=True)
        samples = int(length_s * RATE_HZ)
        start = int(rng.integers(0, len(speech) - samples))
        reply = speech[start : start + samples] * rng.uniform(0.5, 1.0)
        soundfile.write(place / f"{number % each:04}.flac", reply, RATE_HZ, subtype="PCM_16")
    return folders


def write_long(path: Path, seconds: int) -> Path:
    """One WAV file of two channels that lasts so long, written piece by piece."""
    speech = _speech()
    with soundfile.SoundFile(path, "w", RATE_HZ, 2, subtype="PCM_16") as file:
        for piece in _pieces(speech, seconds * RATE_HZ):
            file.write(np.stack([piece, 0.5 * piece], axis=1))
    return path


def _pieces(speech: FloatPcm, samples: int) -> Iterator[FloatPcm]:
    while samples > 0:
        yield speech[:samples]
        samples -= len(speech)
