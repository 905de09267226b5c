"""First-content latency: what counts as a filler, and when the first word that is none is heard."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import numpy as np
import pytest

from harness.recognise.metric import METRIC as ASR
from harness.recognise.metric import make
from harness.recognise.scorer import Recogniser
from metrics.first_content.content import first_content
from metrics.first_content.fillers import LISTS
from metrics.first_content.metric import METRIC, derive, identify
from metrics.result import Failed, Unavailable, Value
from metrics.scoring import FloatPcm, Sample, Score
from metrics.transcript import WORDS, Transcript, Word
from sessions.audio import to_pcm16
from sessions.gate import first_audible_index
from tests.scoring.voices import RATE_HZ, join, piece, quiet, say

V2V_MS = 300.0


def words(text: str, by_characters: bool = False) -> list[Word]:
    """One word each 100 ms, the first at 1 s."""
    parts = list(text) if by_characters else text.split()
    return [Word(part, 1 + at / 10, 1.1 + at / 10) for at, part in enumerate(parts)]


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("The answer is 42.", "The"),
        ("Hmm, the answer is 42.", "the"),
        ("Hmmmmm... Ummm, Paris.", "Paris."),
        ("Let me see. The answer is 42.", "The"),
        ("Let me see the answer is 42", "the"),
        ("Hm, let me see. One moment please. It is nine.", "It"),
        ("Let me check that for you, it is nine.", "it"),
        ("Okay, so, well, it is nine.", "it"),
        ("So far three people came.", "So"),
        ("Right now it is nine.", "Right"),
        ("Right, it is nine.", "it"),
        ("Mm-hmm. Uh-huh. It is nine.", "It"),
        ("Just a moment, please. It is nine.", "It"),
        ("One moment in time.", "in"),
        ("Yes, it is.", "Yes,"),
        ("No.", "No."),
        ("That's a great question! Paris.", "Paris."),
        ("That’s a great question. Paris.", "Paris."),
        ("Um . Paris", "Paris"),
        ("M, O, R, G, A, N.", "M,"),
        ("Let me tell you about Paris.", "Let"),
        ("Give me a second opinion on it.", "Give"),
        ("Give me a second, it is nine.", "it"),
        ("Give me just a moment to look. It is nine.", "It"),
        ("I'll look into it today.", "I'll"),
        ("I'll check your order and call you back.", "I'll"),
        ("I'll check your order. It is on its way.", "It"),
        ("I'll check the answer is nine", "I'll"),
        ("I'll check that for you.", None),
        ("Uh-oh. Mm-hmm, it is nine.", "it"),
        ("Hmm.", None),
        ("Okay.", None),
        ("Let me see. Hmm, one moment please.", None),
        ("", None),
    ],
)
def test_first_word_that_is_no_filler(text: str, first: str | None) -> None:
    found = first_content(words(text), LISTS["en"], "en")
    assert (found and found.word) == first


@pytest.mark.parametrize(
    ("language", "text", "first"),
    [
        ("zh", "嗯，今天天气很好。", "今"),
        ("zh", "嗯让我想想，答案是四十二。", "答"),
        ("zh", "这个问题很难。", "这"),
        ("zh", "这个，答案是四。", "答"),
        ("zh", "好的，请稍等一下。今天是星期一。", "今"),
        ("zh", "好吃的菜很多。", "好"),
        ("zh", "請稍等，答案是四。", "答"),
        ("zh", "让我看看。嗯。", None),
        ("zh", "请稍等片刻，答案是四。", "答"),
        ("zh", "我来查一下，答案是四。", "答"),
        ("zh", "我看看电视。", "我"),
        ("zh", "我来查一下。", None),
        ("ja", "確認しました。", "確"),
        ("ja", "確認しますね。", None),
        ("ja", "えーっと、そうですね、今日は月曜日です。", "今"),
        ("ja", "あの映画は長い。", "あ"),
    ],
)
def test_without_spaces_characters_are_compared(language: str, text: str, first: str | None) -> None:
    found = first_content(words(text, by_characters=True), LISTS[language], language)
    assert (found and found.word) == first


@pytest.mark.parametrize(
    ("language", "text", "first"),
    [
        ("de", "Ähm, einen Moment bitte. Es ist neun Uhr.", "Es"),
        ("de", "Also wenn es regnet, bleibe ich.", "Also"),
        ("fr", "Euh, d'accord. Laissez-moi vérifier. Il est neuf heures.", "Il"),
        ("fr", "Bien sûr, il est neuf heures.", "il"),
        ("fr", "Laissez-moi vous parler de Paris.", "Laissez-moi"),
        ("de", "Ich schaue gern fern.", "Ich"),
        ("es", "Déjame decirte algo.", "Déjame"),
        ("es", "Mmm, déjame pensar. Son las nueve.", "Son"),
        ("it", "Allora, vediamo. Sono le nove.", "Sono"),
        ("pt", "Um momento, por favor. São nove horas.", "São"),
    ],
)
def test_other_languages(language: str, text: str, first: str) -> None:
    found = first_content(words(text), LISTS[language], language)
    assert found is not None
    assert found.word == first


@pytest.mark.parametrize(
    ("filler", "pause_s", "first"),
    [("So", 0.2, "it"), ("So", 0.19, "So"), ("Him?", 0.2, "it"), ("Him?", 0.1, "Him?"), ("Yes", 0.5, "Yes")],
)
def test_a_pause_parts_as_a_mark_does(filler: str, pause_s: float, first: str) -> None:
    spoken = [Word(filler, 1.0, 1.5), Word("it", 1.5 + pause_s, 1.9), Word("is", 1.9, 2.0)]
    found = first_content(spoken, LISTS["en"], "en")
    assert found is not None
    assert found.word == first


@pytest.mark.parametrize(
    ("doubt", "end_s", "pause_s", "first"),
    [
        (0.2, 1.3, 0.5, "It"),
        (0.4, 1.3, 0.5, "I'm"),
        (0.2, 1.7, 0.5, "I'm"),
        (0.2, 1.3, 0.1, "I'm"),
        (None, 1.3, 0.5, "I'm"),
    ],
)
def test_a_short_sound_that_nobody_understood(doubt: float | None, end_s: float, pause_s: float, first: str) -> None:
    heard = [Word("I'm", 1.0, 1.1, doubt), Word("sorry.", 1.1, end_s, doubt), Word("It", end_s + pause_s, 2.5, 0.1)]
    found = first_content(heard, LISTS["en"], "en")
    assert found is not None
    assert found.word == first


def test_a_filler_that_is_one_word_with_the_content() -> None:
    found = first_content([Word("嗯今天", 1.0, 1.6), Word("好", 1.6, 1.8)], LISTS["zh"], "zh")
    assert found is not None
    assert found.word == "嗯今天"
    assert found.start_s == pytest.approx(1.2)


@pytest.mark.parametrize("language", LISTS)
def test_every_entry_of_a_list_is_a_filler(language: str) -> None:
    fillers = LISTS[language]
    assert fillers.name == f"fillers-{language}/2"
    everything = (*fillers.sounds, *fillers.phrases, *fillers.marked, *fillers.openings, *fillers.promises)
    for text in everything:
        spoken = words(f"{text},", by_characters=language in ("zh", "ja"))
        assert first_content(spoken, fillers, language) is None, text
    assert len(everything) == len(set(everything))


def heard(text: str = "Hmm, it is nine.", **changes: object) -> Score:
    transcript = Transcript(text, "en", "en", "stand-in", "stand-in", words(text))
    kept = msgspec.to_builtins(transcript) | changes
    return Score({WORDS: Value(3.0)}, details=kept)


def sample(**changes: object) -> Sample:
    plain = Sample("a", "a.flac", language="en", rate_hz=24_000, heard=((0, 250_000_000),), voice_to_voice_ms=V2V_MS)
    return msgspec.structs.replace(plain, **changes)


def pieces(text: str) -> list[dict[str, object]]:
    """Words as a recogniser cuts them: at spaces and at bars."""
    return [msgspec.to_builtins(word) for word in words(text.replace("|", " "))]


def scored(of: Sample, asr: Score) -> Score:
    (score,) = derive([of], [{"asr": asr}], {})
    assert set(score.figures) == {figure.name for figure in METRIC.figures}
    return score


def why(score: Score) -> str:
    (because,) = {figure.because for figure in score.figures.values() if isinstance(figure, Unavailable)}
    return because


class TestOnTheDialoguesClock:
    def test_beside_voice_to_voice(self) -> None:
        score = scored(sample(), heard())
        assert score.figures == {"first_content_ms": Value(1350.0), "filler_ms": Value(1050.0)}
        assert score.flags == ["filler: Hmm,"]
        assert score.details["list"] == "fillers-en/2"

    def test_without_a_filler_it_is_the_first_word(self) -> None:
        score = scored(sample(), heard("It is nine."))
        assert score.figures["first_content_ms"] == Value(1250.0)
        assert score.flags == []

    def test_never_before_anything_is_audible(self) -> None:
        score = scored(sample(voice_to_voice_ms=1400.0), heard("It is nine."))
        assert score.figures == {"first_content_ms": Value(1400.0), "filler_ms": Value(0.0)}

    def test_the_same_onset_seen_at_two_rates_is_one(self) -> None:
        assert scored(sample(voice_to_voice_ms=1245.1), heard("It is nine.")).figures["filler_ms"] == Value(0.0)
        later = scored(sample(voice_to_voice_ms=1244.0), heard("It is nine.")).figures["filler_ms"]
        assert later == Value(6.0)

    def test_a_gap_in_play_out_comes_later(self) -> None:
        underrun = sample(heard=((0, 250_000_000), (24_000, 2_250_000_000)))
        assert scored(underrun, heard()).figures["first_content_ms"] == Value(2350.0)

    def test_talking_over_the_user_is_data(self) -> None:
        early = sample(heard=((0, -2_000_000_000),), voice_to_voice_ms=-1900.0)
        assert scored(early, heard()).figures == {"first_content_ms": Value(-900.0), "filler_ms": Value(1000.0)}

    def test_words_of_a_false_start_do_not_count(self) -> None:
        answer = sample(heard=((27_600, 250_000_000),))
        score = scored(answer, heard("Paris is nice. Berlin too."))
        assert score.details["word"] == "is"
        assert score.figures["first_content_ms"] == Value(V2V_MS)

    def test_without_voice_to_voice_there_is_no_difference(self) -> None:
        score = scored(sample(voice_to_voice_ms=None), heard())
        assert score.figures["first_content_ms"] == Value(1350.0)
        assert score.figures["filler_ms"] == Unavailable("voice-to-voice is not known")


@pytest.mark.parametrize(
    ("language", "text", "first", "fillers"),
    [
        ("fr", "D|'accord, la réponse est quatre.", "la", "D'accord,"),
        ("fr", "Un instant, s|'il vous plaît. La réponse est quatre.", "La", "Un instant, s'il vous plaît."),
        ("fr", "C|'est une bonne question. L|'eau est froide.", "L'eau", "C'est une bonne question."),
        ("fr", "Laissez|-moi vérifier ça, il est neuf heures.", "il", "Laissez-moi vérifier ça,"),
        ("it", "D|'accordo, la risposta è quattro.", "la", "D'accordo,"),
        ("pt", "Um|-hum. Deixe|-me ver, a resposta é quatro.", "a", "Um-hum. Deixe-me ver,"),
        ("en", "Mm|-hmm, the answer is four.", "the", "Mm-hmm,"),
    ],
)
def test_words_that_the_recogniser_cut_are_compared_whole(language: str, text: str, first: str, fillers: str) -> None:
    score = scored(sample(language=language), heard(text.replace("|", ""), words=pieces(text)))
    assert score.details["word"] == first
    assert score.details["fillers"] == fillers


def test_the_numbers_of_the_lists_are_part_of_its_identity() -> None:
    named = identify({})["fillers"].split(", ")
    assert named == [fillers.name for fillers in LISTS.values()]


class TestUnavailable:
    def test_a_file_of_no_dialogue(self) -> None:
        assert why(scored(sample(heard=()), heard())) == "nothing says when this sound was heard: it is of no dialogue"

    def test_a_turn_that_was_not_on_time(self) -> None:
        assert why(scored(sample(heard=(), untimed="the machine was late"), heard())) == "the machine was late"

    def test_the_whole_reply_is_filler(self) -> None:
        because = why(scored(sample(), heard("Hmm, let me see.")))
        assert because == "the whole reply is filler (fillers-en/2): 'Hmm, let me see.'"

    def test_cut_off_before_the_first_content(self) -> None:
        score = scored(sample(heard_samples=26_000), heard())
        assert why(score) == "the reply was cut off before its first word that is no filler, 'it'"
        assert score.details["fillers"] == "Hmm,"

    def test_cut_off_after_it(self) -> None:
        assert scored(sample(heard_samples=26_401), heard()).figures["first_content_ms"] == Value(1350.0)

    def test_silence(self) -> None:
        silent = Score({WORDS: Unavailable("no speech: nothing in it is above -45 dBFS (gate/1)")})
        assert why(scored(sample(), silent)).startswith("no speech")

    def test_a_failed_recogniser_is_an_error(self) -> None:
        score = scored(sample(), Score({WORDS: Failed("the service answered 500")}))
        assert set(score.figures.values()) == {Failed("the service answered 500")}

    def test_words_without_times(self) -> None:
        score = scored(sample(), heard(words=[{"text": "Hi."}]))
        assert why(score) == "the recogniser stand-in gives no word times"

    def test_nothing_understood(self) -> None:
        assert why(scored(sample(), heard(text="", words=[]))) == "the recogniser understood nothing"

    def test_a_language_without_a_list(self) -> None:
        because = why(scored(sample(language="fi"), heard()))
        assert because.startswith("there is no list of fillers for the language 'fi' (there are: en, zh, ")

    def test_no_word_in_what_answers(self) -> None:
        assert why(scored(sample(heard=((96_000, 0),)), heard())) == "no word was heard in what answers this turn"


def beep(ms: int) -> FloatPcm:
    t = np.arange(RATE_HZ * ms // 1000) / RATE_HZ
    return (0.2 * np.sin(2 * np.pi * 880 * t)).astype(np.float32)


@pytest.fixture(scope="module")
def asr() -> Recogniser:
    return make({option.name: option.default for option in ASR.options})


@pytest.mark.embedded
class TestSpoken:
    """A reply of fillers and an answer whose place is known, heard by Whisper."""

    @pytest.mark.parametrize(
        "before",
        [
            (),
            ("Hmm.", 500),
            ("Let me see.", 800),
            ("Okay, one moment please.", 400),
            ("Um, let me check that for you.", 1200),
        ],
        ids=lambda parts: str(parts[0]) if parts else "no filler",
    )
    def test_the_answer_is_found(self, asr: Recogniser, before: tuple[str, int]) -> None:
        filler = join(say(before[0]), quiet(before[1])) if before else quiet(0)
        self.check(asr, filler)

    def test_an_earcon_is_no_word(self, asr: Recogniser) -> None:
        self.check(asr, join(beep(300), quiet(600)))

    def check(self, asr: Recogniser, filler: FloatPcm) -> None:
        answer = say("The capital of France is Paris.")
        sound = join(filler, answer)
        (transcript,) = asr.score([piece(sound)])
        onset = first_audible_index(to_pcm16(sound), RATE_HZ)
        at = first_audible_index(to_pcm16(answer), RATE_HZ)
        assert onset is not None and at is not None
        reply = Sample(
            "a",
            "a.flac",
            language="en",
            rate_hz=RATE_HZ,
            heard=((0, 0),),
            voice_to_voice_ms=1000 * onset / RATE_HZ,
        )
        score = scored(reply, transcript)
        true_ms = 1000 * (len(filler) + at) / RATE_HZ
        first = score.figures["first_content_ms"]
        assert isinstance(first, Value)
        assert first.value == pytest.approx(true_ms, abs=120)
        found: Mapping[str, object] = score.details
        assert found["word"] == "The"
