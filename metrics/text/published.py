"""Error rates exactly as two benchmarks publish them, for pairs of texts, oddities included.

They differ from ours where a text is empty, and in which text the rate is a share of.
"""

from __future__ import annotations

from metrics.text.alignment import Counts, compare, unit_of
from metrics.text.normalisers import normalise


def uro_error_rate(first: str, second: str, language: str) -> float:
    """URO-Bench's rate: `first` is what it is a share of. language: "en" (words) or "zh" (characters).

    1 where `first` is empty after its normaliser, whatever `second` is: its jiwer, 3.0.5, raises there, and every
    exception counts 1. Not clipped. For the error of recognition `first` is the system's own text; for the sets Repeat
    and GenEmotion the published code hands the answer as `first` and the target as `second`, so that an answer said
    twice scores 0.5: `uro_corrected_error_rate` has them the other way.
    Source: metrics/mark_wer.py, revision 9e74bc0.
    """
    if language not in ("en", "zh"):
        raise ValueError(f"URO-Bench has an error rate for en and zh, not {language!r}")
    normalised = normalise(f"uro-{language}")
    rate = compare(normalised(first), normalised(second), unit_of(language)).rate
    return 1.0 if rate is None else rate


def uro_corrected_error_rate(answer: str, target: str, language: str) -> float:
    """The same as a share of the target: what was meant for Repeat and GenEmotion. Not what is published."""
    return uro_error_rate(target, answer, language)


def audiobench_counts(reference: str, prediction: str, normaliser: str = "audiobench-en") -> Counts:
    """AudioBench's word errors of one pair; a set's rate is the sum of errors over the sum of reference words.

    A text that is empty after the normaliser is the word "empty", on either side. Not clipped. Revision e991641.
    """
    normalised = normalise(normaliser)
    return compare(normalised(reference) or "empty", normalised(prediction) or "empty", "words")
