"""One audio file read once: mono, hashed, at every rate that is wanted, block by block, so that an hour fits."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import numpy as np
import soundfile
import soxr

from metrics.scoring import FloatPcm
from sessions.audio import Mixdown, blocks, check_finite, check_is_file, check_rate, format_problem
from sessions.errors import BadAudio

_USABLE = "Give a WAV, FLAC, Ogg or MP3 file"


@dataclass(frozen=True, slots=True)
class Sound:
    """What a file holds. sha256: of its own rate and its mono samples · lengths: samples written, by rate as asked ·
    note: a remark on its scores, where not the channels' average was taken."""

    sha256: str
    rate_hz: int
    samples: int
    lengths: dict[int, int]
    note: str = ""


def header_of(path: Path) -> tuple[int, int]:
    """(samples, rate in Hz) that the header says. Raises as `read_sound` does."""
    with _opened(path) as file:
        return int(file.frames), int(file.samplerate)


def read_sound(path: Path, places: Mapping[int, Path]) -> Sound:
    """Read `path` and write it as raw float32 mono to a file for each rate; rate 0 stands for the file's own.

    Channels are mixed down as `sessions.audio.read` does; resampled without delay, as `sessions.audio.resample` does.
    Raises `BadAudio` for what is not usable audio, and `OSError` where nothing can be written.
    """
    with _opened(path) as file:
        return _read(path, file, places)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[soundfile.SoundFile]:
    check_is_file(path)
    try:
        with soundfile.SoundFile(os.fsencode(path)) as file:
            check_rate(path, file.samplerate)
            yield file
    except soundfile.LibsndfileError as error:
        raise BadAudio(f"cannot use {path}: {format_problem(path, error)}", _USABLE) from error
    except TypeError as error:
        # Raised for headerless formats, whose rate and sample type the name alone does not tell.
        raise BadAudio(f"cannot use {path}: it has no header that tells its rate", "Save it as WAV or FLAC") from error


def _read(path: Path, file: soundfile.SoundFile, places: Mapping[int, Path]) -> Sound:
    channels, rate_hz = int(file.channels), int(file.samplerate)
    mixdown = Mixdown(channels)
    sound = _write(rate_hz, _mixed(path, file, mixdown), places)
    chosen = mixdown.instead()
    if chosen is not None:
        file.seek(0)
        sound = _write(rate_hz, (block[:, chosen] for block in blocks(file)), places)
        return Sound(
            sound.sha256, rate_hz, sound.samples, sound.lengths, f"opposite phase: channel {chosen} of {channels} taken"
        )
    return sound


def _mixed(path: Path, file: soundfile.SoundFile, mixdown: Mixdown) -> Iterator[FloatPcm]:
    for block in blocks(file):
        check_finite(path, block)
        yield mixdown.add(block)


def _write(rate_hz: int, mono: Iterator[FloatPcm], places: Mapping[int, Path]) -> Sound:
    digest = hashlib.sha256(f"float32 mono {rate_hz} Hz\n".encode())
    writers = [_Writer(place, rate_hz, wanted or rate_hz) for wanted, place in places.items()]
    samples = 0
    try:
        for block in mono:
            block = np.ascontiguousarray(block, dtype="<f4")
            digest.update(block.data)
            samples += len(block)
            for writer in writers:
                writer.add(block)
        lengths = {wanted: writer.end(samples) for wanted, writer in zip(places, writers, strict=True)}
    finally:
        for writer in writers:
            writer.file.close()
    return Sound(digest.hexdigest(), rate_hz, samples, lengths)


class _Writer:
    """Writes a sound at one rate."""

    def __init__(self, place: Path, from_hz: int, to_hz: int) -> None:
        self.file: IO[bytes] = place.open("wb")
        self._from_hz, self._to_hz = from_hz, to_hz
        self._resampling: soxr.ResampleStream | None = None
        if from_hz != to_hz:
            self._resampling = soxr.ResampleStream(from_hz, to_hz, 1, dtype="float32", quality="HQ")

    def add(self, block: FloatPcm) -> None:
        self._take(block if self._resampling is None else self._resampling.resample_chunk(block))

    def end(self, samples: int) -> int:
        """All of `samples` were added. How many there are at this rate: their share, rounded half up, at least one."""
        if self._resampling is not None and samples:
            self._take(self._resampling.resample_chunk(np.zeros(0, np.float32), last=True))
        wanted = (2 * samples * self._to_hz + self._from_hz) // (2 * self._from_hz)
        wanted = max(wanted, 1) if samples else 0
        self.file.truncate(4 * wanted)
        return wanted

    def _take(self, out: FloatPcm) -> None:
        self.file.write(out.astype("<f4", copy=False).data)
        self.file.flush()
