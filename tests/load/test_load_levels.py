"""Sweeps and searches: on the virtual clock against servers of k places, and as a command."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import msgspec
import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from harness.compare.slo import parse_slo
from harness.load.levels import Ladder, Levels
from harness.load.search import highest_that_holds
from harness.results.finish import FinishedRun, finish_run
from sessions.clock import MonotonicClock
from sessions.errors import SetupError
from sessions.runs import Load, RunFolder
from tests.support.commands import CALM
from tests.support.commands import run as run_command
from tests.support.load_runs import Full, Workers, hold, make_run
from tests.support.peers import Peer, on_a_socket, tone

CLOCK = MonotonicClock()


@given(limit=st.integers(0, 300), most=st.integers(1, 300))
def test_the_search_is_exact_or_narrow(limit: int, most: int) -> None:
    asked: list[int] = []

    def holds(level: int) -> bool:
        asked.append(level)
        return level <= limit

    found = highest_that_holds(holds, most=most)
    wanted = min(limit, most)
    assert wanted - max(0, int(0.05 * wanted)) <= found <= wanted
    assert len(asked) == len(set(asked)) <= 18
    assert found == 0 or found in asked


def ladder(place: Path, peer: Callable[[], Peer], *slos: str, repeat: int = 6) -> Ladder:
    place.mkdir()

    def perform(sessions: int) -> FinishedRun:
        made = make_run(place / f"sessions-{sessions:04d}", Load(sessions=sessions), repeat * sessions)
        hold(made, peer)
        return finish_run(made)

    return Ladder(place, "ws://memory", [parse_slo(text) for text in slos], perform)


@pytest.mark.parametrize("k", [1, 3, 6])
def test_the_search_finds_the_places_of_a_server(tmp_path: Path, k: int) -> None:
    """k workers, 300 ms each: one more session than workers, and somebody waits."""
    found = ladder(tmp_path / "found", lambda: Workers(k), "voice_to_voice max <= 300ms").search(64)
    assert found.highest is not None and abs(found.highest - k) <= 1
    assert found == msgspec.json.decode((tmp_path / "found" / "levels.json").read_bytes(), type=Levels)
    assert all((tmp_path / "found" / level.run / "summary.json").exists() for level in found.levels)


def test_the_search_finds_where_a_server_refuses(tmp_path: Path) -> None:
    found = ladder(tmp_path / "found", lambda: Full(5), "failed <= 0%").search(64)
    assert found.highest == 5


def test_nothing_holds(tmp_path: Path) -> None:
    found = ladder(tmp_path / "found", lambda: Workers(9), "voice_to_voice max < 100ms").search(64)
    assert found.highest == 0 and len(found.levels) == 1
    assert found.levels[0].why == ["max = 300 ms (over 6 turns), not < 100 ms"]


def test_too_few_turns_for_the_figure_are_said_so(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"with 1 session the objective cannot be told: p95 cannot be told.*--repeat"):
        ladder(tmp_path / "found", lambda: Workers(9), "voice_to_voice p95 < 900ms").search(64)


def test_a_sweep_takes_every_level_and_judges_it(tmp_path: Path) -> None:
    found = ladder(tmp_path / "found", lambda: Workers(2), "first_packet max < 301ms").sweep([1, 4, 2])
    assert [(level.sessions, level.held) for level in found.levels] == [(1, True), (4, False), (2, True)]
    assert [level.turns for level in found.levels] == [6, 24, 12]
    assert found.levels[0].figures["first_packet_ms"] == {"p50": 300.0, "max": 300.0}
    assert found.highest is None


@pytest.mark.sockets
async def test_the_command_prints_levels_and_keeps_each_run(tmp_path: Path) -> None:
    clip, out = tmp_path / "clip.wav", tmp_path / "levels"
    soundfile.write(clip, np.concatenate([tone(200), np.zeros(100, dtype=np.int16)]), 24_000)
    async with on_a_socket(Workers(100), CLOCK) as url:
        ran = await run_command("measure", url, *CALM, "--audio", str(clip), "--sweep", "1,3", "--out", str(out))
        assert ran.code == 0, ran.err
        again = await run_command("measure", url, *CALM, "--audio", str(clip), "--sweep", "1,3", "--out", str(out))
    assert again.code == 2 and "already holds levels" in again.err
    assert "sessions" in ran.out and "voice-to-voice" in ran.out
    table, _, below = ran.out.partition("The clock was not checked beside this run.")
    assert max(len(line) for line in table.splitlines()) <= 80
    assert "speech end by speech_end/energy-1: itself off by p50" in below
    kept = json.loads((out / "levels.json").read_text())
    assert [level["turns"] for level in kept["levels"]] == [1, 3]
    assert RunFolder.open(out / "sessions-0003").plan.load == Load(sessions=3)
    assert (out / "sessions-0001" / "report.html").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--sweep", "1,x"], "--sweep 1,x"),
        (["--sweep", "2,2"], "--sweep 2,2"),
        (["--sweep", "1", "--rate", "2"], "--rate does not go with"),
        (["--slo", "voice_to_voice p96 < 1"], "p96"),
        (["--sessions", "3"], "--repeat"),
        (["--ramp", "3"], "--ramp spreads the beginning of several sessions"),
        (["--rate", "2", "--sessions", "3"], "--sessions goes with a closed loop"),
        (["--seed", "2"], "--seed goes with --rate"),
        (["--think", "2s", "--seed", "2"], "--think that is drawn"),
        (["--think", "2"], "--think 2: not a span"),
        (["--think", "5s-1s"], "the first span is the longer one"),
        (["--rate", "2", "--think", "2s"], "--think goes with a closed loop"),
        (["--duration", "30m", "--repeat", "1"], "--repeat asks for a number of rounds, --duration for a time"),
        (["--duration", "30"], "--duration 30: not a span"),
        (["--duration", "500ms"], "shorter than a second"),
        (["--duration", "30m", "--repeat", "2", "--sweep", "1,2"], "--repeat asks for a number"),
    ],
)
async def test_what_does_not_go_together_is_refused(tmp_path: Path, arguments: list[str], says: str) -> None:
    ran = await run_command(
        "measure", "ws://127.0.0.1:1", "--script", "facts", *arguments, "--out", str(tmp_path / "r")
    )
    assert ran.code == 2 and says in ran.err, ran.err
    assert "Traceback" not in ran.err and not (tmp_path / "r").exists()
