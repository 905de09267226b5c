"""Calibration: nothing but zero on the virtual clock; on real sockets figures that are there and finite."""

from __future__ import annotations

import io
import json
import math
import signal
from pathlib import Path

import pytest
from rich.console import Console

from harness.calibrate.carriers import TRANSPORTS
from harness.calibrate.converse import compare, converse
from harness.calibrate.grid import behaviour, quick_grid, utterances, whole_grid
from harness.calibrate.machine import Calibration, Level, level_of, resolve
from harness.calibrate.spread import Spread, spread
from harness.calibrate.table import print_calibration, verdict_lines
from harness.calibrate.truth import as_written
from harness.dialogue.record import Record
from harness.results.derive import derive
from servers.write_log import Write, WriteLog
from sessions.errors import SetupError
from tests.servers.test_metronome_virtual import Fronted
from tests.support.commands import finish, run, start
from tests.support.peers import in_memory
from tests.support.virtual_time import VirtualClock, run_virtual

CARRIER = TRANSPORTS["websocket"]


def hold(behaviour_text: str, turns: int, dialogues: int, folder: Path) -> tuple[list[Record], list[Write]]:
    """Our client and our front in memory, `dialogues` at once on one virtual clock."""
    file = folder / "grid.yaml"
    file.write_text(behaviour_text)
    log = WriteLog()

    async def make(clock: VirtualClock) -> list[Record]:
        async with in_memory(Fronted(str(file), log), clock) as connect:
            return await converse(CARRIER, connect, clock, utterances(turns), dialogues)

    records = run_virtual(make)
    assert isinstance(records, list)
    return records, log.entries


@pytest.mark.parametrize("dialogues", [1, 4, 16])
def test_the_whole_grid_in_memory_is_exactly_true(dialogues: int, tmp_path: Path) -> None:
    cells = whole_grid()
    records, writes = hold(behaviour(cells), len(cells), dialogues, tmp_path)
    level = level_of("websocket", CARRIER, records, writes)
    assert (level.turns, level.invalid, level.stall_max_ms) == (len(cells) * dialogues, 0, 0.0)
    for found in (level.first_packet_ms, level.voice_to_voice_ms, level.gaps_ms, level.underruns):
        assert found.n >= level.turns
        assert (found.bias, found.p50, found.maximum) == (0.0, 0.0, 0.0)


def test_the_grid_holds_every_combination_once() -> None:
    cells = whole_grid()
    assert len(cells) == len(set(cells)) == 3 * 3 * 2 * 3
    assert whole_grid() == cells, "always the same order"
    short = quick_grid()
    assert {cell.packet_ms for cell in short} == {cell.packet_ms for cell in cells}
    assert {cell.pace for cell in short} == {cell.pace for cell in cells}


def test_what_the_wire_adds_is_found_to_the_nanosecond(tmp_path: Path) -> None:
    """A log whose writes are earlier by a known time stands for a path that takes that long."""
    records, writes = hold(behaviour(quick_grid()), 6, 1, tmp_path)
    earlier = [Write(w.t_ns - 2_500_000, w.connection, w.type, w.response_id, w.samples) for w in writes]
    found = compare(CARRIER, records, earlier)
    assert set(found.first_packet_ms) == {2.5}
    assert set(found.voice_to_voice_ms) == {2.5}
    assert set(found.gaps_ms) == {0.0}


def test_a_log_of_other_dialogues_is_refused(tmp_path: Path) -> None:
    records, writes = hold(behaviour(quick_grid()), 2, 1, tmp_path)
    conversation = derive(records[0].log(), bytes(records[0].received)).conversation
    with pytest.raises(ValueError, match="packets received"):
        as_written(conversation, [write for write in writes if write.type != CARRIER.audio])


def test_a_metronome_that_fails_is_no_lateness(tmp_path: Path) -> None:
    fails = json.dumps({"version": 1, "reply": {"faults": [{"kind": "error", "message": "x"}]}})
    records, writes = hold(fails, 1, 1, tmp_path)
    with pytest.raises(SetupError, match="failed"):
        compare(CARRIER, records, writes)


# ---- what errors come to -------------------------------------------------------------------------------------------


def test_a_spread_has_a_signed_bias_and_sizes() -> None:
    found = spread([-3.0, 1.0, 1.0])
    assert (found.n, found.p50, found.p95, found.p99, found.maximum) == (3, 1.0, None, None, 3.0)
    assert found.bias == pytest.approx(-1 / 3)
    assert found.nearly_all == 3.0
    assert spread([]) == Spread(0)
    hundred = spread([0.1] * 99 + [9.0])
    assert hundred.p99 is not None and hundred.nearly_all == hundred.p99 < 9.0
    with pytest.raises(ValueError, match="finite"):
        spread([math.nan])


