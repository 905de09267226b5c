"""`duologue compare` and `duologue gate` over run folders: latencies made on the virtual clock, known to the ns."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result

from harness.cli.compare import compare
from harness.cli.gate import gate
from harness.compare.side import read_side
from harness.runs.losses import Loss, add_losses
from sessions.errors import SetupError
from sessions.runs import JournalLine, Plan, RunFolder
from tests.support import run_samples
from tests.support.commands import run
from tests.support.dialogues import play_virtual, utterance
from tests.support.peers import Wire, audio, created, done, greet, request, sleep_ms, tone

TURNS = 2


def peer(delay_ms: float) -> Any:
    """Answers each request after `delay_ms` with half a second of a tone; one below 0 breaks the last turn off."""

    async def answer(wire: Wire) -> None:
        await greet(wire)
        for turn in range(TURNS):
            await request(wire)
            await sleep_ms(wire, abs(delay_ms))
            if delay_ms < 0 and turn == TURNS - 1:
                await wire.close(1011, "gone")
                return
            reply = f"r{turn}"
            await wire.send(created(reply))
            await wire.send(audio(reply, tone(500)))
            await wire.send(done(reply))
        await wire.receive()

    return answer


def make_run(path: Path, delays_ms: Sequence[float], **changes: Any) -> Path:
    """A run folder: one dialogue of two turns per delay, the first one a warm-up."""
    plan: Plan = msgspec.structs.replace(run_samples.plan(TURNS, repeat=len(delays_ms) - 1, warmup=1), **changes)
    folder = RunFolder.create(path, plan)
    for number, delay_ms in enumerate(delays_ms):
        played = play_virtual(peer(delay_ms), [utterance()] * TURNS)
        line = JournalLine(f"d{number + 1:04}", number, "garden", warmup=number == 0, turns=TURNS)
        folder.write_dialogue(line.id, played.record.log(), bytes(played.record.received))
        folder.append_journal(line)
    return path


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """old: 300 ms, 10 more in each of 12 dialogues · new: 42 ms less · few: three dialogues · broken: every third."""
    folder = tmp_path_factory.mktemp("runs")
    delays = [9_000.0, *(300.0 + 10 * k for k in range(12))]
    make_run(folder / "old", delays)
    make_run(folder / "new", [delay - 42 for delay in delays])
    make_run(folder / "few", delays[:4])
    make_run(folder / "broken", [-delay if k % 3 == 0 else delay for k, delay in enumerate(delays)])
    make_run(folder / "vad", delays, turn_detection="server_vad")
    return folder


def invoke(command: Any, *arguments: object) -> Result:
    return CliRunner().invoke(command, [str(argument) for argument in arguments], standalone_mode=False)


def test_compare_tells_exact_differences(runs: Path) -> None:
    before = {path: path.read_bytes() for path in sorted(runs.rglob("*")) if path.is_file()}
    ran = invoke(compare, runs / "old", runs / "new", "--json")
    assert ran.return_value == 0, ran.exception
    told = json.loads(ran.stdout)
    assert told["pairing"].startswith("paired: both performed the same 12 dialogues")
    rows = {row["metric"]: row for row in told["rows"]}
    p50, p95, p99 = rows["voice_to_voice_ms"]["comparison"]["differences"]
    assert p50["difference"] == p95["difference"] == -42.0
    assert p50["a"] == 355.0 and p50["ci95"] == pytest.approx([-42.0, -42.0])
    assert p99["difference"] is None and p99["reason"] == "needs 100 samples, has 24"
    assert rows["voice_to_voice_ms"]["verdict"].startswith("B is 42 ms faster at p50, 95 % CI 42 to 42")
    assert rows["gapless_prebuffer_ms"]["verdict"] == "no difference shown at p50 and p95"
    assert "server_vad_delay_ms" not in rows and "voice_to_voice_b20_ms" not in rows
    assert (told["a"]["completed"], told["a"]["failed"], told["a"]["dialogues"]) == (24, 0, 12)
    assert {path: path.read_bytes() for path in sorted(runs.rglob("*")) if path.is_file()} == before, "it only reads"


def test_the_screen_says_the_same(runs: Path) -> None:
    ran = invoke(compare, runs / "old", runs / "new", "--metric", "voice-to-voice", "--metric", "gap_max")
    assert ran.return_value == 0
    assert "voice-to-voice: B is 42 ms faster at p50, 95 % CI 42 to 42;" in ran.stdout
    row = next(line for line in ran.stdout.splitlines() if line.startswith("voice-to-voice (ms)"))
    assert row.split() == ["voice-to-voice", "(ms)", "p50", "355", "313", "−42", "−42", "–", "−42", "24"]
    assert "p99 needs 100 samples" in ran.stdout and "first packet" not in ran.stdout


def test_few_dialogues_have_no_interval(runs: Path) -> None:
    ran = invoke(compare, runs / "few", runs / "few", "--metric", "voice_to_voice")
    assert "no interval: needs 10 dialogues, has 3" in ran.stdout
    assert "voice-to-voice: no difference at p50, no interval." in ran.stdout
    other = invoke(compare, runs / "few", runs / "new", "--metric", "voice_to_voice")
    assert "Clustered: the two did not perform the same dialogues in the same order." in other.stdout


def test_unequal_failures_are_warned_of(runs: Path) -> None:
    told = json.loads(invoke(compare, runs / "old", runs / "broken", "--json").stdout)
    assert (told["b"]["completed"], told["b"]["failed"]) == (20, 4)
    assert told["warnings"] == []  # 0 of 24 and 4 of 24 may be chance
    assert "4 failed" in invoke(compare, runs / "old", runs / "broken").stdout


def test_runs_under_other_conditions_are_refused_unless_allowed(runs: Path) -> None:
    refused = invoke(compare, runs / "old", runs / "vad")
    assert isinstance(refused.exception, SetupError)
    assert "turn_detection: A has manual, B has server_vad" in str(refused.exception)
    ran = invoke(compare, runs / "old", runs / "vad", "--allow", "turn_detection")
    assert "voice-to-voice (ms) ¹" in ran.stdout
    assert "¹ not under equal conditions: turn_detection: A has manual, B has server_vad" in ran.stdout


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("old", "nowhere"), "is not a run folder"),
        (("old", "new", "--metric", "voice"), "unknown metric 'voice'"),
        (("old", "new", "--metric", "failed"), "attempts are always compared"),
        (("old", "new", "--allow", "pace"), "no such field"),
    ],
)
def test_what_cannot_be_compared(runs: Path, arguments: Sequence[str], problem: str) -> None:
    a, b, *options = arguments
    failed = invoke(compare, runs / a, runs / b, *options)
    assert isinstance(failed.exception, SetupError) and problem in str(failed.exception)


def test_the_gate_passes(runs: Path, tmp_path: Path) -> None:
    ran = invoke(
        gate,
        runs / "new",
        *("--slo", "voice_to_voice p95 < 367ms", "--slo", "failed <= 0%", "--baseline", runs / "old"),
        *("--max-regression", "voice_to_voice p50 0%", "--junit", tmp_path / "gate.xml"),
    )
    assert ran.return_value == 0, ran.stdout
    assert ran.stdout.splitlines()[0] == (
        "held    voice_to_voice p95 < 367ms: p95 = 366.5 ms (over 24 turns), < 367 ms"
    )
    assert ran.stdout.splitlines()[-1] == "passed"
    root = ET.parse(tmp_path / "gate.xml").getroot()
    assert (root.get("tests"), root.get("failures")) == ("3", "0")


def test_the_gate_fails(runs: Path, tmp_path: Path) -> None:
    ran = invoke(
        gate,
        runs / "old",
        *("--slo", "voice_to_voice p50 < 300ms", "--slo", "voice_to_voice p99 < 9s", "--baseline", runs / "new"),
        *("--max-regression", "voice_to_voice p50 41ms", "--junit", tmp_path / "gate.xml", "--json"),
    )
    assert ran.return_value == 1
    told = json.loads(ran.stdout)
    assert told["passed"] is False and [check["held"] for check in told["checks"]] == [False, None, False]
    assert told["checks"][0]["why"] == "p50 = 355 ms (over 24 turns), not < 300 ms"
    assert "worse by 42 ms, beyond the 41 ms allowed" in told["checks"][2]["why"]
    root = ET.parse(tmp_path / "gate.xml").getroot()
    assert (root.get("tests"), root.get("failures")) == ("3", "3")
    failures = [failure.get("type") for failure in root.iter("failure")]
    assert failures == ["slo", "untold", "regression"]


async def test_exit_codes(runs: Path) -> None:
    held = await run("gate", str(runs / "new"), "--slo", "voice_to_voice p50 < 1s")
    missed = await run("gate", str(runs / "new"), "--slo", "voice_to_voice p50 < 1ms")
    unread = await run("gate", str(runs / "new"), "--slo", "voice_to_voice p5O < 1s")
    assert (held.code, missed.code, unread.code) == (0, 1, 2)
    assert unread.err.startswith("duologue: SLO 'voice_to_voice p5O < 1s': unknown figure 'p5O'")
    assert (await run("compare", str(runs / "old"), str(runs / "vad"))).code == 2


def test_failures_fail_the_gate(runs: Path) -> None:
    loose = invoke(gate, runs / "broken", "--slo", "voice_to_voice p50 < 9s")
    assert loose.return_value == 0 and "4 failed turns in no latency" in loose.stdout
    bounded = invoke(gate, runs / "broken", "--slo", "failed <= 10%")
    assert bounded.return_value == 1
    assert "MISSED  failed <= 10%: failed = 16.67 % (4 of 24 turns), not <= 10 %" in bounded.stdout


def test_lost_dialogues_fail_the_gate_and_stand_in_the_comparison(runs: Path, tmp_path: Path) -> None:
    """Of fourteen dialogues one was lost, one is still to do, and twelve that count are done."""
    delays = [300.0 + 10 * k for k in range(13)]
    path = make_run(tmp_path / "torn", delays, repeat=14)
    add_losses(path, [Loss("worker 2", "was killed by SIGKILL", [12, 13])])
    side = read_side(path)
    assert (side.attempts.lost, side.left) == (TURNS, "1 dialogue")
    ran = invoke(gate, path, "--slo", "failed <= 1%", "--junit", tmp_path / "gate.xml")
    assert ran.return_value == 1
    assert "MISSED  failed <= 1%: failed = 7.692 % (2 of 26 turns, 2 of them lost), not <= 1 %" in ran.stdout
    assert f"the run was interrupted, 1 dialogue left: duologue measure --resume {path}" in ran.stdout
    assert "2 of them lost" in (tmp_path / "gate.xml").read_text()
    told = invoke(compare, runs / "new", path).stdout
    assert "24 completed, 0 invalid, 0 failed; 2 more turns lost; interrupted, 1 dialogue left" in " ".join(
        told.split()
    )


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ((), "nothing to hold the run to"),
        (("--slo", "voice_to_voice p95 800ms"), "cannot read the SLO"),
        (("--max-regression", "voice_to_voice p50 5%"), "--max-regression without --baseline"),
        (("--slo", "failed <= 1%", "--baseline", "old"), "--baseline without --max-regression"),
        (("--max-regression", "voice_to_voice p50 5%", "--baseline", "vad"), "turn_detection"),
        (("--slo", "failed <= 1%", "--junit", "nowhere/gate.xml"), "cannot write"),
    ],
)
def test_set_up_errors_of_the_gate(
    runs: Path, options: Sequence[str], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(runs)
    failed = invoke(gate, "new", *options)
    assert isinstance(failed.exception, SetupError) and problem in str(failed.exception)


def test_a_run_without_a_counted_dialogue(tmp_path: Path) -> None:
    make_run(tmp_path / "warm", [300.0])
    with pytest.raises(SetupError, match="has no finished dialogue that counts"):
        read_side(tmp_path / "warm")


def test_a_folder_of_runs_names_them(runs: Path) -> None:
    with pytest.raises(SetupError, match=r"not a run folder .*one of the runs in it: \S+/broken, \S+/few, \S+/new …"):
        read_side(runs)


def test_a_damaged_run_is_told_by_name(tmp_path: Path) -> None:
    path = make_run(tmp_path / "torn", [300.0, 310.0])
    (path / "dialogues" / "d0002" / "received.bin").unlink()
    with pytest.raises(SetupError, match=r"cannot read .*received\.bin"):
        read_side(path)
