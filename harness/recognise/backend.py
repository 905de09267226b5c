"""What a recogniser is to the metric `asr`: a back end, the model that it runs, and what it heard."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from metrics.scoring import FloatPcm
from metrics.transcript import Word

RATE_HZ: Final = 16_000
"""Of every sound that a back end is handed."""
WINDOW_S: Final = 28.0
"""Whisper sees 30 s at once; speech rarely ends exactly there."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What one sound was heard as. language: what it was taken for, "" where the back end does not say · words: times
    from the first sample of this sound."""

    text: str
    language: str = ""
    words: tuple[Word, ...] = ()


class Backend(Protocol):
    """Loaded, in the process that runs it.

    model: its name in transcripts · longest_s: of one sound, longer ones are cut at pauses; None where it takes any ·
    at_once: how many sounds it hears side by side, from threads of its caller's.
    """

    @property
    def model(self) -> str: ...
    @property
    def longest_s(self) -> float | None: ...
    @property
    def at_once(self) -> int: ...
    def hear(self, samples: FloatPcm, language: str) -> Heard:
        """samples: float32 (n,) mono at 16 kHz · language: ISO 639-1, "" to find out.

        Raises `MetricUnavailable` where this model does not hear that language, other `DuologueError`s where it failed.
        """
        ...


@dataclass(frozen=True, slots=True)
class Asked:
    """What was asked for. model: after the colon, "" for the back end's own · url, key_variable: of an endpoint."""

    model: str = ""
    url: str = ""
    key_variable: str = ""


@dataclass(frozen=True, slots=True)
class Kind:
    """A back end that can be asked for by name.

    identify: hashes of weights, versions of packages, decoding settings; imports nothing heavy and raises `SetupError`s
    where something is not there · settles_silence: False where silence is part of what it is asked about ·
    patience_s: how long it may wait for somebody else over one sound.
    """

    make: Callable[[Asked], Backend]
    identify: Callable[[Asked], dict[str, str]]
    settles_silence: bool = True
    patience_s: float = 0.0
