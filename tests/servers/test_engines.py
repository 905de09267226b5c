"""Engines: the clause splitter and the level detector by rule, the model runtimes with their real weights."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import jiwer
import numpy as np
import pytest
import soxr
from hypothesis import given, settings
from hypothesis import strategies as st

from servers.engines.clauses import ClauseSplitter, plain
from servers.engines.energy import EnergyDetector
from servers.engines.hibari import RATE_HZ, HibariEngine
from servers.engines.llama import Finish, LlamaEngine, Message
from servers.engines.silero import SileroModel
from servers.engines.whisper import WhisperEngine
from servers.speech_model import Pcm, VoiceDetector
from sessions.errors import SetupError
from sessions.weights import folder

SENTENCE = "What is the capital of France, and how many people live there?"


# ---- clauses ---------------------------------------------------------------------------------------------------------


def clauses(*deltas: str) -> list[str]:
    splitter = ClauseSplitter()
    return [clause for delta in deltas for clause in splitter.feed(delta)] + splitter.flush()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("   \n ", []),
        ("Paris.", ["Paris."]),
        ("Yes! It is. Really?", ["Yes!", " It is.", " Really?"]),
        ("It costs 3.14 or 1,000 at 10:30, at example.org.", ["It costs 3.14 or 1,000 at 10:30,", " at example.org."]),
        ("Dr. Smith and J. K. Rowling left.", ["Dr. Smith and J. K. Rowling left."]),
        ("Eat fruit, e.g. apples. Fine.", ["Eat fruit, e.g. apples.", " Fine."]),
        ("So did I. You too.", ["So did I.", " You too."]),
        ("No. That is wrong.", ["No.", " That is wrong."]),
        ("Well, yes, a bowl of oats, with fruit on top of it, and more.",
         ["Well, yes, a bowl of oats,", " with fruit on top of it,", " and more."]),
        ("Wait... what? he said.", ["Wait... what? he said."]),
        ('He said "Stop!" Then he left.', ['He said "Stop!"', " Then he left."]),
        ("你好。北京是一个非常大的城市呢，人很多！", ["你好。", "北京是一个非常大的城市呢，", "人很多！"]),
        ("one two three four five—six", ["one two three four five—", "six"]),
        ("1. Eggs\n2. Bread", ["1. Eggs", " 2. Bread"]),
        ("...!?", ["...!?"]),
    ],
)  # fmt: skip
def test_where_a_text_is_cut(text: str, expected: list[str]) -> None:
    assert clauses(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("**Hello**, _you_!", "Hello, you!"),
        ("# Title\n\n- one\n* two\n> three", "Title one two three"),
        ("`code` and ```python\nx\n```", "code and x"),
        ("See [this page](http://a.example/b,c).", "See this page."),
        ("2 * 3 is 6", "2 times 3 is 6"),
        ("snake_case ~~gone~~ ~5", "snake_case gone ~5"),
        ("Sure 🙂 thing", "Sure thing"),
        ("A\n---\nB", "A B"),
        ("minus -5 and #5", "minus -5 and #5"),
    ],
)
def test_symbols_that_a_voice_would_read_are_left_out(text: str, expected: str) -> None:
    assert plain(text) == expected
    assert "".join(clauses(text)) == expected


def test_a_clause_is_there_as_soon_as_it_is_over() -> None:
    splitter = ClauseSplitter()
    assert splitter.feed("A quick breakfast could be oats,") == []  # "oats,000" is still possible
    assert splitter.feed(" w") == ["A quick breakfast could be oats,"]
    assert splitter.feed("ith fruit. ") == []  # "with fruit. or so" is still possible
    assert splitter.feed("I") == [" with fruit."]
    assert splitter.flush() == [" I"]


def test_a_text_without_marks_is_cut_between_words_and_without_words_anywhere() -> None:
    words = clauses("word " * 200)
    assert len(words) > 3
    assert max(map(len, words)) <= 240
    assert "".join(words) == ("word " * 200).strip()
    assert "".join(clauses("x" * 1000)) == "x" * 1000


WORDS = st.sampled_from(["a", "Paris", "Dr", "e.g", "3.14", "1,000", "I", "J", "snake_case", "你好"])
SYMBOLS = st.sampled_from(["**", "*", "#", "-", ">", "[x]", "](u)", "`", "🙂", "—", "---", "_"])
MARKS = st.sampled_from(["", ".", ",", "!", "?", "...", ":", ";", "。", "，", '."', "**.", "—", "_", "]", "](h"])
SPACES = st.sampled_from(["", " ", "  ", "\n", " \n\n"])
TEXTS = st.lists(st.tuples(WORDS | SYMBOLS, MARKS, SPACES), max_size=30).map(lambda parts: "".join(map("".join, parts)))


def test_a_rule_that_goes_on_with_a_word_is_part_of_it() -> None:
    text = "one two three four—--- five"
    assert "".join(clauses(text)) == plain(text)


@settings(max_examples=300)
@given(TEXTS, st.data())
def test_clauses_join_to_the_plain_text_however_it_arrived(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=10)))
    pieces = [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    whole = clauses(text)
    assert clauses(*pieces) == whole
    assert clauses(*text) == whole
    assert "".join(whole) == plain(text)
    assert all(clause.strip() for clause in whole)


# ---- voice detectors -------------------------------------------------------------------------------------------------


def tone(level_dbfs: float, samples: int) -> Pcm:
    """A square wave, whose standard deviation is its amplitude."""
    amplitude = round(32768 * 10 ** (level_dbfs / 20))
    return np.where(np.arange(samples) % 2, amplitude, -amplitude).astype(np.int16)


@pytest.mark.parametrize("rate_hz", [8000, 16_000, 24_000, 44_100, 48_000])
def test_the_level_detector_has_frames_of_10_ms_and_its_threshold_in_the_middle(rate_hz: int) -> None:
    detector = EnergyDetector(rate_hz)
    samples = detector.frame_samples
    assert samples == rate_hz // 100
    assert detector.probability(np.zeros(samples, np.int16)) < 1e-6
    assert detector.probability(np.full(samples, 20_000, np.int16)) < 1e-6  # an offset is not speech
    assert detector.probability(tone(-44, samples)) > 0.5 > detector.probability(tone(-46, samples))
    assert detector.probability(tone(-20, samples)) > 0.99
    with pytest.raises(ValueError, match="frame"):
        detector.probability(np.zeros(samples + 1, np.int16))


# ---- real models -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def voice() -> HibariEngine:
    return HibariEngine(folder("hibari"))


@pytest.fixture(scope="module")
def silero() -> SileroModel:
    return SileroModel(folder("silero-vad-v6"))


@pytest.fixture(scope="module")
def whisper() -> WhisperEngine:
    return WhisperEngine(folder("whisper-base"))


@pytest.fixture(scope="module")
def llama() -> LlamaEngine:
    engine = LlamaEngine(folder("qwen2.5-coder-0.5b-instruct-q4_k_m"), context_tokens=1024)
    engine.prefill("You are a helpful assistant.")
    return engine


def probabilities(detector: VoiceDetector, pcm: Pcm) -> list[float]:
    """Of each whole frame of `pcm`, at the detector's rate."""
    size = detector.frame_samples
    return [detector.probability(pcm[at : at + size]) for at in range(0, len(pcm) - size + 1, size)]


