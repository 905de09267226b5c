"""What derived text metrics start from: a reply's own text, and what was heard of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from metrics.result import Failed, Unavailable
from metrics.scoring import Sample, Score
from metrics.transcript import Transcript, language_of, transcript_of

ASR = "asr"


@dataclass(frozen=True, slots=True)
class Said:
    """text: the reply's own, as the system gave it · language: see `language_of`."""

    text: str
    transcript: Transcript
    language: str
    flags: tuple[str, ...] = ()


def heard(scores: Mapping[str, Score]) -> Transcript | Unavailable | Failed:
    """The transcript. One of a sound without speech counts as a transcript of nothing: its `no_speech` says why."""
    score = scores[ASR]
    if score.details.get("no_speech"):
        return msgspec.convert(score.details, Transcript)
    return transcript_of(score)


def said(sample: Sample, scores: Mapping[str, Score]) -> Said | Unavailable | Failed:
    """Both, or why one is missing."""
    transcript = heard(scores)
    if not isinstance(transcript, Transcript):
        return transcript
    if sample.text is None:
        return Unavailable("the system gave no text of this reply")
    return Said(sample.text, transcript, language_of(sample, transcript), tuple(scores[ASR].flags))
