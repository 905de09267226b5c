"""`duologue talk --mic` as a process, with real sound devices made of software, against the metronome on loopback."""

from __future__ import annotations

import asyncio
import csv
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from harness.check.run import check_run
from harness.cli.main import main
from servers.app import serve
from servers.models.metronome import load_metronome
from servers.write_log import WriteLog
from sessions.clock import NS_PER_MS
from sessions.events import LaneAt, Played, TurnStarted, read_log
from sessions.runs import RunFolder
from sessions.scripts import ScriptTurn, load_script
from tests.support import commands
from tests.support.commands import CALM, run
from tests.support.sound_server import SoundServer, sound_server

pytestmark = pytest.mark.sockets

BEHAVIOUR = """\
version: 1
reply: {delay_ms: 150, duration_ms: 700, packet_ms: 40, leading_noise_dbfs: -20, leading_silence_ms: 300}
"""
"""The reply begins with noise: it is found again in one place only, and so tells where in time it is heard."""
WAIT_S = 60
NEAR_MS = 150
"""By level the end of speech is found to a few blocks of 5 ms; where the voice fades, to some tens of them."""


@pytest.fixture
async def sound() -> AsyncIterator[SoundServer]:
    with tempfile.TemporaryDirectory(prefix="pa-") as folder:
        async with sound_server(Path(folder)) as server:
            yield server


async def until_said(process: asyncio.subprocess.Process, word: str, said: list[str]) -> None:
    """Read the process's screen up to a line with `word`."""
    assert process.stderr is not None
    async with asyncio.timeout(WAIT_S):
        while line := (await process.stderr.readline()).decode():
            said.append(line.rstrip())
            if word in line:
                return
    raise AssertionError(f"it ended without {word!r}: {said}")


async def until_done(log: WriteLog, replies: int) -> None:
    """So many replies have ended, and were heard, by the recorder too."""
    async with asyncio.timeout(WAIT_S):
        while sum(entry.type == "response.done" for entry in log.entries) < replies:
            await asyncio.sleep(0.05)
    await asyncio.sleep(0.5)