def noise(level_dbfs: float, samples: int) -> Pcm:
    wave = np.random.default_rng(4).standard_normal(samples) * 10 ** (level_dbfs / 20)
    return (np.clip(wave, -1, 1) * 32767).astype(np.int16)


def words(text: str) -> str:
    return " ".join("".join(c if c.isalnum() else " " for c in text.lower()).split())


@pytest.mark.embedded
def test_silero_hears_speech_and_nothing_else(voice: HibariEngine, silero: SileroModel) -> None:
    speech = soxr.resample(voice.speak(SENTENCE), RATE_HZ, 16_000)
    assert np.mean(np.array(probabilities(silero.detector(), speech)) > 0.5) > 0.8
    for quiet in (np.zeros(48_000, np.int16), noise(-60, 48_000), noise(-20, 48_000)):
        assert max(probabilities(silero.detector(), quiet)) < 0.5


@pytest.mark.embedded
def test_silero_keeps_one_state_per_detector(voice: HibariEngine, silero: SileroModel) -> None:
    speech = soxr.resample(voice.speak(SENTENCE), RATE_HZ, 16_000)
    alone = probabilities(silero.detector(), speech)
    one, other = silero.detector(), silero.detector()
    size = one.frame_samples
    together = []
    for at in range(0, len(speech) - size + 1, size):
        together.append(one.probability(speech[at : at + size]))
        other.probability(noise(-20, size))
    assert together == alone
    one.reset()
    assert probabilities(one, speech) == alone
    with pytest.raises(ValueError, match="512"):
        one.probability(speech[:100])


