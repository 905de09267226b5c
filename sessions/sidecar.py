"""A sidecar: where the speech of one audio file ends, in a small JSON file beside it.

`hello.wav` has `hello.wav.speech.json`:

    {"version": 1, "sha256": "…", "speech_end_sample": 51839, "rate_hz": 24000, "by": "annotation"}

sha256: of the audio file's bytes, so that it speaks of that recording only · speech_end_sample: index (from 0) of the
last speech sample, at the file's own rate · by: `annotation` where a person said so, else the method that found it.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated, Literal, cast

import msgspec
from msgspec import Meta

from sessions.audio import Source
from sessions.errors import BadAudio
from sessions.runs import SIDECAR, disk_errors, indented, write_atomic
from sessions.speech_end import SpeechEnd

By = Literal["annotation", "speech_end/energy-1", "speech_end/silero-1", "speech_end/floor-1"]


class SidecarFile(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a sidecar holds."""

    version: Literal[1]
    sha256: Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
    speech_end_sample: Annotated[int, Meta(ge=0)]
    rate_hz: Annotated[int, Meta(ge=1)]
    by: By


def path_of(audio_path: Path) -> Path:
    """Where the sidecar of `audio_path` lies, whether it exists or not."""
    return audio_path.with_name(audio_path.name + SIDECAR)


def read(audio_path: Path, source: Source) -> SpeechEnd | None:
    """What the sidecar of `audio_path` says, None if there is no sidecar.

    source: what was read from `audio_path`. Raises `BadAudio` where the sidecar is damaged, or was written for other
    audio than lies there now: an end that may be wrong is never used.
    """
    path = path_of(audio_path)
    mend = f"Write it anew (duologue scripts annotate --force {audio_path}), or delete it"
    try:
        noted = msgspec.json.decode(path.read_bytes(), type=SidecarFile)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadAudio(f"cannot read {path}: {error.strerror}", mend) from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise BadAudio(f"cannot use {path}: {error}", mend) from error
    if noted.sha256 != _sha256(audio_path):
        raise BadAudio(f"{path} was written for other audio than {audio_path.name} holds now (sha256 differs)", mend)
    if noted.rate_hz != source.rate_hz:
        raise BadAudio(f"{path} says {noted.rate_hz} Hz, but {audio_path.name} has {source.rate_hz} Hz", mend)
    if noted.speech_end_sample >= len(source.samples):
        what = f"sample {noted.speech_end_sample} is not in {audio_path.name}, which has {len(source.samples)}"
        raise BadAudio(f"cannot use {path}: {what}", mend)
    return SpeechEnd(noted.speech_end_sample, noted.rate_hz, noted.by)


def write(audio_path: Path, end: SpeechEnd) -> Path:
    """Write the sidecar of `audio_path`, whole or not at all, over one that is there. Where it lies.

    end: at the file's own rate. Raises `SetupError` where it cannot be written.
    """
    path = path_of(audio_path)
    noted = SidecarFile(
        version=1,
        sha256=_sha256(audio_path),
        speech_end_sample=end.index_samples,
        rate_hz=end.rate_hz,
        by=cast(By, end.method),
    )
    with disk_errors(path):
        write_atomic(path, indented(noted) + b"\n")
    return path


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError as error:
        raise BadAudio(f"cannot use {path}: {error.strerror}", "Check the path and its permissions") from error