@pytest.mark.parametrize("turn_detection", ["server_vad", "manual"])
async def test_a_person_converses(tmp_path: Path, sound: SoundServer, turn_detection: str) -> None:
    (tmp_path / "noisy.yaml").write_text(BEHAVIOUR)
    out, said = tmp_path / "run", list[str]()
    turns, log = load_script("facts").turns[:2], WriteLog()
    async with serve(load_metronome(tmp_path / "noisy.yaml"), write_log=log) as server:
        arguments = (server.url, "--mic", "--turn-detection", turn_detection, *CALM, "--out", str(out))
        process = await commands.start("talk", *arguments, extra=sound.environment)
        await until_said(process, "speak now", said)
        for index, turn in enumerate(turns, 1):
            sound.speak(turn.clip.pcm)
            await until_said(process, f"turn {index}: you spoke", said)
            await until_done(log, index)
        process.send_signal(signal.SIGINT)
        screen, rest = await asyncio.wait_for(process.communicate(), WAIT_S)
    assert process.returncode == 0, rest
    assert b"2 completed" in screen
    folder = RunFolder.open(out)
    assert check_run(folder).problems == []
    with (out / "turns.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["outcome"] for row in rows] == ["answered"] * 2
    events = read_log(folder.dialogue("d0001") / "events.jsonl")
    started = [e for e in events if isinstance(e, TurnStarted)]
    _latencies_are_the_metronomes(started, rows, log)
    _speech_ends_where_it_was_said(folder, started, turns)
    _the_agent_was_heard(sound.loudspeaker)
    assert len([e for e in events if isinstance(e, Played) and e.first_sample == 0]) == 2
    assert [e for e in events if isinstance(e, LaneAt)]
    ran = await run("rescore", str(out))
    assert ran.code == 0 and "changed" not in ran.out, ran.out


def _latencies_are_the_metronomes(turns: list[TurnStarted], rows: list[dict[str, str]], log: WriteLog) -> None:
    """Both processes share one clock: what the metronome wrote, and when, is what was measured."""
    writes = [entry for entry in log.entries if entry.type == "response.output_audio.delta"]
    for turn, row in zip(turns, rows, strict=True):
        first_ns = min(entry.t_ns for entry in writes if entry.t_ns > turn.speech_end_ns)
        true_ms = (first_ns - turn.speech_end_ns) / NS_PER_MS
        off_ms = float(row["first_packet_ms"]) - true_ms
        sys.stdout.write(f"first packet: {true_ms:.3f} ms by the metronome's own log, measured {off_ms:+.3f} ms\n")
        assert off_ms >= 0


def _speech_ends_where_it_was_said(folder: RunFolder, turns: list[TurnStarted], spoken: Sequence[ScriptTurn]) -> None:
    """The last 300 ms of each utterance are found in the lane by correlation; its end is known to the sample."""
    lane, _ = soundfile.read(folder.dialogue("d0001") / "microphone.flac", dtype="int16")
    for turn, script_turn in zip(turns, spoken, strict=True):
        assert turn.lane_sample is not None
        index = script_turn.speech_end.index_samples
        tail = script_turn.clip.pcm[index + 1 - 7200 : index + 1]
        near = max(0, turn.lane_sample + turn.last_sample - 48_000)
        end = near + int(_match(lane[near : near + 72_000], tail).argmax()) + 7199
        off = turn.lane_sample + turn.last_sample - end
        sys.stdout.write(f"end of speech: {off / 24:+.1f} ms from the annotation\n")
        assert abs(off) < 24 * NEAR_MS


def _the_agent_was_heard(loudspeaker: NDArray[np.int16]) -> None:
    """The reply's own noise, twice, by correlation."""
    noise = np.random.default_rng(1).standard_normal(7200) * 10 ** (-20 / 20) * 32767
    products = _match(loudspeaker, noise)
    floor = float(np.median(products))
    first = int(products.argmax())
    products[max(0, first - 7200) : first + 7200] = 0
    second = int(products.argmax())
    assert products[second] > 20 * floor
    assert abs(first - second) > 24_000


def _match(where: NDArray[Any], what: NDArray[Any]) -> NDArray[np.float64]:
    """How well `what` (samples,) fits in `where` (samples,), by the index at which it begins."""
    size = 1 << (len(where) + len(what)).bit_length()
    spectrum = np.fft.rfft(where.astype(np.float64), size) * np.conj(np.fft.rfft(what.astype(np.float64), size))
    return np.asarray(np.abs(np.fft.irfft(spectrum, size)[: len(where)]), dtype=np.float64)


async def test_what_cannot_be_had_is_one_line(tmp_path: Path, sound: SoundServer) -> None:
    listed = await run("talk", "--devices", extra=sound.environment)
    assert listed.code == 0 and "default" in listed.out
    for arguments, says in (
        (["--input-device", "nowhere"], "--devices"),
        (["--out", str(tmp_path / "run"), *CALM], "nothing listens"),
    ):
        ran = await run("talk", "ws://127.0.0.1:1", "--mic", *arguments, extra=sound.environment)
        assert ran.code == 2, ran.err
        assert says in ran.err.splitlines()[-1], ran.err
        assert "Traceback" not in ran.err
    assert not (tmp_path / "run").exists()  # the next try may have the same place


NO_DEVICES = """\
class PortAudioError(Exception): ...
def query_devices(*which):
    if which:
        raise PortAudioError("Error querying device -1")
    return ()
"""


@pytest.mark.parametrize(
    ("module", "says"),
    [
        ("raise ImportError('no such module')", "pip install 'duologue[mic]'"),
        ("raise OSError('PortAudio library not found')", "apt-get install libportaudio2"),
        (NO_DEVICES, "no microphone"),
    ],
)
def test_a_machine_without_sound_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], module: str, says: str
) -> None:
    """What sounddevice does without itself, without PortAudio, without devices."""
    (tmp_path / "sounddevice.py").write_text(module)
    monkeypatch.delitem(sys.modules, "sounddevice", raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    with pytest.raises(SystemExit) as ended:
        main(["talk", "ws://127.0.0.1:1", "--mic"])
    monkeypatch.delitem(sys.modules, "sounddevice", raising=False)
    assert ended.value.code == 2
    assert says in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["ws://127.0.0.1:1", "--mic", "--script", "facts"], "--script does not go with --mic"),
        (["ws://127.0.0.1:1", "--mic", "--repeat", "2"], "--repeat does not go with --mic"),
        (["--mic", "--resume", "runs/one"], "--resume does not go with --mic"),
        (["ws://127.0.0.1:1", "--mic", "--limit-idle", "5"], "--limit-idle does not go with --mic"),
        (["ws://127.0.0.1:1", "--end-after", "300", "--script", "facts"], "--end-after goes with --mic"),
        (["--mic"], "no target"),
    ],
)
def test_what_does_not_go_together_is_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[str], says: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["talk", *arguments])
    assert ended.value.code == 2
    assert says in capsys.readouterr().err.splitlines()[-1]
