"""Audio files and arrays: reading with checks, mono, zero-delay resampling, int16.

Inside the project audio is `int16 (samples,)` mono with its rate beside it; 1.0 = 32768 = 0 dBFS.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, overload

import numpy as np
import soundfile
import soxr
from numpy.typing import NDArray

from sessions.errors import BadAudio, SetupError

Pcm = NDArray[np.int16]
FloatPcm = NDArray[np.float32]
FULL_SCALE = 32768.0

_BLOCK_SAMPLES = 1 << 20
_LOWEST_RATE_HZ = 1000
LONGEST_S = 1800
"""One utterance is never longer; a whole call is not read into memory by mistake."""
_USABLE = "Give a WAV, FLAC, Ogg or MP3 file with speech in it"
# Unrelated channels keep 1/channels of their mean energy when averaged. A tenth of that is no chance: they cancel.
_CANCELLED = 0.1


@dataclass(frozen=True, slots=True)
class Clip:
    """pcm: int16 (samples,) mono · rate_hz · notes: what was done to the source (mixed down, resampled)."""

    pcm: Pcm
    rate_hz: int
    notes: tuple[str, ...] = ()

    @property
    def duration_s(self) -> float:
        return len(self.pcm) / self.rate_hz


@dataclass(frozen=True, slots=True)
class Source:
    """A file as it was recorded. samples: float32 (samples,) mono at the file's own rate_hz · notes as in `Clip`."""

    samples: FloatPcm
    rate_hz: int
    notes: tuple[str, ...] = ()

    def to_clip(self, rate_hz: int) -> Clip:
        """The same audio as int16 at `rate_hz`."""
        notes = self.notes
        if rate_hz != self.rate_hz:
            notes += (f"resampled from {self.rate_hz} Hz to {rate_hz} Hz",)
        samples = resample(self.samples, self.rate_hz, rate_hz)
        over = int(np.count_nonzero(np.abs(samples) > 1.0))
        if over:
            notes += (f"{over} samples above full scale were clipped",)
        return Clip(to_pcm16(samples), rate_hz, notes)


def load(path: str | Path, *, rate_hz: int = 24_000) -> Clip:
    """Read an audio file as mono int16 at `rate_hz`. Raises `BadAudio` as `read` does."""
    return read(path).to_clip(rate_hz)


def read(path: str | Path) -> Source:
    """Read an audio file as it is, mixed down to mono.

    Channels are averaged, except where they cancel one another (recorded in opposite phase): then one of them is taken.
    Raises `BadAudio` (file, problem, mend) for what is not usable audio.
    """
    path = Path(path)
    check_is_file(path)
    try:
        with soundfile.SoundFile(os.fsencode(path)) as file:
            check_rate(path, file.samplerate)
            samples, notes = _read_mono(path, file)
            return Source(samples, int(file.samplerate), notes)
    except soundfile.LibsndfileError as error:
        raise BadAudio(f"cannot use {path}: {format_problem(path, error)}", _USABLE) from error
    except TypeError as error:
        # Raised for headerless formats, whose rate and sample type the name alone does not tell.
        raise BadAudio(f"cannot use {path}: it has no header that tells its rate", "Save it as WAV or FLAC") from error


def to_float(pcm: Pcm) -> FloatPcm:
    """int16 → float32 in [-1, 1)."""
    samples: FloatPcm = pcm.astype(np.float32) / np.float32(FULL_SCALE)
    return samples


def to_pcm16(samples: NDArray[np.floating[Any]]) -> Pcm:
    """float → int16, rounded to the nearest step, clipped at full scale."""
    steps = np.rint(samples * samples.dtype.type(FULL_SCALE))
    pcm: Pcm = np.clip(steps, -FULL_SCALE, FULL_SCALE - 1).astype(np.int16)
    return pcm


@overload
def resample(pcm: Pcm, from_hz: int, to_hz: int) -> Pcm: ...
@overload
def resample(pcm: FloatPcm, from_hz: int, to_hz: int) -> FloatPcm: ...
def resample(pcm: Pcm | FloatPcm, from_hz: int, to_hz: int) -> Pcm | FloatPcm:
    """Change the rate with no delay: sample i of the input lies at i·to_hz/from_hz of the output.

    pcm: int16 or float32 (samples,) mono; the same type comes back, round(samples·to_hz/from_hz) long (half up).
    """
    if from_hz == to_hz:
        return pcm.copy()
    if pcm.dtype == np.int16:
        # soxr dithers int16 output; by way of float the result is the same in every run.
        return to_pcm16(resample(to_float(pcm.astype(np.int16, copy=False)), from_hz, to_hz))
    wanted_samples = (2 * len(pcm) * to_hz + from_hz) // (2 * from_hz)
    out = np.zeros(wanted_samples, dtype=np.float32)
    if len(pcm):
        got: FloatPcm = soxr.resample(pcm.astype(np.float32, copy=False), from_hz, to_hz, quality="HQ")
        out[: len(got)] = got[:wanted_samples]
    return out


