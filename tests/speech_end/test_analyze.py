"""Turn-taking from audio alone: the rules on hand-made intervals, and recordings of every kind."""

from __future__ import annotations

import importlib.util
import json
import tracemalloc
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import soundfile
from click.testing import CliRunner
from numpy.typing import NDArray

from harness.analyze.analysis import Asked, analyze
from harness.analyze.hearing import Heard, listen
from harness.analyze.inputs import Lane, Sample, find_samples, half_a_sample, open_lanes
from harness.analyze.labels import Label, read_labels
from harness.analyze.measuring import ENDS_FIRST, ENDS_IN_SPEECH, measure_sample, shares
from harness.analyze.not_from_audio import not_from_audio
from harness.analyze.result import Analysis, AudioTurn, SampleResult
from harness.analyze.turns import turns_of
from harness.cli.analyze import analyze as command
from harness.cli.main import main
from harness.from_recording.lanes import Call
from harness.from_recording.segments import by_level
from harness.speech_end_error import methods
from metrics.result import Unavailable, Value
from metrics.spans import Span
from metrics.table import METRICS
from metrics.turn_taking.lanes import NEEDS_LOG
from metrics.turn_taking.table import TURN_TAKING, turn_taking
from sessions import weights
from sessions.clock import NS_PER_MS
from sessions.errors import BadAudio, BadFile, MissingWeights, SetupError
from tests.support.commands import run

RATE_HZ = 8000
LEVEL_MS = 5.0
"""Levels are judged in blocks of this."""


def spans(*seconds: tuple[float, float]) -> list[Span]:
    return [Span(round(a * 1e9), round(b * 1e9)) for a, b in seconds]


def label(start_s: float, end_s: float, kind: str) -> Label:
    return Label(spans((start_s, end_s))[0], kind)


def heard(side: str, stretches: Sequence[Span], duration_s: float) -> Heard:
    return Heard(Lane(Call(Path(f"{side}.wav"), 1000, 1, round(duration_s * 1000), False), 0, side), tuple(stretches))


def measured(
    user: list[Span], agent: list[Span], labels: Sequence[Label] = (), *, duration_s: float = 60, pause_ms: int = 700
) -> SampleResult:
    lanes = heard("user", user, duration_s), heard("agent", agent, duration_s)
    found = measure_sample("x", *lanes, labels, pause_ns=pause_ms * NS_PER_MS, uncertain_ns=100 * NS_PER_MS)
    return found.result


def value(turn: AudioTurn, name: str) -> float:
    found = turn.measures[name]
    assert isinstance(found, Value), found
    return found.value


def kinds(user: list[Span], agent: list[Span], labels: Sequence[Label] = ()) -> list[tuple[str, float, float, int]]:
    return [
        (turn.sound.kind, turn.sound.onset_ns / 1e9, turn.sound.end_ns / 1e9, len(turn.sound.pauses))
        for turn in turns_of(user, agent, labels)
    ]


# ---- audio_turns/1 ---------------------------------------------------------------------------------------------------


def test_stretches_less_than_the_pause_apart_are_one_turn() -> None:
    user = spans((1, 2), (2.699, 3.5), (4.2, 6))
    assert kinds(user, []) == [("speech", 1, 3.5, 1), ("speech", 4.2, 6, 0)]
    [one] = turns_of(user, [], pause_ns=701 * NS_PER_MS)
    assert one.sound.pauses == (Span(2_000_000_000, 2_699_000_000), Span(3_500_000_000, 4_200_000_000))


def test_below_a_second_it_is_a_short_sound_and_over_the_agent_an_interruption() -> None:
    user, agent = spans((0, 1), (5, 5.999), (8, 9), (20, 20.4)), spans((2, 5.5), (6.5, 8.5))
    assert [kind for kind, *_ in kinds(user, agent)] == ["speech", "short", "interruption", "short"]
    # The agent's end is not part of its stretch: who begins there interrupts nobody.
    assert [kind for kind, *_ in kinds(spans((5.5, 7)), spans((2, 5.5)))] == ["speech"]


