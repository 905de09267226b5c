"""`gen_emotion`: URO-Bench's GenEmotion score: the emotion that was asked for, times the words that were asked for.

100·p(emotion)·(1 − min(error, 1)), error between what a recogniser heard and the target sentence (words for en,
characters for zh). Source: metrics/mark_emotion.py, revision 9e74bc0. As published the rate is a share of the answer's
length, since the code hands the two texts over the other way round; corrected, of the target's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from metrics.result import Failed, Unavailable, Value
from metrics.scoring import Aggregate, Figure, Metric, Options, Sample, Score, ScoreLine
from metrics.text.heard import heard
from metrics.text.normalisers import primary
from metrics.text.published import uro_corrected_error_rate, uro_error_rate
from metrics.transcript import Transcript

NOT_ASKED = "no emotion is asked for"
NO_TARGET = "there is no reference sentence"
_FORMULA = "100·p(emotion)·(1 − min(error, 1))"

METRIC = Metric(
    name="gen_emotion",
    version="1",
    purpose="URO-Bench's GenEmotion: an emotion and a sentence that were asked for",
    figures=(
        Figure("gen_emotion", "", "higher", "GenEmotion as published", f"{_FORMULA}, error a share of the answer"),
        Figure(
            "gen_emotion_corrected", "", "higher", "GenEmotion corrected", f"{_FORMULA}, error a share of the target"
        ),
    ),
    derive="metrics.emotion.gen_emotion:derive",
    summarise="metrics.emotion.gen_emotion:summarise",
    needs=("emotion", "asr"),
    reads=("emotion", "reference", "language"),
    extra="emotion",
)


def derive(samples: Sequence[Sample], outputs: Sequence[Mapping[str, Score]], options: Options) -> Sequence[Score]:
    return [_score(sample, output) for sample, output in zip(samples, outputs, strict=True)]


def _score(sample: Sample, output: Mapping[str, Score]) -> Score:
    if not sample.emotion:
        return METRIC.nothing(NOT_ASKED)
    if sample.reference is None:
        return METRIC.nothing(NO_TARGET)
    answer = heard(output)
    if not isinstance(answer, Transcript):
        return _all(answer)
    language = primary(sample.language or answer.language)
    if language not in ("en", "zh"):
        return METRIC.nothing(f"URO-Bench scores en and zh, not {language or 'a language that nobody named'}")
    published = uro_error_rate(answer.text, sample.reference, language)
    corrected = uro_corrected_error_rate(answer.text, sample.reference, language)
    emotion = output["emotion"].figures["asked"]
    if min(published, corrected) >= 1:
        emotion = Value(0.0)  # no word is right: whatever the emotion, nothing is left of it
    if not isinstance(emotion, Value):
        return _all(emotion)
    return Score(
        {
            "gen_emotion": Value(_formula(emotion.value, published)),
            "gen_emotion_corrected": Value(_formula(emotion.value, corrected)),
        },
        [],
        {"emotion": sample.emotion, "error_published": round(published, 6), "error_corrected": round(corrected, 6)},
    )


def _formula(probability: float, error: float) -> float:
    return 100 * probability * (1 - min(error, 1.0))


def _all(why: Unavailable | Failed) -> Score:
    return Score({figure.name: why for figure in METRIC.figures})


def summarise(lines: Iterable[ScoreLine]) -> list[Aggregate]:
    """The set's score as published: the sum over all samples that ask for an emotion, by their number.

    A reply without a sound file counts 0, as its probability does there. Where a reply has one and could not be scored,
    there is no score of the set: 0 would say that it was bad. The means beside it are over what was scored.
    """
    total, used, silent = 0.0, 0, 0
    skipped, failed = Counter[str](), Counter[str]()
    for line in lines:
        measured = line.score.figures.get("gen_emotion", Failed("not given"))
        if isinstance(measured, Unavailable) and measured.because in (NOT_ASKED, NO_TARGET):
            skipped[measured.because] += 1
        elif isinstance(measured, Value):
            total, used = total + measured.value, used + 1
        elif not line.audio:
            used, silent = used + 1, silent + 1
        else:
            failed[measured.because if isinstance(measured, Unavailable) else measured.error] += 1
    if not used and not failed:
        return []
    return [
        Aggregate(
            figure="gen_emotion_set",
            title="GenEmotion of the set, as published" + (f" ({silent} without a sound count 0)" if silent else ""),
            unit="",
            direction="higher",
            value=None if failed else total / used,
            used=used,
            skipped=skipped.total(),
            failed=failed.total(),
            no_ci95="it is a sum that holds replies without a score",
            unavailable=dict(skipped),
            errors=dict(failed),
        )
    ]
