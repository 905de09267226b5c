"""The accuracy benchmark's own truth: what it holds to have happened, and how it judges what clients report."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import numpy as np
import pytest
from websockets.asyncio.client import connect

from benchmarks.accuracy.material import Reported, write_behaviour, write_clips
from benchmarks.accuracy.truth import Truth, judge, read_truth, spread
from benchmarks.peers import plain_script
from benchmarks.peers.environment import interpreter_for
from benchmarks.peers.hearing import HearingMetronome, HearingServer
from benchmarks.peers.server import PEER_FRONTS
from servers.app import serve
from servers.fronts.table import FRONTS
from servers.models.behaviour import load_behaviour
from servers.speech_model import Stage, UserTurn
from servers.write_log import WriteLog
from sessions.clock import NS_PER_MS, MonotonicClock

PEER_FIGURES = [("voicebench", True), ("voice-evals", False), ("speech-to-speech-client", False)]
"""With whether it has a voice-to-voice of its own."""
PEERS = Path(plain_script.__file__).parent


@pytest.fixture
def place(tmp_path: Path) -> Path:
    write_clips(tmp_path / "clips")
    write_behaviour(tmp_path)
    return tmp_path


@asynccontextmanager
async def metronome(place: Path, front: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    for name, where in PEER_FRONTS.items():
        monkeypatch.setitem(FRONTS, name, where)
    model = HearingServer(load_behaviour(place / "metronome.yaml"), MonotonicClock())
    async with serve(model, front=front, write_log=WriteLog(place / "log.jsonl", keep=False)) as running:
        yield running.url


def truth_in(place: Path) -> dict[str, Truth]:
    return read_truth(place / "log.jsonl", load_behaviour(place / "metronome.yaml"))


async def test_speech_ended_with_its_last_sample_whatever_follows_it(place: Path) -> None:
    model = HearingMetronome(load_behaviour(place / "metronome.yaml"), MonotonicClock())
    frame = np.ones(480, np.int16)
    frame[240:] = 0
    model.hear(frame, 50 * NS_PER_MS)
    model.hear(np.zeros(480, np.int16), 70 * NS_PER_MS)
    pieces = model.reply(UserTurn(frame[:0], 0, 0))
    assert [await anext(pieces), await anext(pieces)] == [
        Stage("heard", 40 * NS_PER_MS),
        Stage("ahead", 60 * NS_PER_MS),
    ]
    await pieces.aclose()


def test_each_definition_judges_by_its_own_instants() -> None:
    ms = NS_PER_MS
    truths = {"a": Truth(100 * ms, 120 * ms, 300 * ms, 360 * ms, 380 * ms)}
    warm_up, late = Reported(0, "a", 1.0, 1.0), Reported(2, "a", 1.0, 1.0, late=True)
    of_voicebench = [warm_up, late, Reported(1, "a", 241.0, 255.0), Reported(3, "never logged", 1.0)]
    found = judge(of_voicebench, truths, "ahead", sounding=True).errors
    assert found == {
        ("first packet", "own"): [1.0],
        ("first packet", "ours"): [41.0],
        ("voice-to-voice", "own"): [-5.0],
        ("voice-to-voice", "ours"): [-25.0],
    }
    of_a_script = judge([Reported(1, "a", 201.5)], truths, "heard", sounding=False).errors
    assert of_a_script == {
        ("first packet", "own"): [1.5],
        ("first packet", "ours"): [1.5],
        ("voice-to-voice", "ours"): [-78.5],
    }
    of_ours = judge([Reported(1, "a", 202.0, 282.0, speech_end_ns=99 * ms)], truths, "told", sounding=False).errors
    assert of_ours["first packet", "own"] == [1.0] and of_ours["voice-to-voice", "ours"] == [2.0]


def test_no_p99_of_few_errors() -> None:
    few, enough = spread([-3.0, 1.0]), spread([1.0, -1.0] * 50)
    assert (few.n, few.bias, few.p50, few.p99, few.largest) == (2, -1.0, 2.0, None, 3.0)
    assert (enough.bias, enough.p99) == (0.0, 1.0)


@pytest.mark.sockets
async def test_silence_ends_a_turn_of_raw_audio_and_the_log_knows_the_reply(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clip = plain_script.read_clip(place / "clips" / "clip-0.wav")
    async with metronome(place, "voicebench", monkeypatch) as url, connect(f"{url}?session=me", proxy=None) as ws:
        begun_ns = MonotonicClock().now_ns()
        await ws.send(clip)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(ws.recv(), 0.01)
        await ws.send(bytes(2 * 1440))
        heard = 0
        while heard < 24 * 120:
            packet = await ws.recv()
            assert isinstance(packet, bytes)
            heard += len(packet) // 2
        ended_ns = MonotonicClock().now_ns()
    truth = truth_in(place)["me#0"]
    assert begun_ns <= truth.heard_ns <= truth.first_packet_ns == truth.sounding_ns <= ended_ns
    assert truth.audible_ns >= truth.first_packet_ns


@pytest.mark.sockets
@pytest.mark.parametrize("variant", ["wall", "perf"])
async def test_the_plain_script_measures_replies_that_the_log_knows(
    place: Path, monkeypatch: pytest.MonkeyPatch, variant: str
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    clips = [plain_script.read_clip(path) for path in sorted((place / "clips").glob("*.wav"))]
    async with metronome(place, "openai-realtime", monkeypatch) as url:
        found = await plain_script.converse(variant, url, clips, 2, 0)
    reported = msgspec.convert(found, list[Reported])
    errors = judge(reported, truth_in(place), "heard", sounding=False).errors
    # The second reply begins with 60 ms of silence, which the script does not look for.
    assert len(errors["first packet", "ours"]) == 1
    assert errors["voice-to-voice", "ours"][0] <= errors["first packet", "ours"][0] - 59


@pytest.mark.peer
@pytest.mark.sockets
@pytest.mark.parametrize(("peer", "both"), PEER_FIGURES)
async def test_a_peer_reports_on_replies_that_the_log_knows(
    place: Path, monkeypatch: pytest.MonkeyPatch, peer: str, both: bool
) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    python = await asyncio.to_thread(interpreter_for, peer)
    driver = PEERS / f"drive_{peer.removesuffix('-client').replace('-', '_')}.py"
    clips = place / "clips"
    if peer == "speech-to-speech-client":
        clips = place / "clips-16000"
        write_clips(clips, 16_000)
    async with metronome(place, peer, monkeypatch) as url:
        command = [str(python), "-I", str(driver), url, str(clips), "2", "3", "here"]
        ran = await asyncio.to_thread(subprocess.run, command, capture_output=True, timeout=60)
    assert ran.returncode == 0, ran.stderr.decode()
    reported = msgspec.json.decode(ran.stdout, type=list[Reported])
    errors = judge(reported, truth_in(place), "ahead", sounding=both).errors
    figures = [("first packet", "own"), ("first packet", "ours"), ("voice-to-voice", "ours")]
    expected = {*figures, ("voice-to-voice", "own")} if both else set(figures)
    assert set(errors) == expected and {len(of_one) for of_one in errors.values()} == {4}