def test_a_label_says_what_a_sound_is_and_what_belongs_together() -> None:
    user, agent = spans((1, 2), (5, 5.4), (9, 10), (11.5, 12.5)), spans((4, 8))
    labels = [label(4.9, 5.5, "backchannel"), label(9, 12.6, "speech"), label(20, 24, "silence")]
    assert kinds(user, agent, labels) == [
        ("speech", 1, 2, 0),
        ("backchannel", 5, 5.4, 0),
        ("speech", 9, 12.5, 1),
        ("silence", 20, 24, 0),
    ]


def test_a_stretch_goes_to_the_label_that_it_has_most_in_common_with() -> None:
    labels = [label(1, 2.2, "noise"), label(2.2, 5, "overlap")]
    assert kinds(spans((1.9, 2.6)), [], labels) == [("noise", 1, 2.2, 0), ("overlap", 1.9, 2.6, 0)]


def test_speech_that_runs_on_beyond_a_label_is_cut_there() -> None:
    """A bystander talks while the user does: the detector hears one stretch."""
    labels = [label(4, 6, "noise")]
    assert kinds(spans((1, 8)), [], labels) == [("speech", 1, 4, 0), ("noise", 4, 6, 0), ("speech", 6, 8, 0)]
    # A label by hand is a little off.
    assert kinds(spans((3.6, 6.4)), [], labels) == [("noise", 3.6, 6.4, 0)]
    assert kinds(spans((3.6, 8)), [], labels) == [("noise", 3.6, 6, 0), ("speech", 6, 8, 0)]


def test_a_labelled_sound_that_is_no_speech_keeps_the_labels_instants() -> None:
    [cough] = measured([], spans((1, 3)), [label(2, 2.5, "noise")]).turns
    assert (cough.kind, cough.kind_by, cough.is_heard, cough.onset_ns) == ("noise", "label", False, 2_000_000_000)
    assert cough.flags == ["the detector finds no speech there: its instants are the label's"]
    assert value(cough, "false_interruption") == 1


def test_a_labelled_pause_joins_what_the_user_said_around_it() -> None:
    assert kinds(spans((1, 2), (3.5, 5)), [], [label(2.1, 3.4, "pause")]) == [("speech", 1, 5, 1)]
    # Not across a sound of another kind.
    labels = [label(2.1, 3.4, "pause"), label(2.5, 2.8, "noise")]
    assert [kind for kind, *_ in kinds(spans((1, 2), (2.5, 2.8), (3.5, 5)), [], labels)] == [
        "speech",
        "noise",
        "speech",
    ]


# ---- measures --------------------------------------------------------------------------------------------------------


def test_a_turn_is_answered_late_early_and_not_at_all() -> None:
    user = spans((1, 3), (10, 12), (20, 22), (30, 32))
    agent = spans((3.64, 5), (11.5, 14), (35, 36))
    turns = measured(user, agent).turns
    assert [turn.answer_ns for turn in turns] == [3_640_000_000, 11_500_000_000, None, 35_000_000_000]
    assert [value(turns[k], "voice_to_voice_ms") for k in (0, 1, 3)] == [640, -500, 3000]
    assert turns[2].measures["voice_to_voice_ms"] == Unavailable("no audible answer came")
    assert [value(turn, "missed") for turn in turns] == [0, 0, 1, 0]
    assert [value(turn, "responded") for turn in turns] == [1, 1, 0, 1]
    assert [value(turns[k], "late") for k in (0, 1, 3)] == [0, 0, 1]
    assert [value(turns[k], "talk_over") for k in (0, 1, 3)] == [0, 1, 0]
    assert [value(turn, "premature_endpoint") for turn in turns] == [0, 1, 0, 0]
    assert [value(turn, "agent_over_user_ms") for turn in turns] == [0, 500, 0, 0]


def test_the_agents_backchannel_is_no_answer() -> None:
    [turn] = measured(spans((1, 6)), spans((2, 2.6), (6.5, 8))).turns
    assert (value(turn, "agent_backchannels"), value(turn, "voice_to_voice_ms")) == (1, 500)
    assert (value(turn, "premature_endpoint"), value(turn, "overlap_ms")) == (0, 600)


