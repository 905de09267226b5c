"""The network's share through the commands: what a run keeps, shows and builds again; what users can mend."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import soundfile

from servers.app import serve
from servers.fronts.reflector import NoModel
from sessions.clock import MonotonicClock
from sessions.events import Pinged, Ponged, read_log
from tests.support.commands import run
from tests.support.peers import Wire, audio, created, done, greet, on_a_socket, request, tone

pytestmark = pytest.mark.sockets
CLOCK = MonotonicClock()
LENIENT = ("--limit-lateness", "60000")
"""No turn is invalid because this machine is busy."""


@pytest.fixture
def clip(tmp_path: Path) -> str:
    path = tmp_path / "hello.wav"
    soundfile.write(path, np.concatenate([tone(600), np.zeros(2400, dtype=np.int16)]), 24_000)
    return str(path)


async def answers(wire: Wire) -> None:
    await greet(wire)
    while True:
        await request(wire)
        await wire.send(created("r"))
        await wire.send(audio("r", tone(150)))
        await wire.send(done("r"))


async def test_a_run_beside_a_reflector(tmp_path: Path, clip: str) -> None:
    out = tmp_path / "run"
    async with on_a_socket(answers, CLOCK) as url, serve(NoModel(), front="reflector") as reflector:
        at = f"ws://{reflector.host}:{reflector.port}"
        ran = await run("measure", url, "--audio", clip, *LENIENT, "--reflector", at, "--out", str(out))
    assert ran.code == 0, ran.err
    for words in ("Connection, in no latency above", "ping to pong, through the server's own loop", "The path: "):
        assert words in " ".join(ran.out.split())
    summary = json.loads((out / "summary.json").read_text())
    network = summary["network"]
    assert network["pongs"] >= 1 and network["ping_before"]["distribution"]["n"] == 1
    path = network["path"]
    assert path["reflector"] == f"{at}/reflect"
    assert path["before"]["distribution"]["n"] == 20
    assert path["during"]["distribution"]["n"] >= 2
    voice_ms = summary["headline"]["measures"]["voice_to_voice_ms"]["distribution"]["p50"]
    assert path["voice_to_voice_less_path_ms"] == voice_ms - path["during"]["distribution"]["p50"]
    events = read_log(out / "dialogues/d0001/events.jsonl")
    pings = [event for event in events if isinstance(event, Pinged)]
    pongs = [event for event in events if isinstance(event, Ponged)]
    assert pings and pongs and pongs[0].id == pings[0].id and pongs[0].t_ns > pings[0].t_ns
    page = (out / "report.html").read_text()
    assert "the path during (reflector)" in page and "round trip before, ping to pong" in page
    before = (out / "summary.json").read_bytes()
    rebuilt = await run("report", str(out))
    assert rebuilt.code == 0, rebuilt.err
    assert (out / "summary.json").read_bytes() == before, "the figures come from the raw files alone"


async def test_a_reflector_that_is_not_there_costs_one_line(tmp_path: Path, clip: str) -> None:
    out = tmp_path / "run"
    async with on_a_socket(answers, CLOCK) as url:
        ran = await run("measure", url, "--audio", clip, *LENIENT, "--reflector", "ws://127.0.0.1:1", "--out", str(out))
    assert ran.code == 0, ran.err
    lines = [line for line in ran.err.splitlines() if "network's share is not measured" in line]
    assert len(lines) == 1 and "nothing listens" in lines[0]
    assert "The path: unavailable because the reflector ws://127.0.0.1:1/reflect: nothing listens" in " ".join(
        ran.out.split()
    )
    assert "unavailable because the reflector" in (out / "report.html").read_text().lower()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["measure", "ws://127.0.0.1:1", "--script", "facts", "--reflector", "host:8766"], "ws://HOST:PORT"),
        (["serve", "--reflector", "--asr", "whisper-tiny.en"], "--asr does not go with --reflector"),
        (["serve", "--reflector", "--metronome", "steady"], "--metronome does not go with --reflector"),
    ],
)
async def test_what_the_user_can_mend_is_one_line(arguments: list[str], says: str, tmp_path: Path) -> None:
    ran = await run(*arguments, cwd=tmp_path)
    assert ran.code == 2
    assert "Traceback" not in ran.err
    assert [line for line in ran.err.splitlines() if line.startswith("duologue: ") and says in line]
