"""What the client says, held against what was said in the recording."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from servers.replay.recording import END, START, Pcm, Utterance
from sessions.clock import samples_to_ns


@dataclass(frozen=True, slots=True)
class Heard:
    """An utterance began or ended on the lane. what: START or END · at_ns: as the package's docstring reckons it."""

    what: str
    turn: int
    at_ns: int


class OtherAudio(Exception):
    """The client says something else than the recording holds. The text is for people."""


class LaneListener:
    """Audio that flows: finds the recorded utterances in it. Silence between them must be silence: zeros."""

    def __init__(self, utterances: Sequence[Utterance], rate_hz: int) -> None:
        self._utterances = utterances
        self._rate_hz = rate_hz
        self._heard_samples = 0
        self._next = 0
        self._first: int | None = None
        """Lane index of the first sample of the utterance that is being said."""
        self._tail: tuple[int, Pcm] = (0, np.zeros(0, dtype=np.int16))
        """What may still come of the utterance before: the lane index of its first sample, and its clip."""

    def hear(self, pcm: Pcm, t_ns: int) -> Iterator[Heard]:
        """int16 (samples,) that arrived at `t_ns`. Raises `OtherAudio`."""
        at = self._heard_samples
        self._heard_samples += len(pcm)
        sample_0_ns = t_ns - samples_to_ns(self._heard_samples, self._rate_hz)
        while len(pcm):
            if self._first is None:
                skipped = self._silent_samples(pcm, at)
                pcm, at = pcm[skipped:], at + skipped
                if not len(pcm):
                    return
                said = self._begin(pcm, at)
                yield Heard(START, said.turn, sample_0_ns + samples_to_ns(self._first or 0, self._rate_hz))
            first = self._first or 0
            said = self._utterances[self._next]
            compared = _same(said, pcm, at - first)
            pcm, at = pcm[compared:], at + compared
            if at == first + said.last_sample + 1:
                self._first, self._tail = None, (first, said.pcm)
                self._next += 1
                start_ns = sample_0_ns + samples_to_ns(first, self._rate_hz)
                yield Heard(END, said.turn, start_ns + samples_to_ns(said.last_sample + 1, self._rate_hz))

    def _silent_samples(self, pcm: Pcm, at: int) -> int:
        """How many samples are silence, or what the clip before still holds after its speech."""
        first, clip = self._tail
        left = clip[at - first : at - first + len(pcm)] if clip.size else clip
        expected = np.zeros(len(pcm), dtype=np.int16)
        expected[: len(left)] = left
        differing = np.flatnonzero(pcm != expected)
        return int(differing[0]) if len(differing) else len(pcm)

    def _begin(self, pcm: Pcm, at: int) -> Utterance:
        """The next utterance begins: its first sample that is not 0 is here."""
        if self._next == len(self._utterances):
            raise OtherAudio(f"the client speaks on; the recording holds {_turns(len(self._utterances))}")
        said = self._utterances[self._next]
        # A 0 where sound was still expected is its very first sample: it lies over what the clip before held.
        self._first = at - said.first_loud if pcm[0] else at
        return said


def _same(said: Utterance, pcm: Pcm, index: int) -> int:
    """How many samples of `pcm` belong to the utterance up to n, from its sample `index` on. Raises `OtherAudio`."""
    expected = said.spoken[index : index + len(pcm)]
    differing = np.flatnonzero(pcm[: len(expected)] != expected)
    if len(differing):
        raise OtherAudio(_differs(said, index + int(differing[0])))
    return len(expected)


class BufferListener:
    """Audio that is committed: what came since the last commit or clear."""

    def __init__(self, utterances: Sequence[Utterance]) -> None:
        self._longest = max((len(said.pcm) for said in utterances), default=0)
        self._pieces: list[Pcm] = []
        self._kept = self._samples = 0

    def hear(self, pcm: Pcm) -> None:
        self._samples += len(pcm)
        if self._kept <= self._longest:  # what is longer than all that was said differs anyway
            self._pieces.append(pcm)
            self._kept += len(pcm)

    def clear(self) -> None:
        self._pieces, self._kept, self._samples = [], 0, 0

    def commit(self, said: Utterance | None) -> None:
        """The buffer is the user's turn, and empty from now on. Raises `OtherAudio` where it is not what was said."""
        samples = self._samples
        pcm = np.concatenate(self._pieces) if self._pieces else np.zeros(0, dtype=np.int16)
        self.clear()
        if said is None:
            return
        _same(said, pcm, 0)
        if samples != len(said.spoken):
            what = f"turn {said.turn + 1} has {samples} samples of audio; the recording has {len(said.spoken)}"
            raise OtherAudio(what)


def _differs(said: Utterance, sample: int) -> str:
    return f"the audio of turn {said.turn + 1} is not the recorded one from sample {sample} on"


def _turns(count: int) -> str:
    return f"{count} turn{'' if count == 1 else 's'}"