def test_barge_in_stops_the_agent_or_does_not() -> None:
    user, agent = spans((1, 2), (5, 7), (15, 17)), spans((3, 5.45), (8, 9), (14, 18))
    _, stops, ignored = measured(user, agent).turns
    assert (stops.kind, ignored.kind) == ("interruption", "interruption")
    assert (value(stops, "barge_in_stop_ms"), value(stops, "interruption_ignored")) == (450, 0)
    assert (value(stops, "user_over_agent_ms"), value(stops, "overlap_ms")) == (450, 450)
    assert ignored.measures["barge_in_stop_ms"] == Unavailable("the agent did not stop within 2000 ms")
    assert value(ignored, "interruption_ignored") == 1
    assert stops.measures["interrupted_heard_ms"] == Unavailable(NEEDS_LOG)


def test_remarks_on_an_interruption() -> None:
    [_, slight] = measured(spans((0, 1), (5, 7)), spans((3, 5.09))).turns
    assert slight.flags == ["began over the agent by less than the detector's own error"]
    [_, resumed] = measured(spans((0, 1), (5, 7)), spans((3, 5.5), (6, 8))).turns
    assert resumed.flags == ["the agent stopped, and spoke again before the user had finished"]


def test_short_sounds_have_a_row_of_their_own() -> None:
    """20 of them: 3 stop the agent, 4 of 8 in its quiet are followed by it, and none is in a rate of turns."""
    user, agent = [], []
    for k in range(12):
        user += spans((10 * k + 3, 10 * k + 3.5))
        agent += spans((10 * k + 1, 10 * k + (4 if k < 3 else 9)))
    for k in range(12, 20):
        user += spans((10 * k + 3, 10 * k + 3.5))
        agent += spans((10 * k + 5, 10 * k + 6)) if k < 16 else []
    result = measured(user, agent, duration_s=300)
    assert {turn.kind for turn in result.turns} == {"short"}
    assert all("responded" not in turn.measures and turn.answer_ns is None for turn in result.turns)
    assert sum(value(turn, "agent_stopped") for turn in result.turns if "agent_stopped" in turn.measures) == 3
    followed = [value(turn, "agent_followed") for turn in result.turns if "agent_followed" in turn.measures]
    assert (len(followed), sum(followed)) == (8, 4)


def test_what_the_recordings_end_cuts_off_is_unknown() -> None:
    [turn] = measured(spans((1, 3)), [], duration_s=4.9).turns
    assert turn.measures["missed"] == turn.measures["responded"] == Unavailable(ENDS_FIRST)
    assert value(measured(spans((1, 3)), [], duration_s=5).turns[0], "missed") == 1
    [_, over] = measured(spans((0, 1), (5, 6.5)), spans((3, 6.6)), duration_s=6.6).turns
    assert over.measures["barge_in_stop_ms"] == Unavailable(ENDS_IN_SPEECH)
    assert over.measures["interruption_ignored"] == Unavailable(ENDS_IN_SPEECH)
    # More than 2 s of going on are enough to know.
    [_, ignored] = measured(spans((0, 1), (4, 6)), spans((3, 6.6)), duration_s=6.6).turns
    assert value(ignored, "interruption_ignored") == 1
    [short] = measured(spans((5, 5.4)), spans((3, 6.6)), duration_s=6.6).turns
    assert short.measures == {"agent_stopped": Unavailable(ENDS_IN_SPEECH)}
    [alone] = measured(spans((5, 5.4)), [], duration_s=6.6).turns
    assert alone.measures == {"agent_followed": Unavailable(ENDS_FIRST)}


def test_shares_add_up_to_the_whole() -> None:
    one = shares(spans((1, 3), (6, 7)), spans((2, 4), (6.5, 6.75)), 10_000_000_000)
    assert (one.user_ms, one.agent_ms, one.both_ms, one.neither_ms) == (1750, 1000, 1250, 6000)
    assert one.longest_silence_ms == 2000
    assert shares([], [], 5_000_000_000).neither_ms == 5000


def test_every_measure_is_either_taken_or_named_as_not_to_be_had() -> None:
    why = not_from_audio()
    taken = {name for name in TURN_TAKING if name not in why}
    assert set(METRICS) - set(why) == {"voice_to_voice_ms"}
    assert taken | {name for name in TURN_TAKING if turn_taking(name).needs_log} == set(TURN_TAKING)
    assert [name for name in METRICS if why.get(name) == NEEDS_LOG] == []
    [turn] = measured(spans((1, 3)), spans((4, 5))).turns
    assert set(turn.measures) - set(TURN_TAKING) == {"voice_to_voice_ms"}


