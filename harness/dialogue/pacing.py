"""When user audio leaves: mic-causal frames at absolute deadlines.

Frame k of length d is due at `start + (k+1)·d`: when its last sample could have existed at a microphone. Deadlines are
absolute, so lateness never accumulates, and no frame leaves early.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sessions.clock import ns_to_samples_ceil, samples_to_ns

Pcm = NDArray[np.int16]


@dataclass(frozen=True, slots=True)
class Frame:
    """pcm: int16 (samples,) · first_sample: index in the utterance or on the lane · due_ns: its last sample's end."""

    pcm: Pcm
    first_sample: int
    due_ns: int


def utterance_frames(pcm: Pcm, last_sample: int, start_ns: int, rate_hz: int, frame_samples: int) -> Iterator[Frame]:
    """Class A and C: the utterance up to sample n; the last frame ends at n and is due at `speech_end`."""
    end = last_sample + 1
    for first in range(0, end, frame_samples):
        stop = min(first + frame_samples, end)
        yield Frame(pcm[first:stop], first, start_ns + samples_to_ns(stop, rate_hz))


@dataclass(frozen=True, slots=True)
class ReadyFrame:
    """A frame as it is sent."""

    payload: bytes
    first_sample: int
    samples: int


class FrameTexts:
    """Frames as ready messages, rendered once and shared by all dialogues of a process.

    render: int16 (samples,) → the protocol's message, the same for every connection.
    """

    def __init__(self, render: Callable[[Pcm], str], frame_samples: int) -> None:
        self._render = render
        self.silence = self.render(np.zeros(frame_samples, dtype=np.int16))
        self._frame_samples = frame_samples
        self._clips: dict[tuple[int, int], tuple[Pcm, list[ReadyFrame]]] = {}

    def render(self, pcm: Pcm) -> bytes:
        return self._render(pcm).encode()

    def of_clip(self, pcm: Pcm, last_sample: int) -> list[ReadyFrame]:
        """The clip's `utterance_frames`, ready."""
        key = (id(pcm), last_sample)  # the array is kept beside its texts, so that its id stays its own
        if key not in self._clips:
            frames = utterance_frames(pcm, last_sample, 0, 1, self._frame_samples)
            ready = [ReadyFrame(self.render(f.pcm), f.first_sample, len(f.pcm)) for f in frames]
            self._clips[key] = pcm, ready
        return self._clips[key][1]


@dataclass(frozen=True, slots=True)
class Placed:
    """An utterance on the lane. first: lane index of its first sample."""

    turn: int
    pcm: Pcm
    first: int


class Lane:
    """Class B and D: an endless user lane. Silence flows; utterances lie on it at the exact sample asked for."""

    def __init__(self, start_ns: int, rate_hz: int, frame_samples: int) -> None:
        self.start_ns = start_ns
        self.rate_hz = rate_hz
        self._frame_samples = frame_samples
        self._next = 0
        self._placed: list[Placed] = []
        self._silence = np.zeros(frame_samples, dtype=np.int16)

    def place(self, turn: int, pcm: Pcm, start_ns: int) -> int:
        """Put an utterance at the first lane sample at or after `start_ns` that has not left yet; its exact start."""
        first = max(ns_to_samples_ceil(start_ns - self.start_ns, self.rate_hz), self._next)
        self._placed.append(Placed(turn, pcm, first))
        return self.start_ns + samples_to_ns(first, self.rate_hz)

    @property
    def next_due_ns(self) -> int:
        return self.start_ns + samples_to_ns(self._next + self._frame_samples, self.rate_hz)

    def next_frame(self) -> tuple[Frame, int | None]:
        """The next frame and the turn whose utterance it touches; without one it is the shared frame of silence."""
        first, stop = self._next, self._next + self._frame_samples
        pcm, turn = self._silence, None
        for placed in self._placed:
            lo, hi = max(first, placed.first), min(stop, placed.first + len(placed.pcm))
            if lo < hi:
                if turn is None:
                    pcm = self._silence.copy()
                pcm[lo - first : hi - first] = placed.pcm[lo - placed.first : hi - placed.first]
                turn = placed.turn
        if turn is not None:
            self._placed = [p for p in self._placed if p.first + len(p.pcm) > stop]
        frame = Frame(pcm, first, self.next_due_ns)
        self._next = stop
        return frame, turn
