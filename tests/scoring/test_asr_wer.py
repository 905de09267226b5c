"""ASR-WER of one reply and over many: what each kind of emptiness comes to, and corpus against mean."""

from __future__ import annotations

import msgspec
import pytest

from metrics.result import Failed, Unavailable, Value
from metrics.scoring import Score, ScoreLine
from metrics.stats import ratio_interval
from metrics.text.asr_wer import METRIC, derive, identify, summarise
from metrics.transcript import WORDS
from sessions.errors import SetupError
from tests.scoring.transcripts import heard, options, sample


def score(text: str | None, transcript: Score, language: str = "en", **given: str) -> Score:
    (found,) = derive([sample(text, language)], [{"asr": transcript}], options(METRIC, **given))
    assert set(found.figures) == {figure.name for figure in METRIC.figures}
    assert msgspec.json.decode(msgspec.json.encode(found), type=Score) == found
    return found


def values(found: Score) -> dict[str, float]:
    return {name: figure.value for name, figure in found.figures.items() if isinstance(figure, Value)}


def test_words_of_english() -> None:
    found = score("The kettle's on, I'll be there.", heard("the kettle is on I will be right their"))
    assert values(found) == {
        "wer": 2 / 8,
        "cer": 8 / 32,
        "substitutions": 1 / 8,
        "deletions": 0.0,
        "insertions": 1 / 8,
    }
    assert found.details["normaliser"] == "whisper-en/1"
    assert found.details["alignment"][-2:] == [["insert", "", "right"], ["substitute", "there", "their"]]


def test_characters_of_chinese() -> None:
    found = score("我有3个苹果。", heard("我有三个平果", language="zh"), "zh-CN")
    assert values(found) == {"cer": 1 / 6, "substitutions": 1 / 6, "deletions": 0.0, "insertions": 0.0}
    assert found.figures["wer"] == Unavailable(
        "counted in characters: this language's words are not told apart by spaces"
    )
    assert found.details["normaliser"] == "uro-zh/1"


def test_the_language_is_the_samples_and_only_without_one_what_was_heard() -> None:
    assert score("好", heard("好", language="en"), "zh").details["unit"] == "characters"
    assert score("好", heard("好", language="zh", asked=""), "").details["unit"] == "characters"


def test_a_language_may_have_its_code_of_three_letters() -> None:
    assert score("colour", heard("color"), "eng").details["normaliser"] == "whisper-en/1"
    assert values(score("a", heard("a"), "eng", form="as-published"))["wer"] == 0.0
    japanese = score("今日はいい天気ですね", heard("今日はいい天気だね", language="ja"), "jpn")
    assert values(japanese)["cer"] == 2 / 10
    cantonese = score("我有3個蘋果", heard("我有三個蘋果", language="yue"), "yue")
    assert (cantonese.details["unit"], values(cantonese)["cer"]) == ("characters", 0.0)


def test_the_language_that_the_recogniser_was_told_goes_before_what_it_took_the_sound_for() -> None:
    told = heard("好", language="en", asked="zh")
    assert score("好", told, "").details["normaliser"] == "uro-zh/1"
    assert score("good", told, "en").details["unit"] == "words"


@pytest.mark.parametrize("because", ["nothing in it is above -60 dBFS", "no voice is in it"])
def test_a_silent_reply_with_a_text_is_all_deletions(because: str) -> None:
    found = score("hello there", heard("", no_speech=because))
    assert values(found) == {"wer": 1.0, "cer": 1.0, "substitutions": 0.0, "deletions": 1.0, "insertions": 0.0}
    assert found.flags == [f"no speech: {because}"]


def test_silence_without_a_text_has_no_rate() -> None:
    found = score("", heard("", no_speech="nothing audible"))
    assert set(found.figures.values()) == {Unavailable("the reply's own text is empty")}
    assert found.flags == ["no speech: nothing audible"]


@pytest.mark.parametrize(
    ("text", "language"), [("...", "en"), ("😀", "en"), ("um, uh", "en"), ("。。。", "zh"), ("!", "de")]
)
def test_a_text_without_words_has_no_rate_and_words_heard_beside_it_are_flagged(text: str, language: str) -> None:
    found = score(text, heard("thank you", language=language), language)
    assert found.figures["cer"] == Unavailable("the reply's own text has no words after the normaliser")
    assert found.flags == ["speech without text: 'thank you'"]


@pytest.mark.parametrize(
    ("text", "spoken", "language"),
    [
        ("Let me think… the answer is four…", "let me think the answer is four", "en"),
        ("今天很好😀", "今天很好", "zh"),
        ("今天 ❤️ 很好", "今天 很好", "zh"),
    ],
)
def test_what_nobody_says_is_no_word_of_the_text(text: str, spoken: str, language: str) -> None:
    found = score(text, heard(spoken, language=language), language)
    assert (values(found)["cer"], values(found)["deletions"]) == (0.0, 0.0)
    assert found.details["reference"] == found.details["hypothesis"]


def test_a_transcript_of_punctuation_is_empty_and_counts() -> None:
    assert values(score("hello there", heard("...")))["deletions"] == 1.0


