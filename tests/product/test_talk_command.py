"""`duologue talk` as a process, against the metronome on loopback: what it performs, and one-line errors."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
import soundfile

from servers.app import serve
from servers.models.metronome import load_metronome
from sessions.events import Flushed, TurnStarted, read_log
from sessions.runs import RunFolder
from tests.support.commands import CALM, run
from tests.support.peers import tone

pytestmark = pytest.mark.sockets

BEHAVIOUR = """\
version: 1
reply: {delay_ms: 50, duration_ms: 2500, packet_ms: 40}
hearing: {delay_ms: 150, deaf_to: [1]}
"""
SCRIPT = """\
version: 1
name: short
turns:
  - {audio: hello.wav}
  - {audio: hello.wav, kind: noise, watch_ms: 100, start: {after: onset, gap_ms: 300}}
  - {audio: hello.wav, kind: interruption, start: {after: onset, gap_ms: 1200}}
  - {silence_ms: 300, watch_ms: 0}
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    soundfile.write(tmp_path / "hello.wav", np.concatenate([tone(300), np.zeros(2400, dtype=np.int16)]), 24_000)
    (tmp_path / "short.yaml").write_text(SCRIPT)
    (tmp_path / "stops.yaml").write_text(BEHAVIOUR)
    return str(tmp_path / "short.yaml")


@pytest.mark.parametrize("command", [["talk"], ["measure", "--turn-detection", "server_vad"], ["measure"]])
async def test_talk_and_measure_perform_what_a_script_says(tmp_path: Path, script: str, command: list[str]) -> None:
    out = tmp_path / "run"
    async with serve(load_metronome(tmp_path / "stops.yaml")) as server:
        name, *options = command
        ran = await run(name, server.url, *options, *CALM, "--script", script, "--out", str(out))
    assert ran.code == 0, ran.err
    assert "turn-taking" in ran.out
    events = read_log(RunFolder.open(out).dialogue("d0001") / "events.jsonl")
    turns = [event for event in events if isinstance(event, TurnStarted)]
    assert [turn.turn_kind for turn in turns] == ["speech", "noise", "interruption", "silence"]
    (flush,) = (event for event in events if isinstance(event, Flushed))
    assert (flush.turn, flush.why) == (2, "cancel" if command == ["measure"] else "server")
    with (out / "turns.csv").open() as file:
        outcomes = [row["outcome"] for row in csv.DictReader(file)]
    assert outcomes == ["interrupted", "quiet as scripted", "answered", "quiet as scripted"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["talk", "ws://127.0.0.1:1"], "--script"),
        (["talk", "ws://127.0.0.1:1", "--script", "barge"], "barge-in"),
        (["talk", "ws://127.0.0.1:1", "--script", "all"], "nothing listens"),
    ],
)
async def test_what_the_user_can_mend_is_one_line(arguments: list[str], says: str, tmp_path: Path) -> None:
    ran = await run(*arguments, *CALM, "--out", str(tmp_path / "run"))
    assert ran.code == 2
    assert says in ran.err.splitlines()[-1]
    assert "Traceback" not in ran.err
