"""The bound under a run's table: the checks beside it, what they come to, what is said of them."""

from __future__ import annotations

import asyncio
import io
import json
import math
import signal
from pathlib import Path

import numpy as np
import pytest
import soundfile
from rich.console import Console

from harness.calibrate.bound import Bound, Check, Part, add_part, bound_line, bound_of, read_parts
from harness.calibrate.quick import TURNS, quick
from harness.report.html.verdict import page_header
from harness.report.summary import summarise_run
from harness.report.table import print_table
from harness.runs.clock_checks import ClockChecks
from sessions.clock import MonotonicClock
from sessions.errors import BadFile
from sessions.runs import RunFolder
from tests.product.test_measure_command import Counting, answers
from tests.support.commands import finish, run, start
from tests.support.peers import on_a_socket, tone
from tests.support.run_samples import FLOOR, dialogue, plan, turn

CLOCK = MonotonicClock()
ON = {"DUOLOGUE_CALIBRATION": "on"}


def check(*errors_ms: float, invalid: int = 0, stall_ms: float = 0.0, problem: str = "") -> Check:
    return Check("2026-11-29T10:15:00.000+01:00", list(errors_ms), invalid, stall_ms, problem)


def bound(*parts: Part) -> Bound:
    found = bound_of(parts, 20.0)
    assert found is not None
    return found


# ---- what checks come to -------------------------------------------------------------------------------------------


def test_with_twenty_checks_the_bound_is_their_p95() -> None:
    found = bound(Part(check(*[0.1] * 10), check(*[0.1] * 9, 5.0)))
    assert found.all.n == 20
    assert found.all.p95 is not None and found.within_ms == found.all.p95 < 5.0
    assert (found.before.n, found.after.n, found.warnings) == (10, 10, [])
    assert "95 % of 20 checks before and after; median" in bound_line(found)


def test_with_fewer_the_bound_is_the_largest() -> None:
    found = bound(Part(check(0.25, -0.75)))
    assert (found.within_ms, found.all.bias) == (0.75, -0.25)
    line = bound_line(found)
    assert "±0.75 ms" in line and "all of 2 checks before;" in line


def test_a_resumed_run_has_all_its_checks_in_the_bound() -> None:
    found = bound(Part(check(0.1)), Part(check(0.2), check(0.3)))
    assert (found.before.n, found.after.n, found.all.n) == (2, 1, 3)


def test_without_checks_nothing_is_claimed() -> None:
    assert bound_of([], 20.0) is None
    assert "not checked" in bound_line(None)
    nothing = bound(Part(check(invalid=12, stall_ms=300.0), check(invalid=12)))
    assert nothing.within_ms is None
    assert "nothing is known" in bound_line(nothing)


@pytest.mark.parametrize(
    ("part", "says"),
    [
        (Part(check(0.1, stall_ms=44.0), check(0.1)), "stalled for 44"),
        (Part(check(0.1), check(0.1, 0.1, invalid=2)), "late in 2 of 5 checks"),
        (Part(check(0.2, 0.2), check(1.3, 1.3)), "grew worse"),
        (Part(check(problem="the server did not start: x"), check(0.1)), "not checked: the server did not start"),
    ],
)
def test_a_machine_that_stalled_or_grew_worse_says_so(part: Part, says: str) -> None:
    found = bound(part)
    assert len(found.warnings) == 1
    assert says in found.warnings[0]


@pytest.mark.parametrize(
    "part", [Part(check(0.01), check(0.9)), Part(check(2.0), check(3.5)), Part(check(0.1, stall_ms=19.0), check(0.1))]
)
def test_small_changes_are_no_news(part: Part) -> None:
    """Worse takes both: twice as much, and a millisecond."""
    assert bound(part).warnings == []


def test_checks_of_a_load_say_how_many_were_held_at_once() -> None:
    many = Check("", [0.1], dialogues=16)
    assert "1 check before, 16 dialogues at once;" in bound_line(bound(Part(many)))


# ---- the file ------------------------------------------------------------------------------------------------------


def test_the_file_keeps_every_part(tmp_path: Path) -> None:
    assert read_parts(tmp_path) == []
    first, second = Part(check(0.1)), Part(check(0.2), check(0.3, invalid=1))
    add_part(tmp_path, first)
    add_part(tmp_path, second)
    assert read_parts(tmp_path) == [first, second]
    (tmp_path / "calibration.json").write_text('{"parts": [], "version": 99}')
    with pytest.raises(BadFile, match="version 99"):
        read_parts(tmp_path)


# ---- what people see -----------------------------------------------------------------------------------------------


def test_the_bound_and_the_warning_stand_under_the_table_and_in_the_page() -> None:
    parts = [Part(check(*[0.25] * 12), check(*[0.25] * 12, stall_ms=51.0))]
    summary = summarise_run(plan(), [dialogue(0, [turn(0)])], FLOOR, parts)
    screen = io.StringIO()
    print_table(summary, Console(file=screen, width=100))
    shown = " ".join(screen.getvalue().split())
    assert "within ±0.25 ms of the truth (95 % of 24 checks before and after" in shown
    assert "This machine stalled for 51" in shown
    assert "This machine stalled for 51" in page_header(plan(), summary)


