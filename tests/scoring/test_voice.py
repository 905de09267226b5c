"""Whose voice it is: the encoder beside the published package's numbers, dialogues that keep or change their voice."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from harness.score.table import metric
from metrics.result import Measured, Unavailable, Value
from metrics.scoring import FloatPcm, Piece, Sample, Score
from metrics.voice.calibration import line_for
from metrics.voice.embedding import METRIC as EMBEDDING
from metrics.voice.embedding import WEIGHTS, EmbeddingScorer, make
from metrics.voice.identity import METRIC as VOICE
from metrics.voice.identity import derive
from metrics.voice.speech import raised_by, speech_of, window_starts
from sessions.audio import resample, to_float, write_flac
from sessions.weights import folder
from tests.scoring import engine_rig

LIBRARY = Path(__file__).parents[2] / "sessions/library"
GOLDEN = Path(__file__).parents[1] / "data/scoring/voice/resemblyzer.json"
RATE_HZ = 16_000


def clip(name: str) -> FloatPcm:
    samples, rate_hz = soundfile.read(LIBRARY / f"{name}.flac", dtype="float32")
    return resample(samples, rate_hz, RATE_HZ)


def value(measured: Measured) -> float:
    assert isinstance(measured, Value), measured
    return measured.value


def why_not(measured: Measured) -> str:
    assert isinstance(measured, Unavailable), measured
    return measured.because


@pytest.fixture(scope="module")
def scorer() -> EmbeddingScorer:
    loaded = make({})
    assert isinstance(loaded, EmbeddingScorer)
    return loaded


def test_both_metrics_are_in_the_table() -> None:
    assert metric("voice_embedding") is EMBEDDING
    assert metric("voice") is VOICE
    assert EMBEDDING.hidden and not VOICE.hidden


# Likenesses, from embeddings that are made for the purpose.


def embedding(*, of: float) -> NDArray[np.float64]:
    """A unit vector at that angle, in degrees, to all others made so."""
    return np.array([np.cos(np.radians(of)), np.sin(np.radians(of)), 0.0])


def dialogue(*turns: Score, group: str = "d") -> Sequence[Score]:
    samples = [Sample(f"{group}/{place}", "", group=group, order=place) for place in range(len(turns))]
    return derive(samples, [{"voice_embedding": turn} for turn in turns], {})


def turn(degrees: float, **details: Any) -> Score:
    return Score({"voiced": Value(2.0)}, [], {"embedding": embedding(of=degrees).tolist(), **details})


def test_likeness_to_the_first_and_to_the_others() -> None:
    first, second, third = dialogue(turn(0), turn(10), turn(20))
    assert why_not(first.figures["to_first"]) == "it is the turn that the others are compared with"
    assert value(second.figures["to_first"]) == pytest.approx(np.cos(np.radians(10)))
    assert value(third.figures["to_first"]) == pytest.approx(np.cos(np.radians(20)))
    assert value(first.figures["to_others"]) == pytest.approx(np.cos(np.radians(15)))
    assert value(second.figures["to_others"]) == pytest.approx(1.0)


def test_drift_is_told_once_per_dialogue() -> None:
    scores = dialogue(turn(0), turn(10), turn(20), turn(30))
    slopes = np.polyfit([1, 2, 3], np.cos(np.radians([10, 20, 30])), 1)
    assert value(scores[3].figures["drift"]) == pytest.approx(slopes[0])
    assert {why_not(score.figures["drift"]) for score in scores[:3]} == {"told once, at the last turn of the dialogue"}
    assert why_not(dialogue(turn(0), turn(1), turn(2))[2].figures["drift"]) == "fewer than four turns with a voice"


def test_drift_is_per_turn_of_the_dialogue_whether_all_turns_have_a_voice_or_not() -> None:
    samples = [Sample(f"d/{order}", "", group="d", order=order) for order in (0, 3, 4, 9)]
    turns = [turn(float(np.degrees(np.arccos(1 - 0.02 * sample.order)))) for sample in samples]
    scores = derive(samples, [{"voice_embedding": score} for score in turns], {})
    assert value(scores[-1].figures["drift"]) == pytest.approx(-0.02)


def test_a_wrong_voice_is_flagged_with_the_error_of_the_flag() -> None:
    scores = dialogue(turn(0), turn(5), turn(80), turn(2))
    assert [value(score.figures["wrong_voice"]) for score in scores] == [0, 0, 100, 0]
    assert scores[2].flags[0].startswith("wrong-voice: 0.21 to the other turns, below ")
    assert "% are not" in scores[2].flags[0]
    assert scores[0].flags == []


def test_the_line_is_higher_where_there_is_more_to_compare_with() -> None:
    assert [line_for(turns, 1.0).below for turns in (1, 2, 3, 4, 40)] == [0.70, 0.75, 0.75, 0.80, 0.80]
    assert [line_for(turns, 2.2).below for turns in (1, 2, 3, 4, 40)] == [0.75, 0.80, 0.80, 0.80, 0.80]
    # 0.73 to one other turn of 2 s is the same voice, to two others it is not.
    assert [value(score.figures["wrong_voice"]) for score in dialogue(turn(0), turn(43))] == [0, 0]
    assert [value(score.figures["wrong_voice"]) for score in dialogue(turn(0), turn(43), turn(0))] == [0, 100, 0]


def test_the_reference_decides_where_there_is_one() -> None:
    scores = dialogue(*(turn(degrees, reference=embedding(of=90).tolist()) for degrees in (0, 2, 88)))
    assert value(scores[2].figures["to_reference"]) == pytest.approx(np.cos(np.radians(2)))
    assert [value(score.figures["wrong_voice"]) for score in scores] == [100, 100, 0]
    assert "to the reference" in scores[0].flags[0]


def test_a_reply_that_stands_alone() -> None:
    (score,) = dialogue(turn(0), group="")
    assert why_not(score.figures["to_first"]) == "belongs to no dialogue"
    assert why_not(score.figures["to_reference"]) == "no reference voice is named"
    assert why_not(score.figures["wrong_voice"]) == "neither a reference nor other turns to compare with"
    (score,) = dialogue(turn(0, no_reference="cannot use a.wav: there is no such file"), group="")
    assert why_not(score.figures["to_reference"]) == "cannot use a.wav: there is no such file"


# What of a sound is embedded.


def test_long_pauses_are_cut_out_and_short_ones_kept() -> None:
    speech = clip("facts/turn-1")
    own = speech_of(speech)
    gap = np.zeros(RATE_HZ, dtype=np.float32)
    # The gate's blocks fall differently behind the pause: a block at either end.
    assert len(speech_of(np.concatenate((own, gap, own)))) == pytest.approx(2 * len(own), abs=4 * 80)
    assert len(speech_of(gap)) == 0


def test_a_quiet_sound_is_raised_and_noise_below_the_gate_is_not_speech() -> None:
    speech = clip("facts/turn-1") * np.float32(0.1)
    rms = np.sqrt(np.mean((speech * raised_by(speech)) ** 2))
    assert 20 * np.log10(rms) == pytest.approx(-30, abs=0.01)
    assert raised_by(speech * 100) == 1
    noise = np.random.default_rng(0).standard_normal(2 * RATE_HZ).astype(np.float32) * np.float32(0.001)
    assert len(speech_of(noise)) == 0


def test_windows_cover_the_sound() -> None:
    assert window_starts(1) == [0]
    assert window_starts(25_600) == [0]
    assert window_starts(160 * 160 + 77 * 160) == [0, 77]
    assert window_starts(160 * 160 + 77 * 160 - 6500) == [0]


# The encoder itself.


@pytest.mark.embedded
def test_embeddings_are_those_of_the_published_package(scorer: EmbeddingScorer) -> None:
    golden = json.loads(GOLDEN.read_text())["clips"]
    sounds = [clip(name) for name in golden]
    got = scorer._encoder.embed([sound * raised_by(sound) for sound in sounds])
    for sound, embedded, expected in zip(sounds, got, golden.values(), strict=True):
        assert len(sound) == expected["samples"]
        assert len(window_starts(len(sound))) == expected["windows"]
        np.testing.assert_allclose(embedded, expected["embedding"], atol=1e-4)


@pytest.mark.embedded
def test_a_batch_gives_what_singles_give(scorer: EmbeddingScorer) -> None:
    pieces = [Piece(Sample(name, ""), clip(name), RATE_HZ) for name in ("facts/turn-1", "read-back/number")]
    together = scorer.score(pieces)
    for piece, score in zip(pieces, together, strict=True):
        (alone,) = scorer.score([piece])
        np.testing.assert_allclose(alone.details["embedding"], score.details["embedding"], atol=1e-5)
        assert np.linalg.norm(score.details["embedding"]) == pytest.approx(1, abs=1e-4)


@pytest.mark.embedded
@pytest.mark.parametrize(
    ("samples", "because"),
    [
        (np.zeros(1), "silence: nothing is above the gate (gate/1)"),
        (np.zeros(RATE_HZ), "silence: nothing is above the gate (gate/1)"),
        (0.1 * np.sin(np.arange(1600) / 5), "less than 1 s of speech"),
        (3277 * np.cos(np.arange(2 * RATE_HZ) / 5), "wrong scale: the peak is 3277, full scale is 1"),
    ],
    ids=["1 sample", "silence", "0.1 s", "integers"],
)
def test_too_little_has_no_voice(samples: NDArray[np.float64], because: str, scorer: EmbeddingScorer) -> None:
    (score,) = scorer.score([Piece(Sample("a", ""), samples.astype(np.float32), RATE_HZ)])
    assert why_not(score.figures["voiced"]) == because
    assert score.details == {}


@pytest.mark.embedded
def test_another_voice_in_a_dialogue_is_found(scorer: EmbeddingScorer, tmp_path: Path) -> None:
    """A man's voice (Kokoro's Michael, in the shipped scripts), and one turn by the assistant's (hibari, a woman's)."""
    from servers.engines.hibari import HibariEngine

    other = HibariEngine(folder("hibari")).speak("I can help you with that, just tell me where you want to go.")
    write_flac(tmp_path / "her.flac", other, 24_000)
    hers = resample(to_float(other), 24_000, RATE_HZ)
    turns = [clip(f"long-reply/turn-{number}") for number in (1, 2, 3)] + [clip("small-talk/turn-3")]
    turns.insert(2, hers)
    samples = [
        Sample(f"d/{order}", "", group="d", order=order, reference_audio="" if order else str(tmp_path / "her.flac"))
        for order in range(len(turns))
    ]
    pieces = [Piece(sample, sound, RATE_HZ) for sample, sound in zip(samples, turns, strict=True)]
    scores = derive(samples, [{"voice_embedding": score} for score in scorer.score(pieces)], {})
    assert [value(score.figures["wrong_voice"]) for score in scores] == [100, 0, 100, 0, 0]
    assert value(scores[0].figures["to_reference"]) < 0.65
    assert value(scores[2].figures["to_others"]) < 0.65
    assert value(scores[0].figures["to_others"]) > line_for(4, 3).below
    assert isinstance(scores[4].figures["drift"], Value)


@pytest.mark.embedded
def test_a_reference_that_cannot_be_read_is_told(scorer: EmbeddingScorer, tmp_path: Path) -> None:
    sound = clip("facts/turn-1")
    absent = Sample("a", "", reference_audio=str(tmp_path / "none.wav"))
    write_flac(tmp_path / "short.flac", np.zeros(2400, dtype=np.int16), 24_000)
    short = Sample("b", "", reference_audio=str(tmp_path / "short.flac"))
    integers = Sample("c", "", reference_audio=str(tmp_path / "integers.wav"))
    soundfile.write(tmp_path / "integers.wav", sound * 32768, RATE_HZ, subtype="FLOAT")
    scores = scorer.score([Piece(sample, sound, RATE_HZ) for sample in (absent, short, integers)])
    assert "there is no such file" in scores[0].details["no_reference"]
    assert scores[1].details["no_reference"].startswith("less than 1 s of speech in ")
    assert "integers.wav: wrong scale: the peak is " in scores[2].details["no_reference"]


@pytest.mark.embedded
def test_through_the_engine_a_turn_without_a_voice_takes_no_part_but_counts(tmp_path: Path) -> None:
    names = ["", "long-reply/turn-1", "long-reply/turn-2", "", "small-talk/turn-3", "facts/turn-1"]
    samples = []
    for order, name in enumerate(names):
        path = tmp_path / f"{order}.wav"
        soundfile.write(path, clip(name) if name else np.zeros(RATE_HZ, np.float32), RATE_HZ, subtype="FLOAT")
        samples.append(Sample(str(order), str(path), group="d", order=order))
    samples[3] = Sample("3", "", group="d", order=3, unavailable="the turn failed: timeout")
    samples += [Sample(f"e{k}", samples[place].audio, group="e", order=k) for k, place in enumerate((0, 1, 2, 4, 5))]
    both = {"voice": VOICE, "voice_embedding": EMBEDDING}
    engine_rig.score(samples, ["voice"], tmp_path / "scores", metrics=both)
    to_first = engine_rig.figures(tmp_path / "scores", "voice", "to_first")
    silent = "voice_embedding: silence: nothing is above the gate (gate/1)"
    assert (why_not(to_first["0"]), why_not(to_first["3"])) == (silent, "the turn failed: timeout")
    assert why_not(to_first["1"]) == "it is the turn that the others are compared with"
    drift = engine_rig.figures(tmp_path / "scores", "voice", "drift")
    for last, numbers in (("5", [2, 4, 5]), ("e4", [2, 3, 4])):  # the same sounds, and no turn that failed
        slope = np.polyfit(numbers, [value(to_first[order]) for order in "245"], 1)[0]
        assert value(drift[last]) == pytest.approx(slope)


@pytest.mark.embedded
def test_identity_names_the_weights() -> None:
    from importlib import import_module

    module = import_module(EMBEDDING.identify.partition(":")[0])
    identity = module.identify({})
    assert identity == {"weights pretrained.pt": "39373b86598fa3da9fcddee6142382efe09777e8d37dc9c0561f41f0070f134e"}
    assert WEIGHTS == "ge2e-resemblyzer"
