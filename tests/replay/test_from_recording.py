"""`duologue scripts from-recording`: from a call to a script that can be performed again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
import yaml
from click.testing import CliRunner
from numpy.typing import NDArray

from harness.cli.scripts import scripts as scripts_command
from harness.from_recording import Cut, cut_call
from harness.from_recording.segments import Stretch, by_level
from harness.from_recording.timeline import Placed, place
from sessions import audio, scripts
from sessions.errors import BadAudio, SetupError
from sessions.speech_end import ENERGY_1, SILERO_1

RATE_HZ = 8000
MS = RATE_HZ // 1000


def lane(
    seconds: float, *sounds: tuple[float, float], rate_hz: int = RATE_HZ, hz: float = 440.0
) -> NDArray[np.float64]:
    """Tones from and to the given seconds."""
    wave = np.zeros(round(seconds * rate_hz))
    for first_s, stop_s in sounds:
        first, stop = round(first_s * rate_hz), round(stop_s * rate_hz)
        wave[first:stop] = 0.3 * np.cos(2 * np.pi * hz * np.arange(stop - first) / rate_hz)
    return wave


USER = ((1.0, 2.0), (2.5, 3.0), (6.0, 7.0), (9.0, 9.4), (11.0, 12.5), (15.0, 16.0), (18.0, 19.0))
OTHER = ((4.0, 5.5), (8.0, 10.5), (13.5, 15.2))


def stereo(path: Path, *, swap: bool = False, rate_hz: int = RATE_HZ, **settings: Any) -> Path:
    both = np.column_stack([lane(20, *USER, rate_hz=rate_hz), lane(20, *OTHER, rate_hz=rate_hz, hz=300)])
    soundfile.write(path, both[:, ::-1] if swap else both, rate_hz, **settings)
    return path


def read(script: Path) -> list[dict[str, Any]]:
    turns: list[dict[str, Any]] = yaml.safe_load(script.read_text())["turns"]
    return turns


def test_a_call_becomes_a_script_with_its_own_timing(tmp_path: Path) -> None:
    written = cut_call(Cut(stereo(tmp_path / "My Call.wav"), tmp_path / "out", method="energy-1"))
    assert (written.script, written.notes) == (tmp_path / "out" / "my-call.yaml", ())
    assert [(turn.get("kind", "speech"), turn["start"]) for turn in read(written.script)] == [
        # Two stretches 500 ms apart are one utterance; the clip begins 40 ms before its speech.
        ("speech", {"after": "reply", "gap_ms": 960}),
        ("speech", {"after": "reply", "gap_ms": 460}),
        # 400 ms in the midst of a reply that goes on.
        ("backchannel", {"after": "onset", "gap_ms": 960}),
        ("speech", {"after": "reply", "gap_ms": 460}),
        # The other side falls silent 200 ms later.
        ("interruption", {"after": "onset", "gap_ms": 1460}),
        ("speech", {"after": "speech", "gap_ms": 1960}),
    ]
    script = scripts.load_script(written.script)
    assert [turn.speech_end.method for turn in script.turns] == [ENERGY_1] * 6
    # 40 ms before, 2 s of speech and pause: the last speech sample is at 2040 ms, and 200 ms follow.
    first = script.turns[0]
    assert first.audio_path == tmp_path / "out" / "my-call" / "turn-01.flac"
    assert (first.speech_end.index_samples + 1, len(first.clip.pcm)) == (2040 * 24, 2240 * 24)
    source = audio.read(tmp_path / "My Call.wav")
    assert source.rate_hz == audio.read(first.audio_path).rate_hz == RATE_HZ


def test_the_lane_can_be_named_and_a_script_is_not_written_over(tmp_path: Path) -> None:
    call = stereo(tmp_path / "call.flac", swap=True)
    right = cut_call(Cut(call, tmp_path / "a", lane="right", method="energy-1"))
    one = cut_call(Cut(call, tmp_path / "b", lane="1", method="energy-1"))
    assert read(right.script) == read(one.script)
    assert len(right.placed) == 6
    with pytest.raises(SetupError, match=r"is there already\. Write over it with --force"):
        cut_call(Cut(call, tmp_path / "a", lane="right", method="energy-1"))
    cut_call(Cut(call, tmp_path / "a", lane="right", method="energy-1", force=True))
    with pytest.raises(SetupError, match=r"has 2 channels, and no lane 2\. Say a number from 0 to 1"):
        cut_call(Cut(call, tmp_path / "c", lane="2"))
    with pytest.raises(SetupError, match="there is no lane 'middle'"):
        cut_call(Cut(call, tmp_path / "c", lane="middle"))
    with pytest.raises(SetupError, match="are both channel 0"):
        cut_call(Cut(call, tmp_path / "c", lane="left", other="0"))
    assert not (tmp_path / "c").exists()


def stretches(*seconds: tuple[float, float]) -> list[Stretch]:
    return [Stretch(round(a * RATE_HZ), round(b * RATE_HZ)) for a, b in seconds]


def starts(user: list[Stretch], other: list[Stretch]) -> list[tuple[str, str, int | None]]:
    def ms(placed: Placed) -> int | None:
        samples = placed.gap_samples if placed.at_samples is None else placed.at_samples
        return None if samples is None else samples // MS

    return [(one.kind, one.after, ms(one)) for one in place(user, other, RATE_HZ, lead_samples=40 * MS)]


def test_a_greeting_that_is_waited_for_and_one_that_is_broken_into() -> None:
    """The first turn's event is the session; into a greeting no onset leads, since no turn came before it."""
    assert starts(stretches((3.0, 4.0)), stretches((0.5, 2.5))) == [("speech", "reply", 2960)]
    assert starts(stretches((2.0, 4.0)), stretches((0.5, 2.5))) == [("interruption", "at", 1960)]