@pytest.mark.embedded
def test_hibari_says_the_same_twice_and_without_idle_silence(voice: HibariEngine) -> None:
    pcm = voice.speak(SENTENCE)
    assert np.array_equal(pcm, voice.speak(SENTENCE))
    assert 2.0 < len(pcm) / RATE_HZ < 6.0
    assert np.abs(pcm[: RATE_HZ // 10].astype(int)).max() > 300  # it begins to speak within 100 ms
    assert len(voice.speak("Yes,")) < len(voice.speak("Yes."))  # a clause pauses less than a sentence
    assert len(voice.speak("🙂")) == len(voice.speak("")) == len(voice.speak("你好。")) == 0


@pytest.mark.embedded
def test_whisper_understands_what_hibari_says(voice: HibariEngine, whisper: WhisperEngine) -> None:
    found = whisper.transcribe(voice.speak(SENTENCE), RATE_HZ)
    assert jiwer.wer(words(SENTENCE), words(found.text)) <= 0.1
    assert found.language == "en"
    assert found.log_probability is not None
    assert found.log_probability > -1.0


@pytest.mark.embedded
@pytest.mark.parametrize("level_dbfs", [-200, -60, -20])
def test_whisper_invents_nothing_where_nothing_was_said(whisper: WhisperEngine, level_dbfs: float) -> None:
    assert whisper.transcribe(noise(level_dbfs, 2 * RATE_HZ), RATE_HZ).text == ""
    assert whisper.transcribe(noise(level_dbfs, 100), RATE_HZ).text == ""
    assert whisper.transcribe(np.empty(0, np.int16), RATE_HZ).text == ""


@pytest.mark.embedded
def test_whisper_takes_calls_from_several_threads(voice: HibariEngine, whisper: WhisperEngine) -> None:
    asked = {"one": "How do I boil an egg?", "two": "My name is Anna."}
    found: dict[str, str] = {}

    def transcribe(name: str) -> None:
        found[name] = whisper.transcribe(voice.speak(asked[name]), RATE_HZ).text

    in_threads([lambda name=name: transcribe(name) for name in asked])  # type: ignore[misc]
    assert {name: words(text) for name, text in found.items()} == {name: words(text) for name, text in asked.items()}


def in_threads(jobs: list[Callable[[], None]]) -> None:
    threads = [threading.Thread(target=job) for job in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def ask(engine: LlamaEngine, question: str, max_tokens: int = 60) -> tuple[str, Finish]:
    said: list[str] = []
    messages = [Message(role="system", content="You are a helpful assistant."), Message(role="user", content=question)]
    finish = engine.stream(messages, max_tokens=max_tokens, on_text=said.append, should_stop=lambda: False)
    return "".join(said), finish


@pytest.mark.embedded
def test_llama_streams_and_repeats_itself(llama: LlamaEngine, capfd: pytest.CaptureFixture[str]) -> None:
    text, finish = ask(llama, "What is the capital of France?")
    assert "Paris" in text
    assert finish.reason == "stop"
    assert finish.cached_tokens > 5  # the system prompt was read at the start
    assert finish.output_tokens > 2
    assert ask(llama, "What is the capital of France?")[0] == text
    assert capfd.readouterr() == ("", "")  # the runtime keeps its log to itself


@pytest.mark.embedded
def test_llama_says_why_it_ended(llama: LlamaEngine) -> None:
    assert ask(llama, "Count from one to fifty.", max_tokens=5)[1].reason == "length"
    text, finish = ask(llama, "word " * 2000)
    assert (text, finish.reason) == ("", "too_long")
    assert finish.prompt_tokens > 1024


@pytest.mark.embedded
def test_llama_stops_at_the_next_token(llama: LlamaEngine) -> None:
    said: list[str] = []
    messages = [Message(role="user", content="Count from one to one hundred, in words.")]
    finish = llama.stream(messages, max_tokens=200, on_text=said.append, should_stop=lambda: len(said) >= 3)
    assert (finish.reason, len(said)) == ("cancelled", 3)


@pytest.mark.embedded
def test_llama_answers_two_at_once(llama: LlamaEngine) -> None:
    """Each waits for a token of the other before it goes on: one after the other, this would never end."""
    begun = {"one": threading.Event(), "two": threading.Event()}
    met: list[bool] = []

    def answer(name: str, other: str) -> None:
        def on_text(_: str) -> None:
            if not begun[name].is_set():
                begun[name].set()
                met.append(begun[other].wait(60))

        messages = [Message(role="user", content=f"Say the number {name}.")]
        llama.stream(messages, max_tokens=20, on_text=on_text, should_stop=lambda: False)

    in_threads([lambda: answer("one", "two"), lambda: answer("two", "one")])
    assert met == [True, True]


def test_a_folder_that_is_no_chat_model_is_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"0 \.gguf files"):
        LlamaEngine(tmp_path)
    (tmp_path / "x.gguf").write_bytes(b"GGUF" + bytes(100))
    with pytest.raises(SetupError, match="does not load"):
        LlamaEngine(tmp_path)
