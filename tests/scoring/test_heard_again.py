"""The last answer of a recogniser, given again: told from two replies that say the same."""

from __future__ import annotations

from collections.abc import Sequence

from metrics.result import Value
from metrics.scoring import Score
from metrics.text.heard_again import METRIC, derive
from tests.scoring.transcripts import heard, options, sample

THANKS = heard("thank you")


def found(texts: Sequence[str | None], transcripts: Sequence[Score]) -> list[float | None]:
    samples = [sample(text) for text in texts]
    scores = derive(samples, [{"asr": transcript} for transcript in transcripts], options(METRIC))
    figures = [score.figures["heard_again"] for score in scores]
    flagged = [score.flags == ["same transcript as the turn before"] for score in scores]
    assert flagged == [figure == Value(100.0) for figure in figures]
    return [figure.value if isinstance(figure, Value) else None for figure in figures]


def test_a_transcript_like_that_of_the_turn_before_is_flagged_where_the_texts_differ() -> None:
    said = ["Thank you.", "Thank you.", "Good bye.", None, None]
    assert found(said, [THANKS] * 5) == [None, 0, 100, 100, 100]


def test_silence_and_other_words_are_no_answer_given_again() -> None:
    silent, other = heard("", no_speech="digital silence"), heard("good bye")
    assert found(["Hm."] * 6, [THANKS, silent, silent, THANKS, other, THANKS]) == [None, 0, 0, 0, 0, 0]


def test_a_turn_that_stands_alone_has_none_before_it() -> None:
    assert found(["Hm."], [THANKS]) == [None]