def test_an_overlap_is_longer_than_a_backchannel_and_stops_nobody() -> None:
    assert starts(stretches((0, 1), (3, 4.5)), stretches((2, 8)))[1] == ("overlap", "onset", 960)
    assert starts(stretches((0, 1), (3, 3.5)), stretches((2, 8)))[1] == ("backchannel", "onset", 960)
    assert starts(stretches((0, 1), (3, 3.5)), stretches((2, 4)))[1] == ("interruption", "onset", 960)


def test_a_backchannel_asks_nothing_so_the_next_onset_is_of_the_same_reply() -> None:
    user, other = stretches((0, 1), (3, 3.3), (5, 6.5)), stretches((2, 6.6))
    assert starts(user, other)[1:] == [("backchannel", "onset", 960), ("interruption", "onset", 2960)]


def test_a_user_who_comes_at_once_has_a_shorter_lead() -> None:
    """No gap is negative: the clip begins where the reply ends, or where the turn before does."""
    user, other = stretches((0, 1), (3.01, 4), (4.02, 5)), stretches((2, 3))
    assert starts(user, other)[1:] == [("speech", "reply", 0), ("speech", "speech", 0)]


def test_one_channel_tells_nothing_of_the_other_side(tmp_path: Path) -> None:
    mono = tmp_path / "mono.wav"
    soundfile.write(mono, lane(20, *USER), RATE_HZ)
    written = cut_call(Cut(mono, tmp_path, method="energy-1"))
    assert written.notes == (
        "it has one channel, which does not tell when the other side spoke: every turn starts 300 ms after the reply",
    )
    assert all(turn.keys() == {"audio"} for turn in read(written.script))
    same = tmp_path / "same.wav"
    soundfile.write(same, np.column_stack([lane(20, *USER)] * 2), RATE_HZ)
    assert "hold the same sound" in cut_call(Cut(same, tmp_path, method="energy-1")).notes[0]
    alone = tmp_path / "alone.wav"
    soundfile.write(alone, np.column_stack([lane(20, *USER), lane(20)]), RATE_HZ)
    assert "nothing is said on the other lane" in cut_call(Cut(alone, tmp_path, method="energy-1")).notes[0]


def test_six_channels_need_the_other_one_named(tmp_path: Path) -> None:
    call = tmp_path / "six.wav"
    quiet = lane(20)
    soundfile.write(call, np.column_stack([quiet, lane(20, *USER), quiet, quiet, lane(20, *OTHER), quiet]), RATE_HZ)
    unknown = cut_call(Cut(call, tmp_path / "a", lane="1", method="energy-1"))
    assert "it has 6 channels, and --other names none" in unknown.notes[0]
    known = cut_call(Cut(call, tmp_path / "b", lane="1", other="4", method="energy-1"))
    assert (known.notes, read(known.script)[2]["kind"]) == ((), "backchannel")


@pytest.mark.parametrize(
    ("rate_hz", "subtype"), [(8000, "PCM_U8"), (96_000, "PCM_16"), (44_100, "FLOAT"), (11_025, "PCM_24")]
)
def test_other_rates_and_sample_types_give_the_same_script(tmp_path: Path, rate_hz: int, subtype: str) -> None:
    """8-bit audio has no silence, only steps of −42 dBFS; those lie 35 dB below a tone."""
    written = cut_call(
        Cut(stereo(tmp_path / "call.wav", rate_hz=rate_hz, subtype=subtype), tmp_path, method="energy-1")
    )
    gaps = [turn["start"]["gap_ms"] for turn in read(written.script)]
    assert gaps == pytest.approx([960, 460, 960, 460, 1460, 1960], abs=6)
    ends = [turn.speech_end.offset_ns / 1e6 for turn in scripts.load_script(written.script).turns]
    assert ends[0] == pytest.approx(2040, abs=6)


def bad(path: Path, samples: NDArray[Any]) -> Path:
    soundfile.write(path, samples, RATE_HZ, subtype="FLOAT")
    return path


