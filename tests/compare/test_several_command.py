"""`duologue measure --interleave` and `--trials` as commands, against metronomes whose every write is logged."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Callable, Sequence
from io import StringIO
from pathlib import Path

import pytest
import soundfile
from click import UsageError
from click.testing import CliRunner
from rich.console import Console

from harness.cli.measure import measure
from harness.compare.side import Performed, read_side, values_of
from harness.runs.planning import Ask
from harness.several.interleave import begin_pair
from harness.several.screen import print_trials
from harness.several.trials import TrialRow, TrialRun, Trials, begin_trials, verdict_of
from metrics.stats import percentile
from metrics.trials import spread_of_trials
from servers.app import serve
from servers.models.behaviour import load_behaviour
from servers.models.metronome import MetronomeServer, load_metronome
from servers.speech_model import SpeechModel
from servers.write_log import Write
from sessions.clock import NS_PER_MS
from sessions.errors import SetupError
from sessions.runs import RunFolder
from sessions.scripts import load_script
from sessions.secrets import Secrets
from tests.support.commands import finish, run, start
from tests.support.peers import tone

NOWHERE = "ws://127.0.0.1:1"


@pytest.fixture
def script(tmp_path: Path) -> str:
    """One turn of 100 ms that begins at once."""
    soundfile.write(tmp_path / "hello.wav", tone(100), 24_000)
    path = tmp_path / "short.yaml"
    path.write_text("version: 1\nname: short\nturns:\n  - audio: hello.wav\n    start: {gap_ms: 0}\n")
    return str(path)


def behaviour(place: Path, delay_ms: int) -> str:
    place.write_text(
        f"version: 1\ndescription: Answers after {delay_ms} ms.\n"
        f"reply: {{delay_ms: {delay_ms}, duration_ms: 40, packet_ms: 20, pace: burst}}\n"
    )
    return str(place)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.02)


class Pausing(MetronomeServer):
    """Its connection number `at` (from 1), and all later ones, get no answer for a minute, until `at` is set anew."""

    def __init__(self, place: Path, delay_ms: int, at: int) -> None:
        super().__init__(load_behaviour(behaviour(place / f"{delay_ms}.yaml", delay_ms)))
        self._late = load_metronome(behaviour(place / "late.yaml", 60_000))
        self._opened = 0
        self.at = at

    def open(self) -> SpeechModel:
        self._opened += 1
        return self._late.open() if self.waits else super().open()

    @property
    def waits(self) -> bool:
        return self._opened >= self.at


def true_first_packet_ms(dialogue: Performed, log: Sequence[Write]) -> float:
    """By the server's own log: from the end of its only turn to the next write of audio."""
    end_ns = dialogue.turns[0].instants_ns["speech_end"]
    return (min(w.t_ns for w in log if w.samples and w.t_ns > end_ns) - end_ns) / NS_PER_MS


@pytest.mark.sockets
async def test_runs_that_are_interrupted_go_on_and_tell_the_truth(tmp_path: Path, script: str) -> None:
    """All at once, for they mostly wait."""
    scenes = (
        b_is_faster_and_an_interruption_loses_nothing,
        a_server_beside_itself_and_secrets_of_its_own,
        trials_are_whole_runs_and_go_on_where_they_were,
    )
    for scene in scenes:
        (tmp_path / scene.__name__).mkdir()
    await asyncio.gather(*(scene(tmp_path / scene.__name__, script) for scene in scenes))


# ---- two targets in alternation ------------------------------------------------------------------------------------


