"""Sidecars: what one holds, who overrides whom, when one is refused, and `duologue scripts annotate` that writes it."""

from __future__ import annotations

import hashlib
import json
import shlex
from pathlib import Path

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from harness.report.html.plan_section import command_line
from harness.runs.planning import Ask, make_plan, store_clips
from sessions import audio, scripts, sidecar
from sessions.errors import BadAudio, BadFile
from sessions.runs import RunFolder
from sessions.secrets import Secrets
from sessions.speech_end import ANNOTATION, ENERGY_1, SILERO_1, SpeechEnd
from tests.support.commands import Ran, run

RATE_HZ = 8000
SCRIPT = "version: 1\nname: one\nturns:\n  - audio: hello.wav\n"


def beep(speech_samples: int, samples: int) -> NDArray[np.float32]:
    wave = np.zeros(samples, dtype=np.float32)
    wave[:speech_samples] = 0.3 * np.cos(2 * np.pi * 1000 * np.arange(speech_samples) / RATE_HZ)
    return wave


@pytest.fixture
def hello(tmp_path: Path) -> Path:
    """A second at 8 kHz whose first half is sound."""
    path = tmp_path / "hello.wav"
    soundfile.write(path, beep(4000, 8000), RATE_HZ)
    return path


def turn_of(path: Path) -> scripts.ScriptTurn:
    return scripts.script_from_audio([path], rate_hz=RATE_HZ).turns[0]


def noted(path: Path) -> dict[str, object]:
    fields: dict[str, object] = json.loads(path.with_name(f"{path.name}.speech.json").read_text())
    return fields


async def refused(*arguments: str | Path) -> str:
    """The one line with which a command is refused."""
    ran = await run("scripts", "annotate", *map(str, arguments))
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.count("\n") == 1
    return ran.err


async def annotate(*arguments: str | Path) -> Ran:
    ran = await run("scripts", "annotate", *map(str, arguments))
    assert (ran.code, ran.err) == (0, "")
    return ran


# ---- reading ---------------------------------------------------------------------------------------------------------


def test_a_sidecar_is_written_whole_and_read_back(hello: Path) -> None:
    end = SpeechEnd(1234, RATE_HZ, ANNOTATION)
    path = sidecar.write(hello, end)
    assert path.name == "hello.wav.speech.json"
    assert noted(hello) == {
        "version": 1,
        "sha256": hashlib.sha256(hello.read_bytes()).hexdigest(),
        "speech_end_sample": 1234,
        "rate_hz": RATE_HZ,
        "by": "annotation",
    }
    assert sidecar.read(hello, audio.read(hello)) == end
    assert sorted(file.name for file in hello.parent.iterdir()) == ["hello.wav", "hello.wav.speech.json"]


def test_a_sidecar_overrides_detection_and_the_script_overrides_the_sidecar(hello: Path) -> None:
    assert turn_of(hello).speech_end == SpeechEnd(3999, RATE_HZ, ENERGY_1)
    sidecar.write(hello, SpeechEnd(3500, RATE_HZ, ANNOTATION))
    assert turn_of(hello).speech_end == SpeechEnd(3500, RATE_HZ, ANNOTATION)
    script = hello.with_name("one.yaml")
    script.write_text(SCRIPT)
    assert scripts.load_script(script).turns[0].speech_end == SpeechEnd(10_502, 24_000, ANNOTATION)
    script.write_text(f"{SCRIPT}    speech_end_sample: 3000\n")
    assert scripts.load_script(script, rate_hz=RATE_HZ).turns[0].speech_end == SpeechEnd(3000, RATE_HZ, ANNOTATION)


def test_an_end_that_a_method_found_keeps_the_methods_name(hello: Path) -> None:
    sidecar.write(hello, SpeechEnd(3500, RATE_HZ, SILERO_1))
    assert turn_of(hello).speech_end.method == SILERO_1


def test_only_audio_that_nobody_annotated_is_searched(hello: Path) -> None:
    searched = []

    def find(samples: audio.Pcm | audio.FloatPcm, rate_hz: int, *, name: str) -> SpeechEnd:
        searched.append(Path(name).name)
        return SpeechEnd(len(samples) - 1, rate_hz, "mine/1")

    other = hello.with_name("other.wav")
    soundfile.write(other, beep(1000, 2000), RATE_HZ)
    sidecar.write(hello, SpeechEnd(3500, RATE_HZ, ANNOTATION))
    turns = scripts.script_from_audio([hello, other], rate_hz=RATE_HZ, find_end=find).turns
    assert [turn.speech_end for turn in turns] == [
        SpeechEnd(3500, RATE_HZ, ANNOTATION),
        SpeechEnd(1999, RATE_HZ, "mine/1"),
    ]
    assert searched == ["other.wav"]


@pytest.mark.parametrize(
    ("field", "value", "problem"),
    [
        ("sha256", "0" * 64, "was written for other audio than hello.wav holds now (sha256 differs)"),
        ("sha256", "zz", "sha256"),
        ("rate_hz", 16_000, "says 16000 Hz, but hello.wav has 8000 Hz"),
        ("speech_end_sample", 8000, "sample 8000 is not in hello.wav, which has 8000"),
        ("speech_end_sample", -1, "speech_end_sample"),
        ("version", 2, "version"),
        ("by", "somebody", "by"),
        ("author", "me", "author"),
    ],
)
def test_a_sidecar_that_does_not_fit_is_refused_in_one_line(
    hello: Path, field: str, value: object, problem: str
) -> None:
    path = sidecar.write(hello, SpeechEnd(1234, RATE_HZ, ANNOTATION))
    path.write_text(json.dumps(noted(hello) | {field: value}))
    with pytest.raises(BadAudio) as caught:
        turn_of(hello)
    text = str(caught.value)
    assert problem in text
    assert str(path) in text
    assert "duologue scripts annotate --force" in text
    assert "\n" not in text


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[1]"])
def test_a_damaged_sidecar_is_no_bug(hello: Path, content: bytes) -> None:
    sidecar.path_of(hello).write_bytes(content)
    with pytest.raises(BadAudio, match="cannot use"):
        turn_of(hello)


