"""Reading a call in pieces: one lane at a time, so that hours of it need no more memory than seconds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import soundfile

from sessions.audio import FloatPcm, check_finite, check_is_file, check_rate, format_problem
from sessions.errors import BadAudio, SetupError

_BLOCK_S = 20
_NAMES = {"left": 0, "right": 1}


@dataclass(frozen=True, slots=True)
class Call:
    """A recording. samples: of each channel, counted by reading, whatever the header says."""

    path: Path
    rate_hz: int
    channels: int
    samples: int
    same_lanes: bool
    """Two channels or more, which all hold the same."""


def open_call(path: Path) -> Call:
    """Look through a recording. Raises `BadAudio` for what cannot be read to its end, or holds nothing."""
    samples, same = 0, True
    with _opened(path) as file:
        for block in _blocks(path, file):
            samples += len(block)
            same = same and bool((block == block[:, :1]).all())
        if not samples:
            raise BadAudio(f"cannot use {path}: it holds no samples", "Give the recording of a call")
        return Call(path, int(file.samplerate), int(file.channels), samples, file.channels > 1 and same)


def check_lane(lane: str) -> None:
    """Before any file is opened: raises `SetupError` for what is no lane of any."""
    if lane not in _NAMES and not lane.isdecimal():
        raise SetupError(f"there is no lane {lane!r}", "Say left, right, or a channel's number from 0")


def lane_number(call: Call, lane: str) -> int:
    """`left`, `right` or a number from 0 → the channel. Raises `SetupError` where the call has no such channel."""
    check_lane(lane)
    number = _NAMES[lane] if lane in _NAMES else int(lane)
    if 0 <= number < call.channels:
        return number
    has = "1 channel" if call.channels == 1 else f"{call.channels} channels"
    raise SetupError(f"{call.path} has {has}, and no lane {lane}", f"Say a number from 0 to {call.channels - 1}")


def lane_blocks(call: Call, lane: int) -> Iterator[FloatPcm]:
    """float32 (samples,) of one channel, in pieces of whole seconds and a last one of any length."""
    with _opened(call.path) as file:
        for block in _blocks(call.path, file):
            yield np.ascontiguousarray(block[:, lane])


def lane_piece(call: Call, lane: int, first: int, stop: int) -> FloatPcm:
    """float32 (stop − first,) of one channel."""
    with _opened(call.path) as file:
        file.seek(first)
        block: FloatPcm = file.read(stop - first, dtype="float32", always_2d=True)
        return np.ascontiguousarray(block[:, lane])


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    check_is_file(path)
    try:
        with soundfile.SoundFile(os.fsencode(path)) as file:
            check_rate(path, file.samplerate)
            yield file
    except soundfile.LibsndfileError as error:
        raise BadAudio(f"cannot use {path}: {format_problem(path, error)}", "Give the recording of a call") from error
    except TypeError as error:
        raise BadAudio(f"cannot use {path}: it has no header that tells its rate", "Save it as WAV or FLAC") from error


def _blocks(path: Path, file: Any) -> Iterator[FloatPcm]:
    while len(block := file.read(_BLOCK_S * file.samplerate, dtype="float32", always_2d=True)):
        check_finite(path, block)
        yield block
