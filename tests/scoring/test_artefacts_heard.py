"""Artefacts put into spoken clips, heard by a real recogniser: nearly all are found, and none in clean speech."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise

import numpy as np
import pytest

from harness.recognise import metric as asr
from metrics.result import Value
from metrics.scoring import FloatPcm, Piece, Sample, Score, Scorer
from metrics.text.artefacts.metric import METRIC, derive
from metrics.transcript import Transcript, transcript_of
from sessions.audio import resample, to_float
from sessions.scripts import load_script
from tests.scoring.transcripts import options

RATE_HZ = 16_000
CLIPS = (
    ("five-rounds", 0), ("barge-in", 0), ("barge-in", 2), ("trip-planning", 1), ("trip-planning", 2),
    ("overlap", 0), ("small-talk", 1), ("small-talk", 2), ("backchannel", 0), ("backchannel", 3),
)  # fmt: skip

Inject = Callable[[FloatPcm, Sequence[int]], FloatPcm]
"""(sound, borders: where each word begins, and where the last one ends) → the sound, damaged."""


def said_again(sound: FloatPcm, borders: Sequence[int], *, first: int, stop: int, times: int = 1) -> FloatPcm:
    start, end = borders[first], borders[stop]
    return np.concatenate([sound[:end], *[sound[start:end]] * times, sound[end:]])


def left_out(sound: FloatPcm, borders: Sequence[int], *, first: int, words: int) -> FloatPcm:
    return np.concatenate([sound[: borders[first]], sound[borders[first + words] :]])


def pause(sound: FloatPcm, borders: Sequence[int], *, before: int, seconds: float) -> FloatPcm:
    quiet = np.zeros(int(seconds * RATE_HZ), np.float32)
    return np.concatenate([sound[: borders[before]], quiet, sound[borders[before] :]])


def cut_off(sound: FloatPcm, borders: Sequence[int], *, words: int) -> FloatPcm:
    return sound[: borders[-1 - words]]


INJECTED: tuple[tuple[int, Inject], ...] = (
    (0, partial(said_again, first=0, stop=5)),
    (1, partial(said_again, first=0, stop=6)),
    (4, partial(said_again, first=0, stop=5)),
    (5, partial(said_again, first=1, stop=5)),
    (6, partial(said_again, first=2, stop=5, times=2)),
    (0, partial(said_again, first=3, stop=4, times=6)),
    (4, partial(said_again, first=3, stop=4, times=6)),
    (5, partial(said_again, first=2, stop=3, times=6)),
    (1, partial(left_out, first=3, words=4)),
    (2, partial(left_out, first=3, words=4)),
    (7, partial(left_out, first=3, words=3)),
    (8, partial(left_out, first=3, words=4)),
    (0, partial(pause, before=2, seconds=1.8)),
    (3, partial(pause, before=6, seconds=2.0)),
    (7, partial(pause, before=4, seconds=2.5)),
    (9, partial(pause, before=3, seconds=1.8)),
    (1, partial(cut_off, words=4)),
    (2, partial(cut_off, words=3)),
    (6, partial(cut_off, words=4)),
    (8, partial(cut_off, words=3)),
)  # fmt: skip
"""Which clip, and what is done to it."""


@pytest.fixture(scope="module")
def recogniser() -> Scorer:
    return asr.make(options(asr.METRIC))


@pytest.fixture(scope="module")
def clean(recogniser: Scorer) -> list[tuple[str, FloatPcm, Score]]:
    """Text, sound and what is heard, of each clip."""
    found = []
    for name, turn in CLIPS:
        clip = load_script(name).turns[turn]
        sound = to_float(resample(clip.clip.pcm, clip.clip.rate_hz, RATE_HZ))
        found.append((clip.text, sound, hear(recogniser, sound)))
    return found


def hear(recogniser: Scorer, sound: FloatPcm) -> Score:
    (heard,) = recogniser.score([Piece(Sample("s", "", language="en"), np.ascontiguousarray(sound), RATE_HZ)])
    return heard


def artefacts(text: str, heard: Score) -> Score:
    return derive([Sample("s", "", language="en", text=text)], [{"asr": heard}], options(METRIC))[0]


def borders(heard: Score) -> list[int]:
    transcript = transcript_of(heard)
    assert isinstance(transcript, Transcript)
    times = [(word.start_s or 0.0, word.end_s or 0.0) for word in transcript.words]
    middles = [(before[1] + after[0]) / 2 for before, after in pairwise(times)]
    return [int(at * RATE_HZ) for at in (times[0][0], *middles, times[-1][1])]


@pytest.mark.embedded
def test_clean_speech_has_none(clean: list[tuple[str, FloatPcm, Score]]) -> None:
    assert [artefacts(text, heard).flags for text, _, heard in clean] == [[]] * len(CLIPS)


@pytest.mark.embedded
def test_of_20_artefacts_19_are_found(clean: list[tuple[str, FloatPcm, Score]], recogniser: Scorer) -> None:
    missed = []
    for clip, inject in INJECTED:
        text, sound, heard = clean[clip]
        found = artefacts(text, hear(recogniser, inject(sound, borders(heard))))
        if found.figures["artefacts"] == Value(0.0):
            missed.append((text, inject, found))
    assert len(INJECTED) == 20
    assert len(missed) <= 1, missed


@pytest.mark.embedded
def test_speech_that_goes_on_after_its_text_is_told(clean: list[tuple[str, FloatPcm, Score]]) -> None:
    text, _, heard = clean[0]
    assert "cut off: the text ends before" in artefacts(text.partition(" thirty")[0], heard).flags[0]