def level(first: list[float], voice: list[float], gaps: list[float]) -> Level:
    return Level("websocket", 1, len(first), 0, 0.0, spread(first), spread(voice), spread(gaps), spread([]))


def test_the_rule_of_the_verdict() -> None:
    """The worse of the two latencies, rounded up; twice that for a difference; gaps by themselves."""
    found = resolve(level([0.1, 0.21], [0.1, 0.52], [-0.31, 0.1]))
    assert (found.latency_ms, found.difference_ms, found.gap_ms) == (0.6, 1.2, 0.4)
    assert resolve(level([0.3], [0.2], [0.1])).latency_ms == 0.3, "a whole tenth stays"
    nothing = resolve(level([], [], []))
    assert (nothing.latency_ms, nothing.difference_ms, nothing.gap_ms) == (None, None, None)


def calibration(*levels: Level) -> Calibration:
    floor = {"clock_read_ms": 0.0001, "wake_late_p50_ms": 0.1, "wake_late_p99_ms": 0.2, "wake_late_max_ms": 0.3}
    verdict = [resolve(each) for each in levels]
    machine = {"cores": 2, "load_1min": 1.5}
    return Calibration("", False, machine, {"platform": "Linux"}, floor, list(levels), verdict)


def test_the_table_fits_80_columns_and_ends_with_the_verdict() -> None:
    stalled = Level("websocket", 16, 9, 9, 121.0, spread([]), spread([]), spread([]), spread([]))
    found = calibration(level([0.1, 0.21], [0.1, 0.52], [-0.31, 0.1]), stalled)
    screen = io.StringIO()
    print_calibration(found, Console(file=screen, width=80))
    lines = [line.rstrip() for line in screen.getvalue().splitlines()]
    assert max(map(len, lines)) <= 80
    assert "websocket, 16 dialogues at once, 9 of 9 turns invalid, stalled for 121 ms" in lines
    assert "  ±0.6 ms; differences under 1.2 ms and gaps under 0.4 ms cannot be told." in lines
    assert "  nothing can be told, for no turn was on time." in lines
    assert lines[-1] == "This machine tells latencies to ±0.6 ms, differences from 1.2 ms (1 dialogue)."


def test_a_machine_that_was_late_throughout_is_told_so() -> None:
    *_, last = verdict_lines(calibration(level([], [], [])))
    assert last.startswith("This machine was late in every turn")


# ---- as a user starts it -------------------------------------------------------------------------------------------


@pytest.mark.sockets
async def test_calibrate_quick_prints_figures_and_a_verdict(tmp_path: Path) -> None:
    out = tmp_path / "machine.json"
    ran = await run("calibrate", "--quick", "--out", str(out))
    assert ran.code == 0, ran.err
    assert "Traceback" not in ran.err
    found = json.loads(out.read_text())
    assert [each["dialogues"] for each in found["levels"]] == [1, 4, 16]
    for each in found["levels"]:
        assert each["turns"] == each["invalid"] + each["first_packet_ms"]["n"]
        if each["first_packet_ms"]["n"]:
            assert each["first_packet_ms"]["bias"] >= 0, "nothing arrives before it was written"
    for name in ("clock_read_ms", "wake_late_p50_ms", "heartbeat_lag_max_ms", "loopback_round_trip_p50_ms"):
        assert found["floor"][name] >= 0
    assert "machine" in ran.out.rstrip().splitlines()[-1]
    assert "16 dialogues at once" in ran.out


@pytest.mark.sockets
async def test_ctrl_c_ends_a_calibration(tmp_path: Path) -> None:
    out = tmp_path / "machine.json"
    process = await start("calibrate", "--quick", "--out", str(out))
    assert process.stderr is not None
    while b"1 dialogue" not in await process.stderr.readline():
        pass
    process.send_signal(signal.SIGINT)
    ran = await finish(process)
    assert ran.code == 130, ran.err
    assert "Traceback" not in ran.err and not out.exists()


@pytest.mark.sockets
async def test_a_place_that_cannot_be_written_is_told_at_once(tmp_path: Path) -> None:
    ran = await run("calibrate", "--quick", "--out", str(tmp_path / "missing" / "x.json"))
    assert ran.code == 2
    assert ran.err.startswith("duologue: cannot write"), ran.err