def source_index_to_out(index_samples: int, from_hz: int, to_hz: int) -> int:
    """The last output sample that belongs to source samples 0 … index: ⌈(index + 1)·to_hz/from_hz⌉ − 1."""
    return -(-(index_samples + 1) * to_hz // from_hz) - 1


def sha256(clip: Clip) -> str:
    """A name for what is heard: the hash over rate and samples (little-endian), whatever file they came from."""
    digest = hashlib.sha256(f"pcm16 mono {clip.rate_hz} Hz\n".encode())
    digest.update(clip.pcm.astype("<i2", copy=False).tobytes())
    return digest.hexdigest()


def write_flac(path: str | Path, pcm: Pcm, rate_hz: int) -> None:
    """Write int16 (samples,) or (samples, 2) losslessly. The file is complete, or is not there at all.

    No player opens a FLAC file without samples, so an empty recording becomes one silent sample.
    Raises `SetupError` where it cannot be written (no space, no permission); nothing is left behind then.
    """
    path = Path(path)
    # Encoded in memory first: a full disk then shows as an OSError of our own write, never as a file cut short.
    encoded = io.BytesIO()
    if not len(pcm):
        pcm = np.zeros((1, *pcm.shape[1:]), dtype=np.int16)
    soundfile.write(encoded, pcm, rate_hz, format="FLAC", subtype="PCM_16")
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as file:
            file.write(encoded.getbuffer())
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            part.unlink()
        if not isinstance(error, OSError):
            raise
        raise SetupError(
            f"cannot write {path}: {error.strerror}", "Free some space or choose another folder"
        ) from error


def check_is_file(path: Path) -> None:
    """Raise `BadAudio` where `path` is no file that holds anything."""
    try:
        if path.is_dir():
            raise BadAudio(f"cannot use {path}: it is a folder", "Name an audio file in it")
        if not path.exists():
            raise BadAudio(f"cannot use {path}: there is no such file", "Check the path")
        if not path.is_file():
            raise BadAudio(f"cannot use {path}: it is not a regular file", "Save the audio to a file first")
        with path.open("rb") as file:
            empty = not file.read(1)
    except OSError as error:
        raise BadAudio(f"cannot use {path}: {error.strerror}", "Check the path and its permissions") from error
    if empty:
        raise BadAudio(f"cannot use {path}: it is empty (0 bytes)", _USABLE)


def check_rate(path: Path, rate_hz: int) -> None:
    """Raise `BadAudio` for a rate that no audio has."""
    if rate_hz < _LOWEST_RATE_HZ:
        raise BadAudio(f"cannot use {path}: its header says {rate_hz} Hz", "Save it again with its true sample rate")


def check_finite(path: Path, block: FloatPcm) -> None:
    """Raise `BadAudio` where a sample of `block` is no number."""
    if not np.isfinite(block).all():
        raise BadAudio(f"cannot use {path}: it holds samples that are not numbers (NaN or infinite)", _USABLE)


def format_problem(path: Path, error: soundfile.LibsndfileError) -> str:
    """What libsndfile says of a file, in words."""
    rate_hz = _wav_header_rate_hz(path)
    if rate_hz == 0:
        return "its header says 0 Hz"
    return f"it is not readable as audio ({str(error.error_string).strip().rstrip('.')})"


def _wav_header_rate_hz(path: Path) -> int | None:
    """The rate in a WAV header, or None if there is none. libsndfile refuses 0 Hz without saying that this is why."""
    with path.open("rb") as file:
        head = file.read(4096)
    at = head.find(b"fmt ")
    if head[:4] not in (b"RIFF", b"RF64") or at < 0 or len(head) < at + 16:
        return None
    return int.from_bytes(head[at + 12 : at + 16], "little")


class Mixdown:
    """Mixes channels down block by block: averaged, except where they cancel one another."""

    def __init__(self, channels: int) -> None:
        self._channels = channels
        self._energies = np.zeros(channels)
        self._mixed_energy = 0.0

    def add(self, block: FloatPcm) -> FloatPcm:
        """block: float32 (samples, channels). Their average, float32 (samples,)."""
        mixed: FloatPcm = block.mean(axis=1, dtype=np.float64).astype(np.float32)
        self._energies += np.einsum("sc,sc->c", block, block, dtype=np.float64)
        self._mixed_energy += float(np.dot(mixed, mixed))
        return mixed

    def instead(self) -> int | None:
        """The channel to take in place of the average, once all blocks were added; None where the average serves."""
        energies = self._energies
        if self._channels == 1 or self._mixed_energy >= _CANCELLED / self._channels * energies.mean():
            return None
        return int(np.argmax(energies >= energies.max() / 2))


def blocks(file: soundfile.SoundFile) -> Iterator[FloatPcm]:
    """float32 (samples, channels), until the file ends (headers of compressed files may misstate their length)."""
    while len(block := file.read(_BLOCK_SAMPLES, dtype="float32", always_2d=True)):
        yield block


def _read_mono(path: Path, file: soundfile.SoundFile) -> tuple[FloatPcm, tuple[str, ...]]:
    channels = int(file.channels)
    mixdown = Mixdown(channels)
    parts: list[FloatPcm] = []
    length_samples = 0
    for block in blocks(file):
        check_finite(path, block)
        length_samples += len(block)
        if length_samples > LONGEST_S * file.samplerate:  # the header may not say so
            raise BadAudio(
                f"cannot use {path}: it lasts more than {LONGEST_S // 60} minutes, which is no utterance",
                f"Cut it, or make a script of the call: duologue scripts from-recording {path}",
            )
        parts.append(mixdown.add(block))
    if not parts:
        raise BadAudio(f"cannot use {path}: it holds no samples", _USABLE)
    if channels == 1:
        return np.concatenate(parts), ()
    chosen = mixdown.instead()
    if chosen is None:
        return np.concatenate(parts), (f"mixed down from {channels} channels",)
    file.seek(0)
    return np.concatenate([block[:, chosen] for block in blocks(file)]), (taken_note(chosen, channels),)


def taken_note(chosen: int, channels: int) -> str:
    """What is told of a file whose channels cancel."""
    return f"channel {chosen} of {channels} taken: mixed together they cancel (opposite phase)"
