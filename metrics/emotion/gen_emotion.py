"""`gen_emotion`: URO-Bench's GenEmotion score: the emotion that was asked for, times the words that were asked for.

100·p(emotion)·(1 − min(error, 1)), error between what a recogniser heard and the target sentence (words for en,
characters for zh). Source: metrics/mark_emotion.py, revision 9e74bc0. As published the rate is a share of the answer's
length, since the code hands the two texts over the other way round; corrected, of the target's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from metrics.result import Failed, Measured, Unavailable, Value
from metrics.scoring import Aggregate, Figure, Metric, Options, Sample, Score, ScoreLine, passed_on
from metrics.text.heard import heard
from metrics.text.published import uro_corrected_error_rate, uro_error_rate
from metrics.transcript import Transcript, language_of

NOT_ASKED = "no emotion is asked for"
NO_TARGET = "there is no reference sentence"
_FORMULA = "100·p(emotion)·(1 − min(error, 1))"

METRIC = Metric(
    name="gen_emotion",
    version="2",
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
    without_values=True,
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
        return METRIC.nothing(passed_on("asr", answer))
    language = language_of(sample, answer)
    if language not in ("en", "zh"):
        return METRIC.nothing(f"URO-Bench scores en and zh, not {language or 'a language that nobody named'}")
    published = uro_error_rate(answer.text, sample.reference, language)
    corrected = uro_corrected_error_rate(answer.text, sample.reference, language)
    emotion = output["emotion"].figures["asked"]
    return Score(
        {"gen_emotion": _figure(emotion, published), "gen_emotion_corrected": _figure(emotion, corrected)},
        [],
        {"emotion": sample.emotion, "error_published": round(published, 6), "error_corrected": round(corrected, 6)},
    )


def _figure(emotion: Measured, error: float) -> Measured:
    if error >= 1:
        return Value(0.0)  # no word is right: whatever the emotion, nothing is left of it
    return Value(100 * emotion.value * (1 - error)) if isinstance(emotion, Value) else passed_on("emotion", emotion)


def summarise(lines: Iterable[ScoreLine]) -> list[Aggregate]:
    """The set's score as published: the sum over all samples that ask for an emotion, by their number.

    Where one of them could not be scored there is no score of the set, since nobody knows what it would have got. The
    means beside it are over what was scored; where nothing was, they alone say why.
    """
    total, used = 0.0, 0
    skipped, failed = Counter[str](), Counter[str]()
    for line in lines:
        measured: Measured = line.score.figures.get("gen_emotion", Failed("not given"))
        match measured:
            case Value(value):
                total, used = total + value, used + 1
            case Unavailable(because):
                skipped[because] += 1
            case Failed(error):
                failed[error] += 1
    if not used:
        return []
    whole = not failed and skipped.keys() <= {NOT_ASKED, NO_TARGET}
    return [
        Aggregate(
            figure="gen_emotion_set",
            title="GenEmotion of the set, as published",
            unit="",
            direction="higher",
            value=total / used if whole else None,
            used=used,
            skipped=skipped.total(),
            failed=failed.total(),
            no_ci95="it is one figure of the whole set",
            unavailable=dict(skipped),
            errors=dict(failed),
        )
    ]
