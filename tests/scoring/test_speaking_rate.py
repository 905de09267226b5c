"""How fast a reply is spoken, from word times made by hand."""

from __future__ import annotations

import pytest

from metrics.result import Failed, Unavailable, Value
from metrics.scoring import Score
from metrics.text.normalisers import normaliser
from metrics.text.speaking_rate import METRIC, derive, identify
from metrics.transcript import WORDS, Word
from tests.scoring.transcripts import evenly, heard, options, sample


def score(transcript: Score, language: str = "en") -> Score:
    (found,) = derive([sample(None, language)], [{"asr": transcript}], options(METRIC))
    assert set(found.figures) == {figure.name for figure in METRIC.figures}
    return found


def test_words_per_second_of_speech_without_its_pauses() -> None:
    words = [Word("one", 0.5, 1.0), Word("two,", 1.1, 1.5), Word("three", 2.5, 3.0), Word("-", 3.0, 3.1)]
    found = score(heard("one two, three -", words=words))
    assert found.figures["words_per_s"] == Value(3 / 1.6)
    assert found.figures["pause_share"] == Value(0.384615)
    assert found.figures["characters_per_s"] == Unavailable("counted in words in this language")
    assert found.details == {"speech_s": 1.6}


def test_characters_per_second_of_chinese() -> None:
    found = score(heard("今天 天气 很好。", words=evenly("今天 天气 很好。", 0.5), language="zh", asked=""), "")
    assert found.figures["characters_per_s"] == Value(4.0)
    assert found.figures["words_per_s"] == Unavailable("counted in characters in this language")


def test_a_number_and_a_word_with_an_apostrophe_are_one_however_the_recogniser_cuts_them() -> None:
    pieces = evenly("L 'eau coûte 3 ,5 ou 1 ,000 euros .")
    found = score(heard("L'eau coûte 3,5 ou 1,000 euros.", words=pieces, language="fr"), "fr")
    assert found.figures["words_per_s"] == Value(6 / 3)
    whole = score(heard("Pi is 3.14159, and 1,000,000 is more."))
    assert whole.figures["words_per_s"] == Value(round(7 / 2.1, 6))


def test_what_the_recogniser_was_told_says_what_is_counted() -> None:
    told = heard("今天 天气 很好。", words=evenly("今天 天气 很好。", 0.5), language="en", asked="zh")
    assert score(told, "").figures["characters_per_s"] == Value(4.0)


def test_its_identity_names_the_normaliser() -> None:
    assert METRIC.identify == f"{identify.__module__}:{identify.__name__}"
    assert identify({}) == {"basic": normaliser("basic").version}


@pytest.mark.parametrize(
    ("transcript", "why"),
    [
        (heard("yes", words=[Word("yes", 0.0, 0.3)]), "less than 1 s of speech"),
        (heard("one two", words=[Word("one"), Word("two")]), "the recogniser gives no word times"),
        (heard("", no_speech="nothing audible"), "no speech was heard"),
        (heard(""), "no speech was heard"),
    ],
)
def test_without_enough_speech_or_times_there_is_none(transcript: Score, why: str) -> None:
    assert set(score(transcript).figures.values()) == {Unavailable(why)}


def test_a_failed_recogniser_stays_a_failure() -> None:
    assert set(score(Score({WORDS: Failed("HTTP 500")})).figures.values()) == {Failed("HTTP 500")}
