"""What goes wrong in speech, told from transcripts made by hand; by a real recogniser in test_artefacts_heard.py."""

from __future__ import annotations

import msgspec
import pytest

from metrics.result import Failed, Unavailable, Value
from metrics.scoring import Score
from metrics.text.artefacts.metric import METRIC, derive, identify
from metrics.text.artefacts.repeats import Repeat, repeats
from metrics.text.artefacts.tokens import of_text
from metrics.transcript import WORDS, Word
from tests.scoring.transcripts import evenly, heard, options, sample

TEXT = "My sister Anna lives in Paris, and she turns thirty on Friday. Come and see us!"


def score(text: str | None, transcript: Score, language: str = "en", **more: object) -> Score:
    (found,) = derive([sample(text, language, **more)], [{"asr": transcript}], options(METRIC))
    assert set(found.figures) == {figure.name for figure in METRIC.figures}
    return found


def counted(found: Score) -> dict[str, float]:
    """Kinds that are not 0."""
    return {
        name: figure.value
        for name, figure in found.figures.items()
        if isinstance(figure, Value) and figure.value and name not in ("artefacts", "longest_pause")
    }


def with_gap(text: str, after: int, seconds: float) -> Score:
    words = evenly(text)
    later = [
        Word(word.text, (word.start_s or 0) + seconds, (word.end_s or 0) + seconds) if at >= after else word
        for at, word in enumerate(words)
    ]
    return heard(text, words=later)


def test_speech_that_says_its_text_has_none() -> None:
    found = score(TEXT, heard("my sister Anna lives in Paris and she turns 30 on Friday, come and see us"))
    assert found.figures["artefacts"] == Value(0.0)
    assert (counted(found), found.flags) == ({}, [])


@pytest.mark.parametrize(
    ("spoken", "kinds", "flag"),
    [
        (
            "My sister Anna lives in Paris. My sister Anna lives in Paris and she turns 30 on Friday. Come and see us",
            {"repeats": 1},
            "repeated: 'my sister anna lives in paris' 2 times at 0.0 s",
        ),
        (
            "My sister Anna Anna Anna lives in Paris and she turns 30 on Friday. Come and see us",
            {"repeats": 1},
            "repeated: 'anna' 3 times at 0.6 s",
        ),
        (
            "My sister Anna and she turns 30 on Friday. Come and see us",
            {"missing": 1},
            "missing: 'lives in paris' after 'anna'",
        ),
        (
            "My sister Anna lives in Paris for the whole spring and she turns 30 on Friday. Come and see us",
            {"added": 1},
            "added: 'for the whole spring' after 'paris'",
        ),
        (
            "My sister Anna lives in Paris and she turns 30 on",
            {"cut_off": 1},
            "cut off: the speech ends before 'friday come and see us'",
        ),
        ("in Paris and she turns 30 on Friday. Come and see us", {"cut_off": 1},
         "cut off: the speech begins after 'my sister anna lives'"),
        (f"{TEXT} Bring cake and candles.", {"cut_off": 1}, "cut off: the text ends before 'bring cake and candles'"),
    ],
)  # fmt: skip
def test_each_kind_is_counted_apart_and_told(spoken: str, kinds: dict[str, float], flag: str) -> None:
    found = score(TEXT, heard(spoken))
    assert flag in found.flags
    assert counted(found) == kinds


def test_what_the_text_says_twice_may_be_heard_twice() -> None:
    text = "It is what it is what it is, very very good, bye bye bye."
    assert score(text, heard(text)).figures["artefacts"] == Value(0.0)
    assert counted(score(text, heard("It is what it is what it is what it is, very very good, bye bye bye.")))
    assert repeats(["no", "no", "no"], ["no", "no"]) == [Repeat(("no",), 3, 0)]


def test_a_short_word_doubled_by_the_recogniser_is_none() -> None:
    assert counted(score("I was so tired.", heard("I was so so tired."))) == {}
    assert counted(score("the blue line", heard("the blue blue line"))) == {"repeats": 1.0}


def test_repeats_are_found_from_left_to_right_the_shortest_first() -> None:
    assert repeats(["a", "b", "a", "b", "a", "b", "c", "c", "c", "d", "e", "f", "d", "e", "f"], []) == [
        Repeat(("a", "b"), 3, 0),
        Repeat(("c",), 3, 6),
        Repeat(("d", "e", "f"), 2, 9),
    ]
    assert repeats(["x"] * 20_000, [])[0].times == 20_000


