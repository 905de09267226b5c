"""The metric `asr`: silence is settled before a recogniser is asked, and what looks wrong is flagged."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import jiwer
import msgspec
import numpy as np
import pytest

from harness.from_recording.segments import Stretch
from harness.recognise.backend import RATE_HZ, Heard
from harness.recognise.faster_whisper import FasterWhisper
from harness.recognise.languages import _NAMES, named, spoken
from harness.recognise.loops import loops
from harness.recognise.metric import METRIC, identify, make
from harness.recognise.scorer import Recogniser
from harness.recognise.speech import pieces, silence, stretches
from harness.recognise.word_times import in_sound
from metrics.result import Failed, Unavailable, Value
from metrics.scoring import FloatPcm, Score
from metrics.transcript import WORDS, Transcript, Word, primary, transcript_of
from sessions.audio import resample, to_float
from sessions.errors import MetricUnavailable, PeerError, SetupError
from sessions.scripts import load_script
from sessions.weights import folder
from tests.scoring.voices import join, noise, piece, quiet, say


def tone(ms: float, dbfs: float = -20.0) -> FloatPcm:
    t = np.arange(int(RATE_HZ * ms / 1000)) / RATE_HZ
    return (np.sin(2 * np.pi * 300 * t) * 2**0.5 * 10 ** (dbfs / 20)).astype(np.float32)


@dataclass
class StandIn:
    """A recogniser that says what it was told to, and remembers what it was asked."""

    answers: Iterator[Heard | Exception]
    longest_s: float | None = 28.0
    at_once: int = 1
    model: str = "stand-in"
    asked: list[tuple[float, str]] = field(default_factory=list)

    def hear(self, samples: FloatPcm, language: str) -> Heard:
        self.asked.append((len(samples) / RATE_HZ, language))
        answer = next(self.answers)
        if isinstance(answer, Exception):
            raise answer
        return answer


def recogniser(*answers: Heard | Exception, speech: str = "energy-1", language: str = "") -> tuple[Recogniser, StandIn]:
    backend = StandIn(iter(answers))
    return Recogniser(backend, "stand-in", speech, language=language), backend


def the_one(scores: object) -> Score:
    assert isinstance(scores, list)
    (one,) = scores
    assert isinstance(one, Score)
    return one


class TestSilence:
    @pytest.mark.parametrize("samples", [quiet(2000), noise(2000, -60.0), quiet(2000) + np.float32(0.1)])
    def test_what_no_listener_hears_is_never_decoded(self, samples: FloatPcm) -> None:
        asr, backend = recogniser()
        score = the_one(asr.score([piece(samples)]))
        assert backend.asked == []
        found = transcript_of(score)
        assert isinstance(found, Unavailable)
        assert found.because == "no speech: nothing in it is above -45 dBFS (gate/1)"
        kept = msgspec.convert(score.details, Transcript)
        assert (kept.text, kept.words, kept.asked_language) == ("", [], "en")

    def test_a_sound_too_short_for_a_word(self) -> None:
        asr, _ = recogniser()
        found = transcript_of(the_one(asr.score([piece(tone(99))])))
        assert found == Unavailable("no speech: the sound lasts 99 ms, less than 100 ms")

    def test_integers_taken_for_floats_are_never_decoded(self) -> None:
        asr, backend = recogniser()
        found = transcript_of(the_one(asr.score([piece(32767 * tone(1000))])))
        assert isinstance(found, Unavailable) and found.because.startswith("wrong scale: the peak is 4633")
        assert backend.asked == []

    @pytest.mark.embedded
    @pytest.mark.parametrize("samples", [noise(2000, -30.0), tone(2000)])
    def test_what_is_no_voice_is_not_decoded(self, samples: FloatPcm) -> None:
        asr, backend = recogniser(speech="silero")
        found = transcript_of(the_one(asr.score([piece(samples)])))
        assert found == Unavailable("no speech: it is audible, but no voice is in it (silero)")
        assert backend.asked == []

    def test_without_the_question_everything_is_decoded(self) -> None:
        backend = StandIn(iter([Heard("you")]))
        asr = Recogniser(backend, "stand-in", "silero", gate=False)
        assert the_one(asr.score([piece(quiet(2000))])).figures == {WORDS: Value(1.0)}
        assert backend.asked == [(2.0, "en")]

    def test_an_hour_is_looked_through_in_blocks(self) -> None:
        assert silence(join(quiet(65_000), tone(200))) == ""


class TestFlags:
    def test_what_came_before_flags_nothing(self) -> None:
        """Which sounds come one after the other is chance: batches, workers, and what was scored already."""
        asr, _ = recogniser(Heard("yes"), Heard("yes"))
        assert [score.flags for score in asr.score([piece(tone(500)), piece(tone(600))])] == [[], []]

    def test_a_loop_is_flagged(self) -> None:
        asr, _ = recogniser(Heard("and then the the the the the end"))
        assert the_one(asr.score([piece(tone(500))])).flags == ["loop: 'the' 5 times in a row"]

    def test_the_language_is_the_samples_and_both_are_kept(self) -> None:
        asr, backend = recogniser(Heard("今天", language="la"), Heard("今天", language="zh"))
        latin, right = asr.score([piece(tone(800), "zh-Hans"), piece(tone(900), "cmn")])
        assert [language for _, language in backend.asked] == ["zh", "zh"]
        assert latin.flags[0] == "sounds like la: transcribed as zh"
        kept = msgspec.convert(latin.details, Transcript)
        assert (kept.language, kept.asked_language) == ("la", "zh")
        assert "sounds like" not in " ".join(right.flags)

    def test_a_language_that_nobody_said_is_found_out_or_given(self) -> None:
        asr, backend = recogniser(Heard("oui", language="fr"))
        kept = msgspec.convert(the_one(asr.score([piece(tone(500), "")])).details, Transcript)
        assert (kept.language, kept.asked_language, backend.asked[0][1]) == ("fr", "", "")
        asr, backend = recogniser(Heard("oui", language="fr"), language="fr")
        asr.score([piece(tone(500), "")])
        assert backend.asked[0][1] == "fr"

    def test_a_language_with_two_tags_is_one(self) -> None:
        asr, backend = recogniser(Heard("god dag", language="no"))
        score = the_one(asr.score([piece(tone(500), "nb-NO")]))
        assert score.flags == []
        assert backend.asked[0][1] == msgspec.convert(score.details, Transcript).asked_language == "no"

    def test_nothing_understood_is_a_transcript(self) -> None:
        asr, _ = recogniser(Heard(""))
        score = the_one(asr.score([piece(tone(500))]))
        assert score.flags == ["nothing understood"]
        assert isinstance(transcript_of(score), Transcript)


class TestAnswers:
    def test_a_failure_is_an_error_and_the_rest_go_on(self) -> None:
        asr, _ = recogniser(PeerError("the service answered 500"), Heard("yes"), MetricUnavailable("no such language"))
        failed, fine, not_here = asr.score([piece(tone(500))] * 3)
        assert transcript_of(failed) == Failed("the service answered 500")
        assert isinstance(transcript_of(fine), Transcript)
        assert transcript_of(not_here) == Unavailable("no such language")

    def test_what_the_user_can_mend_stops_everything(self) -> None:
        asr, _ = recogniser(SetupError("the key was refused"))
        with pytest.raises(SetupError, match="refused"):
            asr.score([piece(tone(500))])

    def test_a_long_sound_comes_in_pieces_and_is_put_together(self) -> None:
        long = join(*([tone(9000), quiet(500)] * 3))
        words = (Word("oh", 0.3, 0.8),)
        asr, backend = recogniser(Heard("one two", "en", words), Heard("three", "en", words))
        kept = msgspec.convert(the_one(asr.score([piece(long, "")])).details, Transcript)
        assert kept.text == "one two three"
        assert all(seconds <= 28.0 for seconds, _ in backend.asked)
        assert [language for _, language in backend.asked] == ["", "en"]
        assert len(kept.words) == 2
        first, second = kept.words
        assert first.start_s == pytest.approx(0.3, abs=0.01)
        assert second.start_s is not None and second.start_s > 18.0

    def test_words_of_one_piece_are_not_those_of_all(self) -> None:
        long = join(*([tone(9000), quiet(500)] * 3))
        asr, _ = recogniser(Heard("One, two …", "en"), Heard("three", "en", (Word("three", 0.3, 0.8),)))
        score = the_one(asr.score([piece(long)]))
        kept = msgspec.convert(score.details, Transcript)
        assert [word.text for word in kept.words] == ["One,", "two", "three"]
        assert [word.start_s is not None for word in kept.words] == [False, False, True]
        assert (kept.timed, score.figures) == (False, {WORDS: Value(3.0)})

    def test_a_piece_without_a_word_needs_no_times(self) -> None:
        long = join(*([tone(9000), quiet(500)] * 3))
        asr, _ = recogniser(Heard("…", "en"), Heard("three", "en", (Word("three", 0.3, 0.8),)))
        kept = msgspec.convert(the_one(asr.score([piece(long)])).details, Transcript)
        assert (kept.text, kept.timed) == ("… three", True)

    def test_the_longest_piece_says_which_language_it_is(self) -> None:
        asr, backend = recogniser(Heard("salut à tous", "fr"), Heard("hm", "cy"))
        sound = join(tone(300), quiet(500), tone(1500))
        kept = msgspec.convert(the_one(asr.score([piece(sound, "")])).details, Transcript)
        assert (kept.text, kept.language) == ("hm salut à tous", "fr")
        assert [language for _, language in backend.asked] == ["", "fr"]

    def test_pieces_of_chinese_join_without_a_space(self) -> None:
        asr, _ = recogniser(Heard("今天天气"), Heard("很好"))
        long = join(tone(20_000), quiet(500), tone(20_000))
        assert msgspec.convert(the_one(asr.score([piece(long, "zh")])).details, Transcript).text == "今天天气很好"


@pytest.mark.parametrize(
    ("tag", "language"), [("en", "en"), ("zh-Hans-CN", "zh"), ("cmn", "zh"), ("EN_us", "en"), ("", ""), ("yue", "yue")]
)
def test_primary_language(tag: str, language: str) -> None:
    assert primary(tag) == language


@pytest.mark.parametrize(
    ("tag", "language"), [("nb-NO", "no"), ("fil", "tl"), ("jv", "jw"), ("nn", "nn"), ("zh-Hans", "zh"), ("", "")]
)
def test_what_whisper_calls_a_language(tag: str, language: str) -> None:
    assert spoken(tag) == language


@pytest.mark.parametrize(
    ("said", "language"),
    [
        ("Swedish", "sv"), ("english", "en"), ("Haitian Creole", "ht"), ("mandarin", "zh"), ("en-US", "en"),
        ("nb", "no"), ("haw", "haw"), ("ga", "ga"), ("unknown", ""), ("", ""),
    ],
)  # fmt: skip
def test_what_a_service_calls_a_language(said: str, language: str) -> None:
    assert named(said) == language


@pytest.mark.embedded
def test_every_language_of_whisper_has_a_name() -> None:
    tokenizer = pytest.importorskip("faster_whisper.tokenizer")
    assert set(_NAMES) == set(tokenizer._LANGUAGE_CODES)


def test_a_second_look_at_chinese_is_joined_without_a_space(monkeypatch: pytest.MonkeyPatch) -> None:
    windows = iter([(Heard("今天天气", "zh"), 2.0), (Heard("很好", "zh"), 4.0)] * 2)
    monkeypatch.setattr(FasterWhisper, "_window", lambda *_: next(windows))
    whisper = FasterWhisper.__new__(FasterWhisper)
    assert whisper.hear(tone(4000), "zh").text == whisper.hear(tone(4000), "").text == "今天天气很好"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("yes yes yes yes", []),
        ("no no no no no", ["'no' 5 times in a row"]),
        ("you know " * 6, ["'you know' 6 times in a row"]),
        ("好好好好好的", ["'好' 5 times in a row"]),
        ("Ha! ha, HA ha ha. Then one more", ["'ha' 5 times in a row"]),
        ("a b c d e a b c d e", []),
        ("", []),
    ],
)
def test_loops(text: str, found: list[str]) -> None:
    assert loops(text) == found


class TestPieces:
    def test_pauses_of_more_than_two_seconds_are_left_out(self) -> None:
        samples = join(tone(1000), quiet(2500), tone(1000))
        found = pieces(samples, stretches(samples, "energy-1"), 28.0)
        assert [(one.first / RATE_HZ, one.stop / RATE_HZ) for one in found] == [
            (0.0, pytest.approx(1.2, abs=0.02)),
            (pytest.approx(3.3, abs=0.02), 4.5),
        ]

    def test_a_sound_without_a_pause_is_cut_at_its_quietest(self) -> None:
        samples = tone(40_000)
        samples[25 * RATE_HZ : 25 * RATE_HZ + RATE_HZ // 5] *= np.float32(0.3)
        first, second = pieces(samples, [Stretch(0, len(samples))], 28.0)
        assert first.stop == second.first == pytest.approx(25.1 * RATE_HZ, abs=2)
        assert (first.first, second.stop) == (0, len(samples))

    def test_a_short_sound_at_the_beginning_is_heard_by_itself(self) -> None:
        samples = join(tone(300), quiet(400), tone(1000), quiet(400), tone(300))
        found = pieces(samples, stretches(samples, "energy-1"), 28.0)
        assert [one.first / RATE_HZ for one in found] == [0.0, pytest.approx(0.5, abs=0.02)]
        samples = join(tone(700), quiet(400), tone(1000))
        assert len(pieces(samples, stretches(samples, "energy-1"), 28.0)) == 1

    def test_none_is_longer_than_asked_for_and_all_speech_is_in_one(self) -> None:
        dice = np.random.RandomState(3)
        samples = join(*(join(tone(ms), quiet(ms / 3)) for ms in dice.randint(100, 9000, 30)))
        speech = stretches(samples, "energy-1")
        found = pieces(samples, speech, 10.0)
        assert all(one.stop - one.first <= 10 * RATE_HZ for one in found)
        assert all(a.stop <= b.first for a, b in itertools.pairwise(found))
        inside = np.zeros(len(samples), bool)
        for one in found:
            inside[one.first : one.stop] = True
        assert all(inside[one.first : one.stop].all() for one in speech)


def times(word: Word) -> list[float]:
    assert word.start_s is not None and word.end_s is not None
    return [word.start_s, word.end_s]


class TestWordTimes:
    sound = join(quiet(500), tone(300), quiet(400), tone(300), quiet(500))

    def test_a_word_that_runs_into_silence_is_narrowed(self) -> None:
        (word,) = in_sound([Word("a", 0.1, 0.9, 0.5)], self.sound)
        assert times(word) == pytest.approx([0.5, 0.8], abs=0.006)
        assert word.probability == 0.5

    def test_a_word_across_a_pause_lies_where_most_of_it_sounds(self) -> None:
        (word,) = in_sound([Word("a", 0.75, 1.4)], self.sound, after_s=10.0)
        assert times(word) == pytest.approx([11.2, 11.4], abs=0.006)

    def test_a_word_in_silence_or_without_times_keeps_what_it_has(self) -> None:
        assert in_sound([Word("a", 0.85, 1.1), Word("b")], self.sound) == (Word("a", 0.85, 1.1), Word("b"))


def plain(text: str) -> str:
    return " ".join("".join(c if c.isalnum() else " " for c in text.lower()).split())


def asked(**options: str) -> dict[str, str]:
    return {option.name: option.default for option in METRIC.options} | options


@pytest.fixture(scope="module")
def real() -> Recogniser:
    return make(asked())


@pytest.mark.embedded
class TestRealWhisper:
    def test_the_built_in_question(self, real: Recogniser) -> None:
        assert real.check() == ""

    def test_what_was_said_and_when(self, real: Recogniser) -> None:
        sound = join(quiet(700), say("Let me see."), quiet(900), say("The answer is Paris."))
        found = transcript_of(the_one(real.score([piece(sound)])))
        assert isinstance(found, Transcript)
        assert found.text == "Let me see. The answer is Paris."
        assert (found.language, found.asked_language, found.model) == ("en", "en", "whisper-base")
        assert found.timed
        starts = {word.text: word.start_s for word in found.words}
        answer = (len(sound) - len(say("The answer is Paris."))) / RATE_HZ
        assert starts["Let"] == pytest.approx(0.72, abs=0.1)
        assert starts["The"] == pytest.approx(answer, abs=0.1)

    def test_one_short_word(self, real: Recogniser) -> None:
        found = transcript_of(the_one(real.score([piece(say("Yes.")[: RATE_HZ * 3 // 10])])))
        assert isinstance(found, Transcript)
        assert found.text.strip(".").lower() == "yes"

    def test_more_than_thirty_seconds(self, real: Recogniser) -> None:
        turn = load_script("long-utterance").turns[0]
        sound = to_float(resample(turn.clip.pcm, turn.clip.rate_hz, RATE_HZ))
        assert len(sound) > 60 * RATE_HZ
        found = transcript_of(the_one(real.score([piece(sound)])))
        assert isinstance(found, Transcript)
        assert jiwer.wer(plain(turn.text), plain(found.text)) < 0.03
        starts = [word.start_s or 0.0 for word in found.words]
        assert starts == sorted(starts)
        assert found.words[-1].end_s == pytest.approx(turn.speech_end.index_samples / turn.clip.rate_hz, abs=0.3)

    def test_a_sentence_said_again_is_heard_again(self, real: Recogniser) -> None:
        sound = join(*[say("Paris is the capital of France, and it has about two million people.")] * 5)
        found = transcript_of(the_one(real.score([piece(sound)])))
        assert isinstance(found, Transcript)
        assert found.text.count("Paris") == 5

    def test_the_same_sound_gives_the_same_transcript(self, real: Recogniser) -> None:
        sound = piece(say("There are seven days in a week."))
        assert real.score([sound])[0].details == real.score([sound])[0].details

    @pytest.mark.parametrize("language", ["tlh", "yue", "transcribe"])
    def test_a_language_that_this_whisper_does_not_know(self, real: Recogniser, language: str) -> None:
        found = transcript_of(the_one(real.score([piece(say("Hello there."), language)])))
        assert found == Unavailable(f"the recogniser whisper-base hears not {language!r}; the sample is {language!r}")

    @pytest.mark.parametrize("language", ["nb", "fil"])
    def test_a_language_that_whisper_calls_otherwise(self, real: Recogniser, language: str) -> None:
        found = transcript_of(the_one(real.score([piece(say("Hello there."), language)])))
        assert isinstance(found, Transcript)
        assert found.asked_language == {"nb": "no", "fil": "tl"}[language]

    def test_weights_that_are_cut_short_are_told_in_one_line(self, tmp_path: Path) -> None:
        for file in folder("whisper-base").iterdir():
            (tmp_path / file.name).write_bytes(file.read_bytes() if file.name != "model.bin" else b"\6\0\0\0cut")
        with pytest.raises(SetupError, match=r"weights in .* cannot be loaded \(File model\.bin is incomplete") as told:
            make(asked(asr=f"faster-whisper:{tmp_path}"))
        assert "\n" not in str(told.value)

    def test_what_transcripts_depend_on_is_named(self) -> None:
        identity = identify(asked())
        assert identity["backend"] == "faster-whisper"
        assert identity["weights"].startswith("d01c3014")
        assert identity["decoding"].startswith("greedy-1: beam 1, temperature 0")
        assert identity["prompt zh"]
        assert {"ctranslate2", "faster-whisper", "compute", "voice_detector", "word_times"} <= set(identity)


@pytest.mark.parametrize(
    ("asr", "message"),
    [
        ("faster-wisper", "unknown recogniser 'faster-wisper'. Did you mean 'faster-whisper'"),
        ("faster-whisper:whisper-huge", "no model 'whisper-huge'. Known: whisper-base, whisper-tiny.en"),
    ],
)
def test_a_recogniser_that_is_not_there(asr: str, message: str) -> None:
    with pytest.raises(SetupError, match=message):
        identify(asked(asr=asr))