@pytest.mark.parametrize(
    ("text", "transcript", "language", "wer", "cer"),
    [
        ("打开WiFi 设置", "打开wifi 设置", "zh", None, 0.0),
        ("打开WiFi设置", "打开外发设置", "zh", None, 4 / 8),
        ("smile 😀 now", "smile now", "en", 0.0, 0.0),
        ("Guten Tag, Herr Müller!", "guten tag herr müller", "de", 0.0, 0.0),
    ],
)
def test_mixed_scripts_and_emoji(text: str, transcript: str, language: str, wer: float | None, cer: float) -> None:
    found = values(score(text, heard(transcript, language=language), language))
    assert (found.get("wer"), found["cer"]) == (wer, cer)


def test_over_one_is_not_clipped_and_flagged() -> None:
    found = score("yes", heard("thank you for watching"))
    assert values(found)["wer"] == 4.0
    assert found.flags == ["more errors than words: 4 of 1"]


def test_flags_of_the_recogniser_stay() -> None:
    loop = msgspec.structs.replace(heard("no no no no no"), flags=["loop: 'no' 5 times in a row"])
    assert "loop: 'no' 5 times in a row" in score("no", loop).flags


def test_without_a_text_or_a_transcript_there_is_no_rate_and_the_reason_stays() -> None:
    assert set(score(None, heard("a")).figures.values()) == {Unavailable("the system gave no text of this reply")}
    for why in (Failed("HTTP 500"), Unavailable("the recogniser hears English alone")):
        assert set(score("a", Score({WORDS: why})).figures.values()) == {why}


def test_as_published_an_empty_text_counts_one_and_other_languages_have_none() -> None:
    assert values(score("...", heard("hello"), form="as-published"))["wer"] == 1.0
    assert values(score("", heard("", no_speech="silent"), form="as-published"))["wer"] == 1.0
    assert values(score("", heard("你好", language="zh"), "zh", form="as-published"))["cer"] == 1.0
    assert values(score("Well… stay…", heard("well stay"), form="as-published"))["wer"] == 2 / 4
    german = score("ja", heard("ja", language="de"), "de", form="as-published")
    assert not values(german)


def test_options_choose_normaliser_and_unit() -> None:
    assert score("Hi", heard("hi"), unit="characters").figures["wer"] == Unavailable("counted in characters: as asked")
    assert values(score("Hi There", heard("hi there"), normaliser="none"))["wer"] == 1.0
    spaced = score("你好 吗", heard("你好 妈", language="zh"), "zh", normaliser="audiobench-zh", unit="words")
    assert values(spaced)["wer"] == 1 / 3


def test_its_identity_names_what_it_stands_on_and_refuses_a_contradiction() -> None:
    assert {"jiwer", "whisper-en", "whisper-normalizer", "uro-zh", "cn2an", "zhon", "basic"} == set(
        identify(options(METRIC))
    )
    with pytest.raises(SetupError, match="has its own normaliser"):
        identify(options(METRIC, form="as-published", normaliser="none"))


def lines(pairs: list[tuple[str, str]], language: str = "en", groups: int = 0) -> list[ScoreLine]:
    return [
        ScoreLine("", f"{language}{n}", "asr_wer", "1", score(text, heard(spoken, language=language), language),
                  group=f"g{n % groups}" if groups else "", language=language)
        for n, (text, spoken) in enumerate(pairs)
    ]  # fmt: skip


def test_a_system_silent_on_half_the_items_has_a_corpus_rate_of_a_half() -> None:
    wer, cer = summarise(lines([("one kettle boils", "one kettle boils"), ("two kettles boil", "")] * 5))
    assert (wer.figure, wer.value, wer.used, wer.skipped, wer.failed) == ("corpus_wer", 0.5, 10, 0, 0)
    assert (cer.figure, cer.ci95 is None) == ("corpus_cer", False)
    assert wer.ci95 is not None and wer.ci95[0] < 0.5 < wer.ci95[1]


def test_the_corpus_rate_is_of_all_words_and_the_interval_of_groups() -> None:
    found = lines([("a b c d e f g h", "a b c d e f g h"), ("x", "y z")] * 6, groups=3)
    wer = summarise(found)[0]
    assert wer.value == 12 / 54
    assert (wer.ci95, wer.no_ci95) == (None, "needs 10 dialogues or folders, has 3")
    apart = summarise(lines([("a b c d e f g h", "a b c d e f g h"), ("x", "y z")] * 6))[0]
    assert apart.ci95 == ratio_interval([(0, 8) if n % 2 == 0 else (2, 1) for n in _order(12)])


def _order(count: int) -> list[int]:
    return [int(name) for name in sorted(str(n) for n in range(count))]


def test_languages_stand_apart_and_what_is_left_out_is_counted() -> None:
    mixed = [*lines([("a b", "a c"), ("...", "d")]), *lines([("你好", "你坏"), ("再见", "再见")], "zh")]
    failed = ScoreLine("", "f", "asr_wer", "1", Score({"wer": Failed("no"), "cer": Failed("no")}), language="en")
    found = {(one.figure, one.language): one for one in summarise([*mixed, failed])}
    assert set(found) == {
        ("corpus_wer", ""), ("corpus_wer", "en"), ("corpus_cer", ""), ("corpus_cer", "en"), ("corpus_cer", "zh")
    }  # fmt: skip
    english = found["corpus_wer", "en"]
    assert (english.value, english.used, english.skipped, english.failed) == (0.5, 1, 1, 1)
    assert english.unavailable == {"the reply's own text has no words after the normaliser": 1}
    assert found["corpus_cer", "zh"].value == 1 / 4
    assert found["corpus_wer", ""].skipped == 3
