"""The marked audio, the errors of the methods on it, the shipped figures, and where they are told."""

from __future__ import annotations

import importlib.util
import io
import json
from collections.abc import Sequence
from functools import partial
from importlib.resources import files

import click
import msgspec
import numpy as np
import pytest
from rich.console import Console

from harness.cli.measure import measure
from harness.cli.scripts import annotate
from harness.report.html.plan_section import command_line
from harness.report.html.tables import figures_section
from harness.report.summary import SpeechEndBound, summarise_run
from harness.report.table import print_table
from harness.speech_end_error import ErrorTable, Figures, bound_ms, encode_table, measured
from harness.speech_end_error import methods as methods_module
from harness.speech_end_error.errors import errors_of, figures, measure_methods, table_lines
from harness.speech_end_error.marked import CONDITIONS, PLACEMENTS, TAIL_MS, Marked, marked_audio
from harness.speech_end_error.methods import LOADERS, VERSIONED, finder
from metrics.result import TurnResult
from sessions import audio
from sessions.audio import FloatPcm, Pcm
from sessions.errors import BadAudio, MissingExtra
from sessions.scripts import load_script, script_from_audio
from sessions.speech_end import ENERGY_1, SILERO_1, SpeechEnd, energy_1, silero_1
from tests.support.commands import run
from tests.support.run_samples import FLOOR, dialogue, plan, turn

EACH = 9 * PLACEMENTS
RENEW = "run: duologue scripts speech-end-error --json > harness/speech_end_error/measured.json"


@pytest.fixture(scope="module")
def clips() -> list[Marked]:
    return list(marked_audio())


def level_db(pcm: Pcm) -> float:
    return float(10 * np.log10(np.mean(np.square(audio.to_float(pcm).astype(np.float64)))))


# ---- the marked audio ------------------------------------------------------------------------------------------------


def test_each_utterance_stands_three_times_in_each_condition(clips: list[Marked]) -> None:
    assert [sum(clip.condition == condition for clip in clips) for condition in CONDITIONS] == [EACH] * 5
    for first in range(0, len(clips), len(CONDITIONS)):
        place = clips[first : first + len(CONDITIONS)]
        assert len({(clip.name, clip.end_sample, len(clip.pcm)) for clip in place}) == 1
    for clip in clips:
        assert len(clip.pcm) - 1 - clip.end_sample == TAIL_MS * clip.rate_hz // 1000
    # Ends lie anywhere on the methods' grids: not all on one sample of the 5 ms blocks.
    assert len({clip.end_sample % 120 for clip in clips}) > EACH // 2


def test_the_same_audio_comes_in_every_run(clips: list[Marked]) -> None:
    for one, other in zip(clips, marked_audio(), strict=True):
        assert np.array_equal(one.pcm, other.pcm)


def test_the_conditions_are_what_they_say(clips: list[Marked]) -> None:
    for first in range(0, len(clips), len(CONDITIONS)):
        clean, some, more, breath, soft = clips[first : first + len(CONDITIONS)]
        end = clean.end_sample
        for noisy, below_db in ((some, 20), (more, 10)):
            difference = noisy.pcm.astype(np.int32) - clean.pcm
            assert level_db(difference.astype(np.int16)) == pytest.approx(-23 - below_db, abs=0.4)
        assert np.array_equal(breath.pcm[: end + 1], clean.pcm[: end + 1])
        added = (breath.pcm - clean.pcm)[end + 1 + 1920 : end + 1 + 9120]
        assert level_db(added) == pytest.approx(-23 - 38, abs=0.4)
        assert not np.any(breath.pcm[end + 1 + 9120 :])
        last = slice(end + 1 - 3600, end + 1)  # 150 ms: after the fade
        assert level_db(soft.pcm[last]) == pytest.approx(level_db(clean.pcm[last]) - 15, abs=0.1)
        assert np.array_equal(soft.pcm[: end + 1 - 4320], clean.pcm[: end + 1 - 4320])


# ---- the errors ------------------------------------------------------------------------------------------------------


def marked(end_sample: int) -> Marked:
    return Marked("x", "clean", np.zeros(24_000, dtype=np.int16), end_sample)


def test_an_error_is_found_less_true(clips: list[Marked]) -> None:
    def late(samples: Pcm | FloatPcm, rate_hz: int, *, name: str) -> SpeechEnd:
        true = next(clip.end_sample for clip in clips if clip.pcm is samples)
        return SpeechEnd(true + 24, rate_hz, "late/1")

    errors = errors_of(late, clips, "late/1")
    assert errors.pooled == Figures(5 * EACH, 0, 1.0, 1.0, 1.0, 1.0)
    assert errors.conditions == dict.fromkeys(CONDITIONS, Figures(EACH, 0, 1.0, 1.0, 1.0, 1.0))