def test_bad_recordings_are_one_line(tmp_path: Path) -> None:
    nan = lane(2, (0.5, 1.0))
    nan[9000] = np.nan
    text = tmp_path / "text.wav"
    text.write_text("no audio")
    for path, words in (
        (bad(tmp_path / "none.wav", np.zeros((0, 2))), "it holds no samples. Give the recording of a call"),
        (bad(tmp_path / "nan.wav", nan), "samples that are not numbers"),
        (bad(tmp_path / "quiet.wav", np.zeros((8000, 2))), "no speech on the lane left"),
        (text, "it is not readable as audio"),
        (tmp_path / "nowhere.wav", "there is no such file"),
        (tmp_path, "it is a folder"),
    ):
        with pytest.raises(BadAudio, match=words):
            cut_call(Cut(path, tmp_path / "out", method="energy-1"))
    assert not (tmp_path / "out").exists()


def test_a_call_of_two_hours_is_cut_in_pieces_but_is_no_utterance(tmp_path: Path) -> None:
    path = tmp_path / "long.flac"
    minute = np.zeros((RATE_HZ * 60, 2), dtype=np.int16)
    with soundfile.SoundFile(str(path), "w", RATE_HZ, 2, subtype="PCM_16") as file:
        for number in range(120):
            part = minute.copy()
            if number in (0, 119):
                part[:, 0] = audio.to_pcm16(lane(60, (30.0, 31.0)))
            if number == 60:
                part[:, 1] = audio.to_pcm16(lane(60, (10.0, 12.0)))
            file.write(part)
    written = cut_call(Cut(path, tmp_path, method="energy-1"))
    first, second = read(written.script)
    assert first["start"] == {"after": "reply", "gap_ms": 29_960}
    # An hour and more is cut to the longest gap that a script knows.
    assert written.notes == ("turn 2 came 3558 s after what it followed; a script knows no gap above 600 s",)
    assert second["start"] == {"after": "reply", "gap_ms": 600_000}
    assert scripts.load_script(written.script).turns[1].clip.duration_s == pytest.approx(1.24)
    with pytest.raises(BadAudio, match=r"lasts more than 30 minutes, which is no utterance\. Cut it, or make a script"):
        scripts.script_from_audio([path])


def test_levels_find_stretches_across_the_pieces_of_a_long_lane() -> None:
    wave = lane(3, (0.9, 2.1)).astype(np.float32)
    pieces = [wave[:RATE_HZ], wave[RATE_HZ : 2 * RATE_HZ], wave[2 * RATE_HZ :]]
    assert by_level(pieces, RATE_HZ) == by_level([wave], RATE_HZ) == [Stretch(900 * MS, 2100 * MS)]
    click = lane(1, (0.5, 0.54)).astype(np.float32)
    assert by_level([click], RATE_HZ) == []
    assert by_level([], RATE_HZ) == []


def test_the_command_tells_each_turn(tmp_path: Path) -> None:
    call = stereo(tmp_path / "call.wav")
    arguments = ["from-recording", str(call), "--method", "energy-1", "--out", str(tmp_path / "out")]
    result = CliRunner().invoke(scripts_command, arguments)
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert " ".join(lines[2].split()) == "turn 3 backchannel 9.000 s to 9.400 s starts after onset 960 ms"
    assert lines[-1] == f"written: {tmp_path / 'out' / 'call.yaml'} (6 turns)"
    help_lines = CliRunner().invoke(scripts_command, ["from-recording", "--help"]).output.splitlines()
    assert len(help_lines) < 30


@pytest.mark.embedded
def test_silero_cuts_real_speech(tmp_path: Path) -> None:
    """Three shipped utterances on one lane, another voice's stand-in on the other: starts and ends within 100 ms."""
    turns = scripts.load_script("facts").turns
    user, other = np.zeros(24_000 * 14, dtype=np.int16), np.zeros(24_000 * 14, dtype=np.int16)
    for turn, at_s in zip(turns, (1, 6, 11), strict=True):
        user[at_s * 24_000 : at_s * 24_000 + len(turn.clip.pcm)] = turn.clip.pcm
    answer = scripts.load_script("small-talk").turns[0]
    for at_s in (4, 9):
        other[at_s * 24_000 : at_s * 24_000 + len(answer.clip.pcm)] = answer.clip.pcm
    call = tmp_path / "call.wav"
    soundfile.write(call, np.column_stack([user, other]), 24_000)
    written = cut_call(Cut(call, tmp_path))
    script = scripts.load_script(written.script)
    assert [turn.kind for turn in script.turns] == ["speech"] * 3
    assert [turn.start.after for turn in script.turns] == ["reply"] * 3
    assert {turn.speech_end.method for turn in script.turns} == {SILERO_1}
    for placed, turn, at_s in zip(written.placed, turns, (1, 6, 11), strict=True):
        assert placed.speech.first / 24_000 == pytest.approx(at_s + turn.onset_sample / 24_000, abs=0.1)
        assert placed.speech.stop / 24_000 == pytest.approx(at_s + turn.speech_end.offset_ns / 1e9, abs=0.2)
    answered_s = 6 - (4 + answer.speech_end.offset_ns / 1e9)
    assert script.turns[1].start.gap_ms / 1000 == pytest.approx(answered_s, abs=0.2)