async def b_is_faster_and_an_interruption_loses_nothing(tmp_path: Path, script: str) -> None:
    """Two metronomes 40 ms apart. What is told must agree with their logs within the limit of a valid turn, 20 ms."""
    out = tmp_path / "pair"
    a, b = out / "a", out / "b"
    slow, fast = load_metronome(behaviour(tmp_path / "slow.yaml", 80)), Pausing(tmp_path, 40, at=3)
    async with serve(slow) as server_a, serve(fast) as server_b:
        targets = (server_a.url, server_b.url)
        process = await start(
            *("measure", *targets, "--interleave", "--script", script, "--repeat", "10"),
            *("--out", str(out)),
        )
        await until(lambda: fast.waits)
        process.send_signal(signal.SIGINT)
        stopped = await finish(process)
        assert stopped.code == 130, stopped.err
        assert f"duologue measure --resume {out}" in stopped.err
        before = {name: read_side(out / name).dialogues for name in ("a", "b")}
        assert len(before["b"]) == 2 and (a / "report.html").exists() and (b / "report.html").exists()
        fast.at = sys.maxsize
        ended = await run("measure", "--resume", str(out), *targets, "--interleave", "--json")
    assert ended.code == 0, ended.err
    compared = json.loads(ended.out)
    assert compared == json.loads((out / "comparison.json").read_text())
    assert compared["pairing"].startswith("paired: both performed the same 10 dialogues")
    for name, kept in before.items():
        assert read_side(out / name).dialogues[: len(kept)] == kept
        assert sorted(line.number for line in RunFolder.open(out / name).journal()) == list(range(10))
    row = next(row for row in compared["rows"] if row["metric"] == "first_packet_ms")
    told = row["comparison"]["differences"][0]
    pairs = [  # a turn in which this machine was late is in no figure
        (one_a, one_b)
        for one_a, one_b in zip(read_side(a).dialogues, read_side(b).dialogues, strict=True)
        if all(values_of(one, "first_packet_ms") for one in (one_a, one_b))
    ]
    true_a, true_b = (
        percentile([true_first_packet_ms(pair[side], server.write_log.entries) for pair in pairs], 50)
        for side, server in enumerate((server_a, server_b))
    )
    assert row["comparison"]["n_a"] == len(pairs) and true_b < true_a
    assert abs(told["difference"] - (true_b - true_a)) < 20
    assert (told["ci95"] is None) == (len(pairs) < 10)
    if told["ci95"] is not None:
        low, high = told["ci95"]
        assert low <= told["difference"] <= high
        assert ("ms faster at p50, 95 % CI" in row["verdict"]) == (high < 0), row["verdict"]