def test_figures_are_those_of_the_magnitude_and_the_bias_keeps_its_sign() -> None:
    assert figures([-4.0, 1.0, None, -2.0, 1.0]) == Figures(4, 1, -1.0, 1.5, 3.7, 4.0)
    assert figures([None]) == Figures(0, 1, None, None, None, None)


def test_a_method_that_finds_no_end_is_counted() -> None:
    def none(samples: Pcm | FloatPcm, rate_hz: int, *, name: str) -> SpeechEnd:
        raise BadAudio(f"no speech in {name}")

    assert errors_of(none, [marked(9)], "none/1").pooled == Figures(0, 1, None, None, None, None)


@pytest.mark.parametrize("name", ["energy-1", "floor-1"])
def test_the_shipped_figures_are_current(name: str) -> None:
    [now] = measure_methods([name]).methods
    [then] = [entry for entry in measured().methods if entry.method == VERSIONED[name]]
    assert now == then, RENEW


def test_what_energy_1_does_on_the_marked_audio(clips: list[Marked]) -> None:
    conditions = errors_of(energy_1, clips, ENERGY_1).conditions
    assert (conditions["clean"].p95_ms or 0) < 5.0
    assert conditions["breath"] == conditions["clean"]
    # Noise within 35 dB of the voice is speech to it, to the last sample of the file.
    assert conditions["noise 20 dB"] == conditions["noise 10 dB"] == Figures(EACH, 0, *[float(TAIL_MS)] * 4)
    assert (conditions["soft end"].bias_ms or 0) < -50


def test_the_bound_is_the_pooled_p50_and_p95_of_the_shipped_table() -> None:
    for name in LOADERS:
        [entry] = [entry for entry in measured().methods if entry.method == VERSIONED[name]]
        assert entry.pooled is not None
        assert entry.pooled.n + entry.pooled.missed == 5 * EACH
        assert bound_ms(VERSIONED[name]) == (entry.pooled.p50_ms, entry.pooled.p95_ms)
    assert bound_ms("annotation") is None
    assert bound_ms("mine/1") is None


@pytest.mark.embedded
def test_silero_is_measured_and_is_near_the_shipped_figures() -> None:
    """Another processor may round the network otherwise, so that here and there another frame is the last."""
    [now] = measure_methods(["silero"]).methods
    [then] = [entry for entry in measured().methods if entry.method == SILERO_1]
    assert now.unavailable == ""
    assert now.pooled is not None and then.pooled is not None
    assert now.pooled.n == then.pooled.n
    assert now.pooled.p50_ms == pytest.approx(then.pooled.p50_ms, abs=10), RENEW
    assert now.pooled.p95_ms == pytest.approx(then.pooled.p95_ms, abs=40), RENEW


@pytest.mark.embedded
def test_silero_finds_the_end_of_a_recording_that_nobody_annotated() -> None:
    annotated = load_script("facts").turns[0]
    assert annotated.audio_path is not None
    [found] = script_from_audio([annotated.audio_path], find_end=finder("silero")).turns
    assert found.speech_end.method == SILERO_1
    assert abs(found.speech_end.offset_ns - annotated.speech_end.offset_ns) < 200_000_000


def test_a_method_that_cannot_run_here_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    methods_module.silero_detector.cache_clear()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    table = measure_methods(["silero"])
    [entry] = table.methods
    assert (entry.method, entry.conditions, entry.pooled) == (SILERO_1, {}, None)
    assert "pip install 'duologue[embedded]'" in entry.unavailable
    assert f"  unavailable: {entry.unavailable}" in "\n".join(table_lines(table))
    find = finder("silero")  # asked for, but not needed as long as everything is annotated
    with pytest.raises(MissingExtra):
        find(np.zeros(100, dtype=np.int16), 8000, name="x")


# ---- the method ------------------------------------------------------------------------------------------------------


class Loudness:
    """A voice detector of 512 samples at 16 kHz that calls loud frames speech and remembers what it was asked."""

    frame_samples, rate_hz = 512, 16_000

    def __init__(self) -> None:
        self.frames = 0
        self.resets = 0

    def probability(self, frame: Pcm) -> float:
        assert frame.dtype == np.int16
        assert frame.shape == (512,)
        self.frames += 1
        return 0.5 if np.abs(frame.astype(np.int32)).max() > 3000 else 0.49

    def reset(self) -> None:
        self.resets += 1


