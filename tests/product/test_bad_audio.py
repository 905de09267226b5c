"""Audio that is odd or broken, given to every command that takes some: taken as it is, or one line and exit code 2."""

from __future__ import annotations

import contextlib
import io
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile

from harness.cli.main import main
from tests.support.peers import tone

RATE_HZ = 8000
HOURS = "two hours"


def call(seconds: float = 12, rate_hz: int = RATE_HZ) -> np.ndarray[Any, np.dtype[np.float64]]:
    """(samples, 2): the user from 1 to 3 s, the agent from 4 to 6 s, and again."""
    t = np.arange(round(seconds * rate_hz)) / rate_hz
    user = np.isin(t // 1, [1, 2, 7, 8]) * 0.3 * np.sin(2 * np.pi * 440 * t)
    agent = np.isin(t // 1, [4, 5, 10]) * 0.3 * np.sin(2 * np.pi * 300 * t)
    return np.column_stack([user, agent])


def written(samples: Any, rate_hz: int = RATE_HZ, subtype: str = "PCM_16") -> Callable[[Path], None]:
    return lambda path: soundfile.write(path, samples, rate_hz, subtype=subtype)


def with_nan() -> np.ndarray[Any, np.dtype[np.float64]]:
    samples = call()
    samples[9000, :] = np.nan
    return samples


def long(path: Path) -> None:
    """In an 8-bit file of 1 000 Hz, so that it is small; what is said in it is said in its first seconds."""
    with wave.open(str(path), "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(1)
        file.setframerate(1000)
        head = np.clip(np.rint(call(12, 1000) * 127 + 128), 0, 255).astype(np.uint8)
        file.writeframes(head.tobytes() + bytes([128]) * (2 * 1000 * (7200 - 12)))


def six() -> np.ndarray[Any, np.dtype[np.float64]]:
    lanes, quiet = call(), np.zeros(len(call()))
    return np.column_stack([quiet, lanes[:, 0], quiet, quiet, lanes[:, 1], quiet])


MAKE: dict[str, Callable[[Path], None]] = {
    "0 samples": written(np.zeros((0, 2))),
    "NaN": written(with_nan(), subtype="FLOAT"),
    "8 bit": written(call(), subtype="PCM_U8"),
    "96 kHz": written(call(rate_hz=96_000), 96_000),
    "6 channels": written(six()),
    HOURS: long,
}
NONE, NUMBERS = "it holds no samples", "samples that are not numbers (NaN or infinite)"
UTTERANCE = "lasts more than 30 minutes, which is no utterance"
SAID: dict[str, dict[str, str]] = {
    # What a command says where it refuses; "" where it takes the audio.
    "measure --audio": {"0 samples": NONE, "NaN": NUMBERS, HOURS: UTTERANCE},
    "talk --script": {"0 samples": NONE, "NaN": NUMBERS, HOURS: UTTERANCE},
    "scripts check": {"0 samples": NONE, "NaN": NUMBERS, HOURS: UTTERANCE},
    "scripts annotate": {"0 samples": NONE, "NaN": NUMBERS, HOURS: UTTERANCE},
    "scripts from-recording": {"0 samples": NONE, "NaN": NUMBERS},
    "analyze": {
        "0 samples": NONE,
        "NaN": NUMBERS,
        "6 channels": "has 6 channels. Name the two with --lane and --other",
    },
}
NOBODY = "nothing listens"
"""What a command that speaks to a server says once it has taken the audio, for there is none."""


def arguments(command: str, path: Path) -> list[str]:
    script = path.with_name("s.yaml")
    script.write_text(f"version: 1\nname: s\nturns:\n  - {{audio: {path.name}}}\n")
    nowhere = "ws://127.0.0.1:1"
    return {
        "measure --audio": ["measure", nowhere, "--audio", str(path), "--out", str(path.with_name("run"))],
        "talk --script": ["talk", nowhere, "--script", str(script), "--out", str(path.with_name("run"))],
        "scripts check": ["scripts", "check", str(script)],
        "scripts annotate": ["scripts", "annotate", str(path)],
        "scripts from-recording": [
            *("scripts", "from-recording", str(path), "--out", str(path.with_name("cut"))),
            *("--lane", "1" if "6" in path.name else "left", "--method", "energy-1"),
        ],
        "analyze": ["analyze", str(path), "--method", "energy-1"],
    }[command]


def run(command: list[str]) -> tuple[int, str]:
    """Exit code and everything that was printed."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), pytest.raises(SystemExit) as left:
        main(command)
    return int(left.value.code or 0), out.getvalue() + err.getvalue()


@pytest.mark.parametrize("kind", MAKE)
@pytest.mark.parametrize("command", SAID)
def test_every_command_takes_it_or_says_in_one_line_what_is_wrong(
    tmp_path: Path, command: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DUOLOGUE_CALIBRATION", "off")
    path = tmp_path / f"{kind}.wav"
    MAKE[kind](path)
    code, said = run(arguments(command, path))
    expected = SAID[command].get(kind, "")
    if not expected and command in ("measure --audio", "talk --script"):
        expected = NOBODY
    assert "Traceback" not in said
    if expected:
        assert code == 2
        (line,) = [line for line in said.splitlines() if expected in " ".join(line.split())]
        assert kind in line or expected == NOBODY
        assert not (tmp_path / "run").exists() and not (tmp_path / "cut").exists()
    else:
        assert code == 0, said


def test_a_clip_of_no_sound_at_all_is_told(tmp_path: Path) -> None:
    soundfile.write(tmp_path / "quiet.wav", tone(500) * 0, 24_000)
    code, said = run(arguments("measure --audio", tmp_path / "quiet.wav"))
    assert code == 2 and "quiet.wav" in said and "Traceback" not in said