# ---- recordings ------------------------------------------------------------------------------------------------------


def tones(seconds: float, *sounds: tuple[float, float], rate_hz: int = RATE_HZ, hz: float = 440) -> NDArray[np.float64]:
    wave = np.zeros(round(seconds * rate_hz))
    for first_s, stop_s in sounds:
        first, stop = round(first_s * rate_hz), round(stop_s * rate_hz)
        wave[first:stop] = 0.3 * np.cos(2 * np.pi * hz * np.arange(stop - first) / rate_hz)
    return wave


USER = ((1.0, 3.0), (6.0, 7.5), (12.0, 14.0), (20.0, 20.4))
AGENT = ((3.64, 6.35), (8.0, 9.0), (13.4, 16.0), (19.0, 23.0))


def stereo(path: Path, *, swap: bool = False, rate_hz: int = RATE_HZ, **settings: Any) -> Path:
    both = np.column_stack([tones(26, *USER, rate_hz=rate_hz), tones(26, *AGENT, rate_hz=rate_hz, hz=300)])
    soundfile.write(path, both[:, ::-1] if swap else both, rate_hz, **settings)
    return path


def by_levels(*samples: Sample, **asked: Any) -> Analysis:
    return analyze(Asked(samples, method="energy-1", **asked))


def one(path: Path, **lanes: str) -> Analysis:
    return by_levels(Sample("x", path, path, **lanes))


def figures(analysis: Analysis) -> list[tuple[str, float | None, float | None]]:
    def of(turn: AudioTurn, name: str) -> float | None:
        found = turn.measures.get(name)
        return found.value if isinstance(found, Value) else None

    [sample] = analysis.samples
    return [(turn.kind, of(turn, "voice_to_voice_ms"), of(turn, "barge_in_stop_ms")) for turn in sample.turns]


def near(found: list[tuple[str, float | None, float | None]], within_ms: float = 2 * LEVEL_MS) -> None:
    true = [("speech", 640, None), ("interruption", 500, 350), ("speech", -600, None), ("short", None, None)]
    assert [kind for kind, *_ in found] == [kind for kind, *_ in true]
    for (_, *got), (_, *wanted) in zip(found, true, strict=True):
        assert got == [None if want is None else pytest.approx(want, abs=within_ms) for want in wanted]


def test_a_stereo_recording_is_measured(tmp_path: Path) -> None:
    analysis = one(stereo(tmp_path / "call.wav"))
    near(figures(analysis))
    assert (analysis.turn_taking.turns, analysis.short_sounds.count, analysis.short_sounds.over_agent) == (3, 1, 1)
    assert (analysis.turn_taking.rates["responded"].hits, analysis.turn_taking.rates["responded"].of) == (3, 3)
    assert analysis.samples[0].notes == []
    shares_ms = msgspec.structs.astuple(analysis.samples[0].shares)[:4]
    assert sum(shares_ms) == pytest.approx(analysis.samples[0].duration_ms)


def test_swapped_lanes_are_another_dialogue_and_naming_them_mends_it(tmp_path: Path) -> None:
    swapped = stereo(tmp_path / "swapped.wav", swap=True)
    near(figures(one(swapped, user_lane="right")))
    near(figures(one(swapped, agent_lane="left")))
    near(figures(one(swapped, user_lane="1", agent_lane="0")))
    assert figures(one(swapped)) != figures(one(swapped, user_lane="right"))
    # Where somebody noted when the user speaks, it is told.
    track = tmp_path / "kinds.txt"
    track.write_text("".join(f"{a}\t{b}\tspeech\n" for a, b in ((1.2, 2.9), (12.1, 13.9))) + "20.1\t20.3\tnoise\n")
    [sample] = by_levels(Sample("x", swapped, swapped), labels=track).samples
    assert "the lanes may be swapped" in sample.notes[-1]
    [right] = by_levels(Sample("x", swapped, swapped, "right"), labels=track).samples
    assert right.notes == []