def test_a_sidecar_that_cannot_be_read_is_refused(hello: Path) -> None:
    sidecar.path_of(hello).mkdir()
    with pytest.raises(BadAudio, match="cannot read"):
        turn_of(hello)


def test_a_stale_sidecar_is_named_with_the_scripts_line(hello: Path) -> None:
    sidecar.write(hello, SpeechEnd(1234, RATE_HZ, ANNOTATION))
    soundfile.write(hello, beep(2000, 8000), RATE_HZ)
    script = hello.with_name("one.yaml")
    script.write_text(SCRIPT)
    with pytest.raises(BadFile, match=r"one\.yaml:4: turns\[0\]\.audio: .*sha256 differs") as caught:
        scripts.load_script(script)
    assert caught.value.line == 4


# ---- the command -----------------------------------------------------------------------------------------------------


async def test_a_method_finds_the_end_and_the_levels_tell_whether_it_is_right(hello: Path) -> None:
    ran = await annotate(hello)
    assert noted(hello)["speech_end_sample"] == 3999
    assert noted(hello)["by"] == "speech_end/energy-1"
    again = f"duologue scripts annotate {shlex.quote(str(hello))} --force --at 3999"
    assert ran.out.splitlines() == [
        f"{hello}: speech ends at 0.500 s of 1.000 s (sample 3999 at 8000 Hz, by speech_end/energy-1)",
        "  level in dBFS: loudest 5 ms −13.5, 100 ms before the end −13.5, last 5 ms −13.5, "
        "next 5 ms (digital silence), 100 ms after (digital silence)",
        f"  once you have checked it, make it yours: {again}",
        f"  written: {hello}.speech.json",
    ]


@pytest.mark.parametrize(
    ("at", "index"), [("3600", 3600), ("0", 0), ("0.45", 3599), (".45s", 3599), ("1s", 7999), ("0.0001", 0)]
)
async def test_the_end_can_be_said(hello: Path, at: str, index: int) -> None:
    ran = await annotate(hello, "--at", at)
    assert noted(hello)["by"] == "annotation"
    assert turn_of(hello).speech_end == SpeechEnd(index, RATE_HZ, ANNOTATION)
    assert f"(sample {index} at 8000 Hz, by annotation)" in ran.out
    assert "make it yours" not in ran.out
    assert ("(the file ends)" in ran.out) == (index == 7999)


@pytest.mark.parametrize(
    ("at", "problem"),
    [
        ("8000", "is not in"),
        ("0.0", "is not in"),
        ("2s", "which has 8000 samples at 8000 Hz, 1.000 s"),
        ("-1", "neither a sample nor seconds"),
        ("1e3", "neither a sample nor seconds"),
        ("soon", "neither a sample nor seconds"),
    ],
)
async def test_an_end_outside_the_audio_is_refused(hello: Path, at: str, problem: str) -> None:
    assert problem in await refused(hello, f"--at={at}")
    assert not sidecar.path_of(hello).exists()


async def test_a_note_is_overwritten_only_when_that_is_asked_for(hello: Path) -> None:
    await annotate(hello, "--at", "3000")
    assert "is there already. Write over it with --force" in await refused(hello, "--at", "3100")
    assert noted(hello)["speech_end_sample"] == 3000
    await annotate(hello, "--at", "3100", "--force")
    assert noted(hello)["speech_end_sample"] == 3100
    soundfile.write(hello, beep(2000, 8000), RATE_HZ)  # the note is for other audio now, and can still be replaced
    await annotate(hello, "--force")
    assert turn_of(hello).speech_end == SpeechEnd(1999, RATE_HZ, ENERGY_1)


async def test_of_several_files_either_all_are_annotated_or_none(hello: Path) -> None:
    silent = hello.with_name("silent.wav")
    soundfile.write(silent, np.zeros(8000), RATE_HZ)
    assert "no speech in" in await refused(hello, silent)
    assert "there is no such file" in await refused(hello, hello.with_name("absent.wav"))
    assert not sidecar.path_of(hello).exists()
    assert "--at is the end of one file" in await refused(hello, silent, "--at", "5")
    assert "--at is the end of one file" in await refused(hello, "--at", "5", "--method", "energy-1")


# ---- a run -----------------------------------------------------------------------------------------------------------


def test_a_run_keeps_ends_beside_its_clips_so_that_it_can_be_repeated(hello: Path, tmp_path: Path) -> None:
    sidecar.write(hello, SpeechEnd(3500, RATE_HZ, ANNOTATION))
    script = scripts.script_from_audio([hello])
    plan = make_plan(Ask("ws://127.0.0.1:9", [script]), Secrets(), {})
    folder = RunFolder.create(tmp_path / "run", plan)
    store_clips(folder, [script])
    [turn] = scripts.script_from_audio([folder.clip(script.turns[0].sha256)]).turns
    assert (turn.speech_end, turn.sha256) == (script.turns[0].speech_end, script.turns[0].sha256)
    assert "--speech-end" not in command_line(plan)
    folder.discard()
    assert not folder.path.exists()