# ---- on real sockets -----------------------------------------------------------------------------------------------


@pytest.mark.sockets
def test_the_short_form_gives_finite_bounds() -> None:
    found = quick()
    assert found.problem == ""
    assert len(found.errors_ms) + found.invalid == TURNS
    assert all(map(math.isfinite, found.errors_ms))
    half_sample_ms = 500 / 24_000  # by so much the play-out model forgives a late packet
    assert all(error_ms >= -half_sample_ms for error_ms in found.errors_ms), "nothing is heard before it was written"


def test_what_goes_wrong_in_a_check_never_ends_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("sys.executable", str(tmp_path / "no-python"))
    assert quick().problem


def test_the_environment_switches_checks_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUOLOGUE_CALIBRATION", "off")
    checks = ClockChecks(RunFolder.create(tmp_path / "run", plan()), asked=True, quiet=True)
    checks.before()
    checks.after(interrupted=False)
    assert read_parts(tmp_path / "run") == []


@pytest.fixture
def clip(tmp_path: Path) -> str:
    path = tmp_path / "hello.wav"
    soundfile.write(path, np.concatenate([tone(300), np.zeros(2400, dtype=np.int16)]), 24_000)
    return str(path)


@pytest.mark.sockets
async def test_a_run_is_checked_before_and_after(tmp_path: Path, clip: str) -> None:
    out = tmp_path / "run"
    async with on_a_socket(answers, CLOCK) as url:
        ran = await run("measure", url, "--audio", clip, "--out", str(out), extra=ON)
    assert ran.code == 0, ran.err
    (part,) = read_parts(out)
    assert part.after is not None and part.before.problem == part.after.problem == ""
    summary = json.loads((out / "summary.json").read_text())
    assert summary["clock"]["all"]["n"] == len(part.before.errors_ms) + len(part.after.errors_ms)
    assert "checks" in ran.out
    rebuilt = await run("report", str(out))
    assert rebuilt.code == 0, rebuilt.err
    assert json.loads((out / "summary.json").read_text()) == summary


@pytest.mark.sockets
async def test_a_run_may_go_without_and_one_that_never_began_leaves_nothing(tmp_path: Path, clip: str) -> None:
    out = tmp_path / "run"
    async with on_a_socket(answers, CLOCK) as url:
        ran = await run("measure", url, "--audio", clip, "--no-calibration", "--out", str(out), extra=ON)
    assert ran.code == 0, ran.err
    assert read_parts(out) == []
    assert "The clock was not checked beside this run." in ran.out
    async with on_a_socket(answers, CLOCK) as url:
        levels = ["--sweep", "1", "--no-calibration", "--out", str(tmp_path / "levels")]
        ran = await run("measure", url, "--audio", clip, *levels, extra=ON)
    assert ran.code == 0, ran.err
    assert not list((tmp_path / "levels").rglob("calibration.json"))
    nowhere = tmp_path / "nowhere"
    ran = await run("measure", "ws://127.0.0.1:1", "--audio", clip, "--out", str(nowhere), extra=ON)
    assert ran.code == 2
    assert not nowhere.exists()


@pytest.mark.sockets
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
async def test_a_check_can_be_interrupted(tmp_path: Path, clip: str, number: signal.Signals) -> None:
    out, peer = tmp_path / "run", Counting()
    async with on_a_socket(peer, CLOCK) as url:
        process = await start("measure", url, "--audio", clip, "--out", str(out), extra=ON)
        assert process.stderr is not None
        while b"before the run" not in await process.stderr.readline():
            pass
        process.send_signal(number)
        ran = await finish(process)
    assert ran.code == 130, ran.err
    assert "before any dialogue was done" in ran.err
    assert peer.served == 0
    assert (out / "plan.json").exists() and not (out / "calibration.json").exists()


@pytest.mark.sockets
async def test_a_resumed_run_is_checked_again_and_keeps_both_parts(tmp_path: Path, clip: str) -> None:
    out, peer = tmp_path / "run", Counting()
    async with on_a_socket(peer, CLOCK) as url:
        process = await start("measure", url, "--audio", clip, "--repeat", "4", "--out", str(out), extra=ON)
        while peer.served < 2:
            await asyncio.sleep(0.02)
        process.send_signal(signal.SIGINT)
        ran = await finish(process)
        assert ran.code == 130, ran.err
        ran = await run("measure", "--resume", str(out), extra=ON)
        assert ran.code == 0, ran.err
        again = await run("measure", "--resume", str(out), extra=ON)
        assert again.code == 0 and "checking" not in again.err, "nothing was left to perform"
    first, second = read_parts(out)
    assert first.after is None
    assert second.after is not None