def pair(
    folder: Path, names: tuple[str, str] = ("input.wav", "output.wav"), rates: tuple[int, int] = (48_000, 16_000)
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, sounds, rate_hz, seconds in zip(names, (USER, AGENT), rates, (26, 25.5), strict=True):
        soundfile.write(folder / name, tones(seconds, *sounds, rate_hz=rate_hz), rate_hz)
    return folder


def test_two_files_of_other_rates_and_lengths_lie_on_one_clock(tmp_path: Path) -> None:
    folder = pair(tmp_path)
    analysis = by_levels(Sample("x", folder / "input.wav", folder / "output.wav"))
    near(figures(analysis))
    assert analysis.samples[0].notes == ["the agent's lane is 0.5 s shorter; what it lacks counts as quiet"]
    assert (analysis.samples[0].user.rate_hz, analysis.samples[0].agent.rate_hz) == (48_000, 16_000)


def test_folders_as_full_duplex_bench_lays_them_out(tmp_path: Path) -> None:
    interrupted = pair(tmp_path / "v1_5" / "user_interruption" / "7")
    (interrupted / "metadata.json").write_text('{"context_text": "x", "timestamps": [5.9, 7.6]}')
    coughed = pair(tmp_path / "v1_5" / "user_backchannel" / "12")
    (coughed / "metadata.json").write_text('{"timestamps": [19.5, 20.5]}')
    synthetic = pair(tmp_path / "v1_0" / "synthetic_user_interruption" / "1")
    (synthetic / "interrupt.json").write_text('[{"context": "a", "interrupt": "b", "timestamp": [12.0, 14.1]}]')
    paused = pair(tmp_path / "v1_0" / "synthetic_pause_handling" / "3")
    (paused / "pause.json").write_text('[{"text": "[PAUSE]", "timestamp": [3.1, 5.9]}]')
    pair(tmp_path / "v2" / "conv_1", ("A.wav", "B.wav"))
    stereo(tmp_path / "v2" / "conv_1" / "combined.wav")
    half = tmp_path / "v1_0" / "icc_backchannel" / "2"
    half.mkdir(parents=True)
    soundfile.write(half / "input.wav", tones(1), RATE_HZ)
    samples = find_samples(tmp_path, "", "")
    assert [sample.name for sample in samples] == [
        "v1_0/synthetic_pause_handling/3",
        "v1_0/synthetic_user_interruption/1",
        "v1_5/user_backchannel/12",
        "v1_5/user_interruption/7",
        "v2/conv_1",
    ]
    assert list(half_a_sample(samples, tmp_path)) == ["v1_0/icc_backchannel/2 has input and no output: left out"]
    by_name = {
        sample.name.split("/")[-2]: [(turn.kind, turn.kind_by) for turn in sample.turns]
        for sample in by_levels(*samples).samples
    }
    speech, over, short = ("speech", "audio"), ("interruption", "audio"), ("short", "audio")
    assert by_name == {
        "synthetic_pause_handling": [speech, speech, short],
        "synthetic_user_interruption": [speech, over, ("interruption", "label"), short],
        "user_backchannel": [speech, over, speech, ("backchannel", "label")],
        "user_interruption": [speech, ("interruption", "label"), speech, short],
        "v2": [speech, over, speech, short],
    }


def test_one_bad_sample_is_named_and_the_others_go_on(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        pair(tmp_path / name)
    (tmp_path / "b" / "output.wav").write_bytes(b"no audio")
    (tmp_path / "c" / "interrupt.json").write_text("[{}]")
    analysis = by_levels(*find_samples(tmp_path, "", ""))
    assert [sample.name for sample in analysis.samples] == ["a"]
    assert [failed.name for failed in analysis.failed] == ["b", "c"]
    assert "it is not readable as audio" in analysis.failed[0].problem
    assert "None is no start and end" in analysis.failed[1].problem


@pytest.mark.parametrize(
    ("rate_hz", "subtype"), [(8000, "PCM_U8"), (96_000, "PCM_24"), (44_100, "FLOAT"), (11_025, "PCM_16")]
)
def test_other_rates_and_sample_types(tmp_path: Path, rate_hz: int, subtype: str) -> None:
    near(figures(one(stereo(tmp_path / "call.wav", rate_hz=rate_hz, subtype=subtype))))


def test_six_channels_need_their_lanes_named(tmp_path: Path) -> None:
    six = tmp_path / "six.wav"
    quiet = tones(26)
    soundfile.write(six, np.column_stack([quiet, tones(26, *USER), quiet, quiet, tones(26, *AGENT), quiet]), RATE_HZ)
    with pytest.raises(SetupError, match=r"has 6 channels\. Name the two with --lane and --other"):
        one(six)
    near(figures(one(six, user_lane="1", agent_lane="4")))
    [sample] = one(six, user_lane="1", agent_lane="0").samples
    assert sample.notes == ["the agent's lane (six.wav, channel 0) is silent"]
    with pytest.raises(SetupError, match="are both channel 4"):
        one(six, user_lane="4", agent_lane="4")


def wave(path: Path, samples: NDArray[Any], **settings: Any) -> Path:
    soundfile.write(path, samples, RATE_HZ, **settings)
    return path


def test_bad_recordings_are_one_line(tmp_path: Path) -> None:
    nan = np.column_stack([tones(3, (1, 2)), tones(3)])
    nan[9000, 0] = np.nan
    mono = wave(tmp_path / "mono.wav", tones(26, *USER))
    same = wave(tmp_path / "same.wav", np.column_stack([tones(26, *USER)] * 2))
    text = tmp_path / "text.wav"
    text.write_text("no audio")
    for path, words in (
        (mono, "one channel, which does not tell user and agent apart. Give a recording with a lane for each"),
        (same, "hold the same sound, which does not tell user and agent apart"),
        (wave(tmp_path / "nan.wav", nan, subtype="FLOAT"), "samples that are not numbers"),
        (wave(tmp_path / "none.wav", np.zeros((0, 2))), "it holds no samples"),
        (text, "it is not readable as audio"),
        (tmp_path / "nowhere.wav", "there is no such file"),
    ):
        with pytest.raises(BadAudio, match=words):
            one(path)
    call = stereo(tmp_path / "call.wav")
    with pytest.raises(SetupError, match=r"has 2 channels, where one is the agent's\. Save the agent's alone"):
        open_lanes(Sample("x", mono, call))
    assert open_lanes(Sample("x", mono, same))[1].number == 0


def test_silent_lanes_and_clipped_ones_are_told(tmp_path: Path) -> None:
    quiet = wave(tmp_path / "quiet.wav", np.column_stack([tones(26), tones(26, *AGENT)]))
    analysis = one(quiet)
    assert analysis.turns == 0
    assert analysis.samples[0].notes == ["the user's lane (quiet.wav, channel 0) is silent"]
    alone = wave(tmp_path / "alone.wav", np.column_stack([tones(26, *USER), np.full(26 * RATE_HZ, 0.25)]))
    analysis = one(alone)
    assert analysis.samples[0].notes == ["the agent's lane (alone.wav, channel 1) is silent"]
    assert (analysis.turn_taking.rates["missed"].hits, analysis.turn_taking.rates["missed"].of) == (3, 3)
    loud = wave(tmp_path / "loud.wav", np.column_stack([np.clip(tones(26, *USER) * 9, -1, 1), tones(26, *AGENT)]))
    [note] = one(loud).samples[0].notes
    assert "the user's lane (loud.wav, channel 0) is clipped" in note
    near(figures(one(loud)))


def test_two_hours_are_listened_to_piece_by_piece(tmp_path: Path) -> None:
    path = tmp_path / "long.flac"
    part = np.column_stack([tones(60, (10, 12)), tones(60, (12.5, 20), hz=300)])
    with soundfile.SoundFile(str(path), "w", RATE_HZ, 2, subtype="PCM_16") as file:
        for _ in range(120):
            file.write(part)
    user, _ = open_lanes(Sample("x", path, path))
    tracemalloc.start()
    try:
        found = listen(user, by_level)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (len(found.stretches), found.duration_ns) == (120, 7200 * 10**9)
    # One lane of it is 230 MB as float32; what is kept is a power and an edge for every 5 ms.
    assert peak_bytes < 150_000_000


# ---- labels ----------------------------------------------------------------------------------------------------------


def test_labels_are_read_as_a_track_and_as_csv(tmp_path: Path) -> None:
    track, table = tmp_path / "kinds.txt", tmp_path / "kinds.csv"
    track.write_text(
        "1.0\t2.0\tuser: interruption (voice-to-voice 640 ms)\n\\\t200\t4000\n2.5\t3\tagent\n\n"
        "4\t5\tshort\n6\t7\tNoise\n"
    )
    table.write_text("sample,start_s,end_s,kind\na,1.0,2.0,interruption\n,6,7,noise\n")
    assert [(one.span, one.kind, one.sample) for one in read_labels(track)] == [
        (Span(10**9, 2 * 10**9), "interruption", ""),
        (Span(6 * 10**9, 7 * 10**9), "noise", ""),
    ]
    assert [(one.kind, one.sample) for one in read_labels(table)] == [("interruption", "a"), ("noise", "")]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("1\t2\tspeech\n2\t3\tsneeze\n", r":2: 'sneeze' is no kind of a user's sound\. A label is start, end"),
        ("2\t1\tspeech\n", ":1: '2' to '1' is no stretch of time"),
        ("1\t2\tspeech\n-1\tx\tspeech\n", ":2: '-1' to 'x' is no stretch of time"),
        ("1\t2\tspeech\nhello\n", ":2: no start and end with a tab between them"),
        ("start,end\n1,2\n", ":1: there is no column 'start_s' in the heading"),
        ("start_s,end_s,kind\n1,nan,noise\n", ":2: '1' to 'nan' is no stretch of time"),
    ],
)
def test_a_wrong_label_is_named_by_line(tmp_path: Path, text: str, words: str) -> None:
    path = tmp_path / "labels.txt"
    path.write_text(text)
    with pytest.raises(BadFile, match=words):
        read_labels(path)


