"""Marked lanes: minutes of one side of a dialogue, in which every onset and end of speech is known to the sample.

`marked-lanes/1`: the utterances of `marked-speech/1` one after another in a lane, in an order and behind quiet of 0.5
to 10 s that are drawn by a seed, each followed by 500 ms; five lanes of each condition of `marked-speech/1`, white
noise in even and pink noise in odd ones. A detector that carries a state from frame to frame finds other edges after
long quiet than in a clip alone, and a lane is what it is used on.

An onset is the utterance's first audible sample by `gate/1` on the clean recording, an end its annotated last sample.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from harness.speech_end_error.marked import CONDITIONS, RATE_HZ, TAIL_MS, add_condition, level_of, material
from sessions.audio import Pcm, to_float, to_pcm16

MARKED_LANES: Final = "marked-lanes/1"
LANES: Final = 5
_QUIET_MS: Final = (500, 10_000)


@dataclass(frozen=True, slots=True)
class Spoken:
    """One utterance in a lane. number: which one it is · first, stop: samples of the lane that are its own, quiet
    before and after included · onset: its first audible sample · end: its last speech sample."""

    number: int
    first: int
    stop: int
    onset: int
    end: int


@dataclass(frozen=True, slots=True)
class MarkedLane:
    """pcm: int16 (samples,) at rate_hz."""

    condition: str
    pcm: Pcm
    spoken: tuple[Spoken, ...]
    rate_hz: int = RATE_HZ


def marked_lanes() -> Iterator[MarkedLane]:
    """Every lane, the same samples in every run."""
    for lane in range(LANES):
        for number, condition in enumerate(CONDITIONS):
            yield _lane(condition, lane, number)


def _lane(condition: str, lane: int, number: int) -> MarkedLane:
    utterances = material()
    # RandomState, because numpy promises that its stream never changes. Order and quiet are those of the lane, so that
    # the conditions differ in nothing else.
    placing, dice = np.random.RandomState(lane), np.random.RandomState([lane, number])
    pieces: list[Pcm] = []
    spoken: list[Spoken] = []
    first = 0
    for which in placing.permutation(len(utterances)).tolist():
        turn = utterances[which]
        lead = int(placing.randint(*(ms * RATE_HZ // 1000 for ms in _QUIET_MS)))
        end = lead + turn.speech_end.index_samples
        wave = np.zeros(end + 1 + TAIL_MS * RATE_HZ // 1000)
        wave[lead : lead + len(turn.clip.pcm)] = to_float(turn.clip.pcm)
        add_condition(condition, wave, end, level_of(turn.clip.pcm), dice, pink=lane % 2 == 1)
        pieces.append(to_pcm16(wave))
        onset = first + lead + turn.onset_sample
        spoken.append(Spoken(which, first, first + len(wave), onset, first + end))
        first += len(wave)
    return MarkedLane(condition, np.concatenate(pieces), tuple(spoken))
