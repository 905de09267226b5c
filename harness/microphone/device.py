"""What a sound device does for a conversation: it hears, it plays, and it says when."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Pcm = NDArray[np.int16]


@dataclass(frozen=True, slots=True)
class Heard:
    """A frame of the microphone.

    pcm: int16 (samples,) · at_ns: its first sample was at the microphone then, by the device's own stamp ·
    handed_ns: the device handed it over · lost: samples before it were lost.
    """

    pcm: Pcm
    at_ns: int
    handed_ns: int
    lost: bool = False


@dataclass(frozen=True, slots=True)
class Piece:
    """Samples of a reply in a block. reply: the peer's id of it · first_sample: in the reply · offset: in the block."""

    reply: str
    first_sample: int
    offset: int
    samples: int


@dataclass(frozen=True, slots=True)
class Sounded:
    """A block that the loudspeaker was given.

    pcm: int16 (samples,), zeros where there was nothing to play · at_ns: its first sample leaves the device then, by
    the device's own stamp · given_ns: when it was given · late: the device had run dry before it.
    """

    pcm: Pcm
    at_ns: int
    given_ns: int
    pieces: tuple[Piece, ...] = ()
    late: bool = False


@dataclass(frozen=True, slots=True)
class Ears:
    """Who is told, in the event loop. heard: each frame of the microphone · sounded: each block with sound in it, and
    the first one without · failed: the device is gone, and why."""

    heard: Callable[[Heard], None]
    sounded: Callable[[Sounded], None]
    failed: Callable[[str], None]


class Device(Protocol):
    """A microphone and a loudspeaker, both mono int16 at `rate_hz`."""

    rate_hz: int

    def start(self, ears: Ears) -> None:
        """Begin to hear and to play; called in the running event loop. Raises `SetupError`."""
        ...

    def play(self, reply: str, pcm: Pcm) -> None:
        """More of a reply, to be played after what was given before."""
        ...

    def drop(self) -> None:
        """What was not yet played is not played any more."""
        ...

    def stop(self) -> None:
        """Nobody is told anything any more. May be called twice."""
        ...