def test_labels_of_a_sample_that_is_not_there_are_refused(tmp_path: Path) -> None:
    call, table = stereo(tmp_path / "call.wav"), tmp_path / "kinds.csv"
    table.write_text("sample,start_s,end_s,kind\nx,19.9,20.5,noise\n")
    assert by_levels(Sample("x", call, call), labels=table).samples[0].turns[-1].kind == "noise"
    with pytest.raises(SetupError, match=r"speaks of a sample 'x', which is not here\. Here is: y"):
        by_levels(Sample("y", call, call), labels=table)


def test_a_track_beside_the_recording_is_read_and_a_written_one_can_be_given_back(tmp_path: Path) -> None:
    call = stereo(tmp_path / "call.wav")
    out = tmp_path / "out"
    arguments = [str(call), "--method", "energy-1"]
    assert CliRunner().invoke(command, [*arguments, "--out", str(out)]).exit_code == 0
    track = out / "labels" / "call.txt"
    first, *_ = track.read_text().splitlines()
    start, end, text = first.split("\t")
    assert [float(start), float(end)] == pytest.approx([1, 3], abs=0.01)
    assert text.startswith("user: speech (voice-to-voice ")
    before = json.loads((out / "analysis.json").read_text())["samples"][0]["turns"]
    again = CliRunner().invoke(command, [*arguments, "--labels", str(track), "--json"])
    after = json.loads(again.stdout)["samples"][0]["turns"]
    assert [turn["kind"] for turn in after] == [turn["kind"] for turn in before]
    assert [turn["measures"] for turn in after] == [turn["measures"] for turn in before]
    call.with_name("call.wav.labels.csv").write_text("start_s,end_s,kind\n19.9,20.5,backchannel\n")
    [sample] = one(call).samples
    assert sample.turns[-1].kind == "backchannel"
    assert value(sample.turns[-1], "false_interruption") == 0


