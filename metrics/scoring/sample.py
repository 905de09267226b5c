"""What is scored: one piece of audio, and what is known of it."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec
import numpy as np
from numpy.typing import NDArray

FloatPcm = NDArray[np.float32]


class Sample(msgspec.Struct, frozen=True):
    """One audio file to be scored. It crosses files, processes and environments, so it holds no audio itself.

    id: unique within a scoring and the same in every one ("d0001/2", a relative path) · audio: the file · group:
    samples of one group belong together (a dialogue), in their `order`; "" where it stands alone · language: BCP 47
    ("en", "zh"), "" where nobody said · text: what the system says that it said · reference: what it should have said ·
    reference_audio: a file with the voice that it should have · emotion: the one that it should have.
    unavailable: why this one is not scored at all (a failed turn); it is counted under every metric with that reason.
    """

    id: str
    audio: str
    group: str = ""
    order: int = 0
    language: str = ""
    text: str | None = None
    reference: str | None = None
    reference_audio: str = ""
    emotion: str = ""
    rate_hz: int | None = None
    """The file's own rate, in which `borders`, `heard` and `heard_samples` count; known wherever `heard` is."""
    borders: tuple[int, ...] = ()
    """The first sample of each packet that brought audio, at the file's own rate."""
    heard: tuple[tuple[int, int], ...] = ()
    """(first sample at the file's own rate, ns after `speech_end` at which it is heard), of each stretch that plays
    without a gap, play-out with B = 0. A sample before the first of them belongs to no answer (a false start) and has
    no time; () where there are no times."""
    untimed: str = ""
    """Why there are no times (`heard`, `voice_to_voice_ms`), where somebody knows: the machine was late."""
    heard_samples: int | None = None
    """How many samples were heard before the reply was cut off; None: all."""
    voice_to_voice_ms: float | None = None
    unavailable: str = ""


@dataclass(frozen=True, slots=True)
class Piece:
    """A sample with its sound. samples: float32 (n,) mono, 1.0 = 0 dBFS, n ≥ 1, finite, at rate_hz; not to be written
    into, for others hear it too."""

    sample: Sample
    samples: FloatPcm
    rate_hz: int

    @property
    def duration_s(self) -> float:
        return len(self.samples) / self.rate_hz