async def a_server_beside_itself_and_secrets_of_its_own(tmp_path: Path, script: str) -> None:
    """A/A is allowed. B's key and headers are B's alone; the folder holds neither."""
    out = tmp_path / "pair"
    async with serve(load_metronome(behaviour(tmp_path / "m.yaml", 10)), api_key="canary-key-123456") as server:
        arguments = ("measure", server.url, server.url, "--interleave", "--script", script, "--out", str(out))
        keys = {"CANARY_KEY": "canary-key-123456", "WRONG_KEY": "canary-wrong-123456"}
        refused = await run(
            *arguments, "--api-key-env", "WRONG_KEY", "--b-api-key-env", "CANARY_KEY", "--seed", "1", extra=keys
        )
        assert refused.code == 2 and "HTTP 401" in refused.err, refused.err
        assert not out.exists(), "nothing was done, so nothing is left"
        kept = await run(
            *arguments, "--api-key-env", "WRONG_KEY", "--b-api-key-env", "CANARY_KEY", "--seed", "5", extra=keys
        )
        assert kept.code == 2 and f"what was done is kept. Go on with: duologue measure --resume {out}" in kept.err
        ran = await run(
            *("measure", "--resume", str(out), "--api-key-env", "CANARY_KEY", "--b-header", "X-Own: canary-header"),
            extra=keys,
        )
    assert ran.code == 0, ran.err
    assert "voice-to-voice" in ran.out and f"comparison: {out / 'comparison.html'}" in ran.out
    for path in out.rglob("*"):
        assert not path.is_file() or b"canary-" not in path.read_bytes(), path
    assert "canary-" not in ran.out + ran.err + refused.err + kept.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["ws://a", "ws://b"], "2 targets. Give one, or two with --interleave"),
        (["ws://a", "--interleave"], "needs two targets, and there is one"),
        (["ws://a", "ws://b", "ws://c", "--interleave"], "needs two targets, and there are 3"),
        (["--interleave"], "needs two targets, and there are 0"),
        (["ws://a", "ws://b", "--interleave", "--sessions", "2"], "--sessions does not go with --interleave"),
        (["ws://a", "ws://b", "--interleave", "--rate", "2"], "--rate does not go with --interleave"),
        (["ws://a", "ws://b", "--interleave", "--trials", "2"], "--trials does not go with --interleave"),
        (["ws://a", "--b-voice", "x"], "--b-voice goes with --interleave"),
        (["ws://a", "--allow", "audio"], "--allow goes with --interleave"),
        (["ws://a", "ws://b", "--interleave", "--allow", "pace"], "--allow pace: no such field"),
        (["ws://a", "http://b", "--interleave"], "ws://"),
        (["ws://a", "ws://b", "--interleave", "--b-protocol", "openai"], "openai-realtime"),
        (["ws://a", "--trials", "0"], "--trials"),
        (["ws://a", "--trials", "1"], "--trials"),
        (["ws://a", "--trials", "2", "--sweep", "1,2"], "--trials does not go with --sweep"),
        (["ws://a", "--trials", "2", "--shard", "1/2"], "--shard does not go with --trials"),
        (["--resume", "nowhere", "--interleave"], "was not measured with --interleave"),
    ],
)
def test_what_does_not_go_together(tmp_path: Path, script: str, arguments: Sequence[str], says: str) -> None:
    out = tmp_path / "out"
    spoken = [] if "--resume" in arguments else ["--script", script, "--out", str(out)]
    ran = CliRunner().invoke(measure, [*arguments, *spoken], obj=Secrets(), standalone_mode=False)
    assert ran.exception is not None and not isinstance(ran.exception, SystemExit)
    told = ran.exception.format_message() if isinstance(ran.exception, UsageError) else str(ran.exception)
    assert says in told
    assert not out.exists()


@pytest.mark.parametrize(
    ("folder", "arguments", "says"),
    [
        ("pair", ["ws://a", "ws://other"], "pair/b measures ws://b/v1/realtime. Resume it without a target"),
        ("pair", ["ws://a"], "needs two targets, and there is one"),
        ("pair", ["--repeat", "3"], "--repeat cannot change a run that is resumed"),
        ("pair", ["--seed", "3"], "--seed cannot change"),
        ("trials", ["ws://other"], "trial-1 measures ws://a/v1/realtime"),
        ("trials", ["--trials", "3"], "--trials cannot change"),
        ("trials", ["--interleave"], "was not measured with --interleave"),
        ("trials", ["--b-header", "X: y"], "--b-header goes with --interleave"),
    ],
)
def test_what_cannot_change_when_it_goes_on(
    tmp_path: Path, script: str, folder: str, arguments: Sequence[str], says: str
) -> None:
    a, b = (Ask(target, [load_script(script)]) for target in ("ws://a", "ws://b"))
    begin_pair((a, b), Secrets(), tmp_path / "pair", seed=1, allowed=())
    begin_trials(a, Secrets(), tmp_path / "trials", 2)
    ran = CliRunner().invoke(
        measure, ["--resume", str(tmp_path / folder), *arguments], obj=Secrets(), standalone_mode=False
    )
    assert isinstance(ran.exception, SetupError) and says in str(ran.exception), ran.exception


def test_a_folder_that_was_changed_is_told(tmp_path: Path) -> None:
    for name in ("interleave.json", "trials.json"):
        place = tmp_path / name.partition(".")[0]
        place.mkdir()
        (place / name).write_text("{}")
        ran = CliRunner().invoke(measure, ["--resume", str(place)], obj=Secrets(), standalone_mode=False)
        assert isinstance(ran.exception, SetupError), ran.exception