@pytest.mark.parametrize(
    ("after", "seconds", "found"),
    [(5, 1.1, True), (5, 1.0, False), (12, 1.5, False), (12, 2.1, True)],
)
def test_a_pause_may_be_longer_where_a_sentence_of_the_text_ends(after: int, seconds: float, found: bool) -> None:
    spoken = TEXT.replace(".", "").replace("thirty", "30")
    pauses = score(TEXT, with_gap(spoken, after, seconds))
    assert counted(pauses) == ({"pauses": 1.0} if found else {})
    assert pauses.figures["longest_pause"] == Value(seconds)


def test_a_title_ends_no_sentence() -> None:
    assert counted(score("We saw Dr. Lee. He was in.", with_gap("We saw Dr. Lee. He was in.", 3, 1.5))) == {"pauses": 1}
    assert counted(score("We saw Dr. Lee. He was in.", with_gap("We saw Dr. Lee. He was in.", 4, 1.5))) == {}


def test_a_sentence_may_begin_with_a_word_that_the_recogniser_cuts() -> None:
    pieces = [*evenly("Je viens."), Word("D", 2.1, 2.2), Word("'accord", 2.2, 2.6), Word("bien.", 2.6, 3.0)]
    assert counted(score("Je viens. D'accord bien.", heard("Je viens. D'accord bien.", words=pieces), "fr")) == {}


def test_without_a_text_sentences_end_where_the_transcript_says_so() -> None:
    assert counted(score(None, with_gap("Come in. Sit down.", 2, 1.5))) == {}
    assert counted(score(None, with_gap("Come in, sit down.", 2, 1.5))) == {"pauses": 1.0}


@pytest.mark.parametrize(
    ("word", "seconds", "found"),
    [("most", 0.76, True), ("most", 0.6, False), ("1999", 2.0, False), ("ORG", 0.7, False), ("好", 2.0, False)],
)
def test_a_word_that_lasts_too_long_for_its_letters(word: str, seconds: float, found: bool) -> None:
    words = [*evenly("this here is a", 0.2), Word(word, 1.2, 1.2 + seconds)]
    transcript = heard(f"this here is a {word}", words=words)
    assert counted(score(f"this here is a {word}", transcript)) == ({"stretched": 1.0} if found else {})


def test_slow_speech_is_no_stretched_word() -> None:
    slow = [Word(word.text, 3 * (word.start_s or 0), 3 * (word.end_s or 0)) for word in evenly("go on now and see")]
    assert counted(score("go on now and see", heard("go on now and see", words=slow))) == {}


def test_numbers_may_be_spelled_otherwise() -> None:
    text = "My phone number is four one five, five five five, zero one three two. It costs $1,234.50, at 7:30."
    spoken = (
        "My phone number is 415-555-0132. It costs one thousand two hundred thirty four dollars fifty at seven thirty."
    )
    assert counted(score(text, heard(spoken))) == {}
    assert counted(score("It opens at 9 tomorrow and closes.", heard("It opened and closes."))) == {"missing": 1.0}


@pytest.mark.parametrize(
    ("text", "spoken"),
    [
        ("That is one billion.", "That is 1,000,000,000."),
        ("555-0123", "5 5 5 0 1 2 3"),
        ("My number is 555-0123.", "My number is five five five zero one two three."),
        ("My number is five five five, zero one two three.", "My number is 5 5 5 0 1 2 3."),
    ],
)
def test_a_number_that_is_read_digit_by_digit_is_no_repeat(text: str, spoken: str) -> None:
    assert counted(score(text, heard(spoken))) == {}


def test_a_number_that_the_recogniser_cuts_is_no_repeat() -> None:
    pieces = evenly("That is 1 ,000 ,000 ,000 .")
    assert counted(score("That is one billion.", heard("That is 1,000,000,000.", words=pieces))) == {}