# ---- the command -----------------------------------------------------------------------------------------------------


async def test_the_command_prints_a_table_and_says_where_the_result_is(tmp_path: Path) -> None:
    folder = pair(tmp_path / "in", ("user.wav", "agent.wav"))
    out = tmp_path / "out"
    files = ("--user", str(folder / "user.wav"), "--agent", str(folder / "agent.wav"))
    ran = await run("analyze", *files, "--method", "energy-1", "--out", str(out))
    assert (ran.code, ran.err) == (0, "")
    lines = ran.out.splitlines()
    assert lines[-1] == f"written: {out / 'analysis.json'} (4 turns in 1 sample)"
    assert lines[0] == "in: 26.0 s; user channel 0, 4 stretches; agent channel 0, 4 stretches; 4 turns"
    assert any(line.startswith("voice-to-voice") and line.rstrip().endswith("+13, 6, 56") for line in lines)
    assert any(line.startswith("barge-in stop") and line.rstrip().endswith("−13, 6, 56") for line in lines)
    text = " ".join(ran.out.split())
    assert "Short sounds (under 1 s, kind unknown): 1; 1 over the agent, which fell silent within 2 s in 0 of 1" in text
    assert "Edges of speech by speech_stretches/energy-1: onset bias −3" in text
    assert "Not to be had without an event log: first packet, first text" in text
    assert "commit to first packet" in text
    analysis = msgspec.json.decode((out / "analysis.json").read_bytes(), type=Analysis)
    near(figures(analysis))
    assert analysis.definitions["short_sound"] == analysis.definitions["audio_turns"] == "1"
    assert set(analysis.detector.of_measure) >= {"voice_to_voice_ms", "barge_in_stop_ms", "overlap_ms"}
    ran = await run("analyze", *files, "--method", "energy-1", "--out", str(out))
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "is there already. Write over it with --force" in ran.err
    ran = await run("analyze", *files, "--method", "energy-1", "--out", str(out), "--force", "--json")
    assert ran.code == 0
    assert msgspec.json.decode(ran.out, type=Analysis) == analysis


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        ([], 2, "nothing to analyze. Give a recording, a folder, or --user and --agent"),
        (["--user", "a.wav"], 2, "--user and --agent are the two sides of one sample. Give both"),
        (["--user", "a.wav", "--agent", "a.wav"], 2, "--user and --agent are both a.wav"),
        (["EMPTY"], 2, "there is nothing to analyze in"),
        (["nowhere.wav"], 2, "there is no such file"),
        (["CALLS", "--lane", "middle"], 2, "there is no lane 'middle'. Say left, right, or a channel's number from 0"),
        (["CALL", "--labels", "nowhere.txt"], 2, "No such file or directory"),
        (["QUIET"], 1, "Nothing was measured: no turn of a user was found."),
    ],
)
async def test_exit_codes(tmp_path: Path, arguments: list[str], code: int, words: str) -> None:
    (tmp_path / "empty").mkdir()
    quiet = wave(tmp_path / "quiet.wav", np.column_stack([tones(3), tones(3, (1, 2))]))
    places = {
        "CALLS": str(tmp_path),
        "EMPTY": str(tmp_path / "empty"),
        "QUIET": str(quiet),
        "CALL": str(stereo(tmp_path / "call.wav")),
    }
    ran = await run("analyze", *(places.get(word, word) for word in arguments), "--method", "energy-1", cwd=tmp_path)
    assert ran.code == code
    assert words in " ".join((ran.err if code == 2 else ran.out).split())
    assert ran.err.count("\n") == (1 if code == 2 else 0)


@pytest.mark.parametrize("missing", ["package", "weights"])
def test_a_missing_detector_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], missing: str
) -> None:
    methods.silero_detector.cache_clear()
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if missing == "package" else object())

    def nowhere(name: str) -> Path:
        raise MissingWeights(f"{name} is nowhere to be found", "Get it with: duologue weights fetch")

    monkeypatch.setattr(weights, "folder", nowhere)
    with pytest.raises(SystemExit) as end:
        main(["analyze", str(stereo(tmp_path / "call.wav"))])
    told = capsys.readouterr()
    assert (end.value.code, told.out, told.err.count("\n")) == (2, "", 1)
    assert ("pip install 'duologue[embedded]'" if missing == "package" else "duologue weights fetch") in told.err


def test_a_folder_of_recordings_and_the_help(tmp_path: Path) -> None:
    stereo(tmp_path / "a.wav")
    stereo(tmp_path / "b.flac")
    result = CliRunner().invoke(command, [str(tmp_path), "--method", "energy-1"])
    assert result.exit_code == 0
    assert result.output.splitlines()[-1] == "8 turns in 2 samples; nothing was written: --out DIR keeps it"
    assert len(CliRunner().invoke(command, ["--help"]).output.splitlines()) < 40
