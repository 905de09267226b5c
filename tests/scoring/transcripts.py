"""Transcripts as the metric `asr` keeps them, made by hand, for tests of the metrics that read them."""

from __future__ import annotations

import msgspec

from metrics.result import Measured, Unavailable, Value
from metrics.scoring import Metric, Options, Sample, Score
from metrics.transcript import WORDS, Transcript, Word


def heard(
    text: str,
    *,
    words: list[Word] | None = None,
    no_speech: str = "",
    language: str = "en",
    asked: str | None = None,
) -> Score:
    """Without `words`, the text's own, 300 ms each, without gaps. asked: what the recogniser was told; without it,
    `language`."""
    timed = words if words is not None else evenly(text)
    figure: Measured = Unavailable(f"no speech: {no_speech}") if no_speech else Value(float(len(timed)))
    transcript = Transcript(text, language, language if asked is None else asked, "by hand", "", timed, no_speech)
    return Score({WORDS: figure}, [], msgspec.to_builtins(transcript))


def evenly(text: str, seconds: float = 0.3) -> list[Word]:
    return [
        Word(word, round(at * seconds, 3), round((at + 1) * seconds, 3), 0.9) for at, word in enumerate(text.split())
    ]


def sample(text: str | None, language: str = "en", **more: object) -> Sample:
    return msgspec.structs.replace(Sample("s", "s.wav", language=language, text=text), **more)


def options(metric: Metric, **given: str) -> Options:
    return {option.name: option.default for option in metric.options} | given