# ---- trials --------------------------------------------------------------------------------------------------------


async def trials_are_whole_runs_and_go_on_where_they_were(tmp_path: Path, script: str) -> None:
    out = tmp_path / "trials"
    first, second = out / "trial-1", out / "trial-2"
    model = Pausing(tmp_path, 30, at=6)
    async with serve(model) as server:
        process = await start(
            "measure", server.url, "--trials", "2", "--script", script, "--repeat", "4", "--out", str(out)
        )
        await until(lambda: model.waits)
        process.send_signal(signal.SIGINT)
        stopped = await finish(process)
        assert stopped.code == 130 and f"1 trial not over. Go on with: duologue measure --resume {out}" in stopped.err
        assert "trial 2 of 2:" in stopped.err
        kept = read_side(first).dialogues
        model.at = sys.maxsize
        ended = await run("measure", "--resume", str(out), "--json")
    assert ended.code == 0, ended.err
    told = json.loads(ended.out)
    assert told == json.loads((out / "trials.json").read_text())
    assert [(trial["run"], trial["dialogues"]) for trial in told["trials"]] == [("trial-1", 4), ("trial-2", 4)]
    assert read_side(first).dialogues == kept and (second / "report.html").exists()
    spread = next(row for row in told["rows"] if row["metric"] == "voice_to_voice_ms")["spread"]
    sides = [read_side(place).values("voice_to_voice_ms") for place in (first, second)]
    assert spread["p50s"] == [percentile([v for own in side.values() for v in own], 50) for side in sides]
    assert spread["ci95"][0] <= spread["minimum"] <= spread["mean"] <= spread["maximum"] <= spread["ci95"][1]
    assert (spread["differ"] is None) == (spread["p_value"] is None) == bool(spread["reason"])


@pytest.mark.sockets
async def test_trials_of_nobody_leave_nothing(tmp_path: Path, script: str) -> None:
    ran = await run("measure", NOWHERE, "--trials", "2", "--script", script, "--out", str(tmp_path / "trials"))
    assert ran.code == 2 and "nothing listens" in ran.err
    assert not (tmp_path / "trials").exists()


def test_the_screen_tells_spread_verdict_and_losses() -> None:
    """A measure whose trials lie apart, one of equal trials, one of too few."""
    apart = [[("short", [300.0 + 100 * trial + turn]) for turn in range(8)] for trial in range(3)]
    cases = {"voice_to_voice_ms": apart, "first_packet_ms": [apart[0]] * 3, "gap_max_ms": [[], apart[0][:1]]}
    rows = []
    for name, trials in cases.items():
        spread = spread_of_trials(trials)
        rows.append(TrialRow(name, "ms", spread, verdict_of(spread)))
    runs = [TrialRun(f"trial-{k}", 8, 8, 0, 0, lost=k // 3, bounds=["A.", f"{k}."]) for k in (1, 2, 3)]
    text = StringIO()
    print_trials(Trials("2026-11-29T10:15:00", "ws://a", 3, runs, rows), Console(file=text, width=80))
    told = [" ".join(line.split()) for line in text.getvalue().splitlines()]
    assert "trial-3: 8 dialogues, 8 turns completed, 0 invalid, 0 failed; 1 dialogue lost" in told
    assert "voice-to-voice (ms) 404 155 – 652 100 304 – 504 2.45" in told
    assert "first packet (ms) 304 304 – 304 0 304 – 304 2.45" in told
    assert "longest gap (ms) – – – – –" in told
    whole = " ".join(told)
    assert "voice-to-voice: trials differ more than chance (p < 0.001), so a single run tells less than" in whole
    assert "first packet: trials do not differ more than chance shows (p = 1)." in whole
    assert "longest gap: whether trials differ more than chance cannot be told: needs 2 trials with values" in whole
    assert told.count("A.") == 1 and "trial-2: 2." in told
