"""Recordings for the page: envelopes for drawing, and one compressed copy of each for playing."""

from __future__ import annotations

import base64
import contextlib
import io
import math
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile
from numpy.typing import NDArray

from harness.report.html.ogg import with_serial

BINS_AT_MOST = 6000
FINEST_BIN_MS = 10
LEAST_BYTES_PER_S = 1_500
"""A second of a dialogue hardly costs less in the page; speech without a pause costs 5 700 (34 kbit/s, in base64)."""
_BLOCK_SAMPLES = 1 << 16


@dataclass(frozen=True, slots=True)
class Envelope:
    """Peaks of both lanes. user, agent: uint8 (bins,), 255 · √(peak / full scale) · bin_ms: width of a bin."""

    bin_ms: float
    user: NDArray[np.uint8]
    agent: NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Encoded:
    """A recording to be carried in the page. text: base64."""

    mime: str
    text: str


def duration_s(path: Path) -> float | None:
    """Length of a recording, None where it is missing or unreadable."""
    if not path.is_file():  # a pipe of that name would be waited for
        return None
    try:
        return float(soundfile.info(os.fsencode(path)).duration)
    except (soundfile.LibsndfileError, OSError):
        return None


def envelope(path: Path) -> Envelope:
    """Peaks of a stereo recording, read in blocks. Raises `soundfile.LibsndfileError`."""
    with soundfile.SoundFile(os.fsencode(path)) as file:
        bin_samples = max(round(file.samplerate * FINEST_BIN_MS / 1000), math.ceil(max(file.frames, 1) / BINS_AT_MOST))
        rows = []
        while len(block := file.read(bin_samples * 512, dtype="int16", always_2d=True)):
            short = -len(block) % bin_samples
            padded = np.pad(np.abs(block.astype(np.int32)), ((0, short), (0, 0)))
            rows.append(padded.reshape(-1, bin_samples, block.shape[1]).max(axis=1))
        rate_hz = file.samplerate
    peaks = np.concatenate(rows) if rows else np.zeros((0, 2), np.int32)
    scaled = np.rint(255 * np.sqrt(np.minimum(peaks, 32768) / 32768)).astype(np.uint8)
    return Envelope(1000 * bin_samples / rate_hz, scaled[:, 0], scaled[:, -1])


def encode(path: Path) -> Encoded:
    """A small copy that browsers play: Vorbis (a third of Opus' work here), else the FLAC file itself.

    Raises `soundfile.LibsndfileError` for a file that is no recording.
    """
    if "VORBIS" not in soundfile.available_subtypes("OGG"):
        return Encoded("audio/flac", base64.b64encode(path.read_bytes()).decode())
    out = io.BytesIO()
    with contextlib.ExitStack() as stack:
        source = stack.enter_context(soundfile.SoundFile(os.fsencode(path)))
        vorbis = {"format": "OGG", "subtype": "VORBIS", "compression_level": 1.0}
        target = stack.enter_context(soundfile.SoundFile(out, "w", source.samplerate, source.channels, **vorbis))
        # In blocks: some versions of libsndfile overflow their stack when much Vorbis is written at once.
        while len(block := source.read(_BLOCK_SAMPLES, dtype="int16", always_2d=True)):
            target.write(block)
    return Encoded("audio/ogg; codecs=vorbis", base64.b64encode(with_serial(out.getvalue(), 1)).decode())
