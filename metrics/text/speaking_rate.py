"""How fast a reply is spoken, from the recogniser's word times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

from metrics.result import Failed, Measured, Unavailable, Value
from metrics.scoring import Figure, Metric, Options, Sample, Score
from metrics.text.alignment import unit_of
from metrics.text.artefacts.tokens import of_transcript
from metrics.text.heard import heard
from metrics.text.normalisers import normaliser
from metrics.transcript import Transcript, language_of

PAUSE_S: Final = 0.25
"""Silence from which on it is no part of speaking: N. de Jong and H. Bosker, "Choosing a threshold for silent pauses to
measure second language fluency", DiSS 2013."""
NEEDED_S: Final = 1.0

_FORMULA: Final = "units heard / time from the first word's start to the last one's end without silences of 250 ms"

METRIC: Final = Metric(
    name="speaking_rate",
    version="speaking_rate/2",
    purpose="how fast a reply is spoken, and how much of it is silence between words",
    figures=(
        Figure("words_per_s", "1/s", "none", "words per second", f"{_FORMULA}; a number counts as one"),
        Figure("characters_per_s", "1/s", "none", "characters per second", f"{_FORMULA}; where words have no spaces"),
        Figure("pause_share", "share", "none", "pauses", "silences of 250 ms between words / first start to last end"),
    ),
    derive="metrics.text.speaking_rate:derive",
    needs=("asr",),
    identify="metrics.text.speaking_rate:identify",
    reads=("language",),
)


def identify(options: Options) -> dict[str, str]:
    """Version of the normaliser that says what a word is."""
    return {"basic": normaliser("basic").version}


def derive(samples: Sequence[Sample], outputs: Sequence[Mapping[str, Score]], options: Options) -> Sequence[Score]:
    return [_one(sample, heard(scores)) for sample, scores in zip(samples, outputs, strict=True)]


def _one(sample: Sample, transcript: Transcript | Unavailable | Failed) -> Score:
    if not isinstance(transcript, Transcript):
        return METRIC.nothing(transcript)
    if transcript.no_speech or not transcript.text:
        return METRIC.nothing("no speech was heard")
    if not transcript.timed:
        return METRIC.nothing("the recogniser gives no word times")
    times = [(word.start_s or 0.0, word.end_s or 0.0) for word in transcript.words]
    whole_s = times[-1][1] - times[0][0]
    pauses_s = sum(gap for before, after in pairwise(times) if (gap := after[0] - before[1]) >= PAUSE_S)
    speech_s = whole_s - pauses_s
    if speech_s < NEEDED_S:
        return METRIC.nothing(f"less than {NEEDED_S:.0f} s of speech")
    unit = unit_of(language_of(sample, transcript))
    rate = Value(round(len(of_transcript(transcript, unit)) / speech_s, 6))
    figures: dict[str, Measured] = {
        "words_per_s": Unavailable("counted in characters in this language"),
        "characters_per_s": Unavailable("counted in words in this language"),
        "pause_share": Value(round(pauses_s / whole_s, 6)),
    }
    return Score(figures | {f"{unit}_per_s": rate}, details={"speech_s": round(speech_s, 3)})