@pytest.mark.parametrize(
    ("text", "spoken", "language", "flag"),
    [
        ("I don't know the answer.", "I don't know I don't know the answer.", "en", "'i dont know' 2"),
        ("It's mother's colour.", "It's mother's mother's mother's colour.", "en", "'mothers' 3"),
        ("这个App很好", "这个App App App App很好", "zh", "'app' 4"),
        ("我有3个苹果", "我有3个苹果3个苹果", "zh", "'3个苹果' 2"),
        ("D'accord, je viens.", "D'accord d'accord d'accord je viens.", "fr", "'daccord' 3"),
    ],
)
def test_a_repeat_is_one_fault_however_the_normaliser_spells_it(
    text: str, spoken: str, language: str, flag: str
) -> None:
    found = score(text, heard(spoken, language=language), language)
    assert found.flags == [f"repeated: {flag} times at {found.flags[0].rpartition(' at ')[2]}"]
    assert found.figures["artefacts"] == Value(1.0)


def test_characters_of_chinese() -> None:
    text = "我们明天早上八点在学校门口见面，别忘了带上你的书。"
    assert counted(score(text, heard(text, language="zh"), "zh")) == {}
    doubled = text.replace("学校门口", "学校门口学校门口")
    assert counted(score(text, heard(doubled, language="zh"), "zh")) == {"repeats": 1.0}
    short = text.replace("早上八点", "")
    assert score(text, heard(short, language="zh"), "zh").flags == ["missing: '早上八点' after '天'"]
    assert counted(score(text, heard(text[:12], language="zh"), "zh")) == {"cut_off": 1.0}
    assert [token.text for token in of_text("打开WiFi 2次。好", "characters")] == ["打", "开", "wifi", "2", "次", "好"]
    assert [token.text for token in of_text("3.5元。好", "characters") if token.ends] == ["元"]


def test_the_language_that_the_recogniser_was_told_goes_before_what_it_took_the_sound_for() -> None:
    told = heard("我们早上八点在门口见面门口见面", language="en", asked="zh")
    assert score("我们早上八点在门口见面", told, "").flags == ["repeated: '门口见面' 2 times at 0.0 s"]


def test_an_interrupted_reply_is_not_blamed_for_its_end() -> None:
    found = score(TEXT, heard("My sister Anna lives in"), heard_samples=16_000)
    assert found.figures["cut_off"] == Unavailable("the reply was interrupted, so it is cut off")
    assert found.figures["artefacts"] == Value(0.0)


def test_silence_with_a_text_is_all_missing_and_without_one_nothing_can_be_said() -> None:
    silent = score(TEXT, heard("", no_speech="nothing audible"))
    assert (counted(silent), silent.figures["artefacts"]) == ({"missing": 1.0}, Value(1.0))
    for text, language in (("Paris.", "en"), ("Yes.", "en"), ("好。", "zh")):
        for why in ("nothing audible", ""):
            short = score(text, heard("", no_speech=why), language)
            assert (counted(short), short.figures["artefacts"]) == ({"missing": 1.0}, Value(1.0))
    nothing = score("", heard("", no_speech="nothing audible"))
    assert set(nothing.figures.values()) == {Unavailable("no speech, and no text either: nothing audible")}


def test_what_cannot_be_told_is_unavailable_and_so_is_the_total() -> None:
    untimed = heard(TEXT, words=[Word(word) for word in TEXT.split()])
    found = score(TEXT, untimed)
    assert found.figures["pauses"] == Unavailable("the recogniser gives no word times")
    assert found.figures["artefacts"] == Unavailable("not every kind of artefact could be told")
    assert score(None, heard("a")).figures["missing"] == Unavailable("the system gave no text of this reply")
    for why in (Failed("HTTP 500"), Unavailable("the recogniser hears English alone")):
        assert set(score("a", Score({WORDS: why})).figures.values()) == {why}


def test_speech_of_something_else_is_a_matter_of_the_error_rate() -> None:
    assert counted(score("Uh-huh.", heard("It's hard."))) == {}
    assert counted(score("Yes.", heard("Thank you for watching this video"))) == {"added": 1.0}


def test_a_score_is_json_and_its_identity_names_the_normalisers() -> None:
    found = score(TEXT, heard(TEXT))
    assert msgspec.json.decode(msgspec.json.encode(found), type=Score) == found
    assert {"jiwer", "whisper-en", "uro-zh", "basic"} <= set(identify(options(METRIC)))
    assert set(identify(options(METRIC, normaliser="none"))) == {"jiwer", "none", "basic"}