@pytest.mark.parametrize(
    ("rate_hz", "speech_samples", "samples", "end"),
    [
        (16_000, 5120, 10_000, 5119),  # ten whole frames
        (16_000, 5121, 10_000, 5631),  # one sample of the eleventh
        (16_000, 9900, 10_000, 9999),  # in the frame that is filled up: no end beyond the file
        (8000, 2000, 8000, 2047),  # 4000 samples at the detector's rate: eight frames of 32 ms
        (48_000, 15_000, 48_000, 15_359),
    ],
)
@pytest.mark.parametrize("kind", ["int16", "float32"])
def test_speech_ends_with_the_last_frame_that_is_speech(
    rate_hz: int, speech_samples: int, samples: int, end: int, kind: str
) -> None:
    wave = np.zeros(samples, dtype=np.float32)
    wave[:speech_samples] = 0.5 * np.cos(2 * np.pi * 1000 * np.arange(speech_samples) / rate_hz)
    detector = Loudness()
    found = silero_1(detector, audio.to_pcm16(wave) if kind == "int16" else wave, rate_hz, name="x")
    assert found == SpeechEnd(end, rate_hz, SILERO_1)
    assert (detector.resets, detector.frames) == (1, -(-samples * 16_000 // rate_hz // 512))


def test_a_file_without_a_frame_of_speech_is_refused() -> None:
    find = partial(silero_1, Loudness())
    with pytest.raises(BadAudio, match=r"no speech in hum\.wav.*Annotate it"):
        find(np.full(16_000, 2000, dtype=np.int16), 16_000, name="hum.wav")
    with pytest.raises(BadAudio):
        find(np.zeros(0, dtype=np.int16), 16_000, name="x")


# ---- the command and the reports -------------------------------------------------------------------------------------


async def test_the_command_prints_the_table_and_json() -> None:
    ran = await run("scripts", "speech-end-error", "--json")
    assert (ran.code, ran.err) == (0, "")
    table = msgspec.json.decode(ran.out, type=ErrorTable)
    assert ran.out == encode_table(table)
    assert table.methods[0] == measured().methods[0]
    assert [entry.method for entry in table.methods] == list(VERSIONED.values())
    lines = "\n".join(table_lines(measured()))
    assert "  clean                  27" in lines
    assert "  all of them           135" in lines
    assert json.loads(encode_table(measured()))["marked_audio"] == "marked-speech/1"
    text = (files("harness.speech_end_error") / "measured.json").read_text(encoding="utf-8")
    assert text == encode_table(measured()), RENEW


@pytest.mark.parametrize(("command", "option"), [(measure, "speech_end"), (annotate, "method")])
def test_what_can_be_asked_for_is_what_there_is(command: click.Command, option: str) -> None:
    [kind] = [parameter.type for parameter in command.params if parameter.name == option]
    assert isinstance(kind, click.Choice)
    assert list(kind.choices) == list(LOADERS) == list(VERSIONED)


def by(method: str, turns: Sequence[TurnResult]) -> list[TurnResult]:
    return [msgspec.structs.replace(one, method=method) for one in turns]


def test_the_bound_stands_under_tables_whose_ends_were_found() -> None:
    found = dialogue(0, by(ENERGY_1, [turn(0)]) + by("mine/1", [turn(1)]) + [turn(2)])
    warmup = dialogue(1, by(SILERO_1, [turn(0)]), warmup=True)
    summary = summarise_run(plan(), [found, warmup], FLOOR)
    p50, p95 = bound_ms(ENERGY_1) or (0.0, 0.0)
    assert summary.speech_end_bounds == {"mine/1": None, ENERGY_1: SpeechEndBound(p50, p95)}
    line = f"speech end by {ENERGY_1}: itself off by p50 112, p95 500 ms (built-in marked audio)"
    out = io.StringIO()
    print_table(summary, Console(file=out, width=100))
    assert f"\n{line}\n" in out.getvalue()
    assert "\nspeech end by mine/1: its own error was not measured\n" in out.getvalue()
    page = figures_section(summary)
    assert f"S{line[1:]}." in page


def test_annotated_turns_have_no_such_bound() -> None:
    summary = summarise_run(plan(), [dialogue(0, [turn(0), turn(1)])], FLOOR)
    assert summary.speech_end_bounds == {}
    out = io.StringIO()
    print_table(summary, Console(file=out, width=100))
    assert "itself off" not in out.getvalue()


def test_the_command_that_repeats_a_run_names_the_method() -> None:
    assert "--speech-end" not in command_line(plan())
    script = plan().scripts[0]
    turns = [msgspec.structs.replace(one, method=SILERO_1) for one in script.turns]
    asked = msgspec.structs.replace(plan(), scripts=[msgspec.structs.replace(script, turns=turns)])
    assert "--speech-end silero" in command_line(asked)
