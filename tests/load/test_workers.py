"""`duologue measure --workers` and `--shard`, and `duologue merge`: real processes against the metronome."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import numpy as np
import pytest
import soundfile

from harness.load.drive import arrivals_ns
from harness.runs.losses import FILE as LOST
from harness.runs.own_server import own_server
from harness.workers.merge import RAW, merge
from sessions.errors import SetupError
from sessions.events import Opened, read_log
from sessions.runs import RunFolder, Share
from tests.support.commands import CALM, Ran, finish, run, start
from tests.support.peers import tone

pytestmark = pytest.mark.sockets
CANARY = "canary-header-0123456789"
QUICK = """version: 1
reply: {delay_ms: 20, leading_silence_ms: 0, duration_ms: 100, packet_ms: 50, pace: burst}
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("workers")
    soundfile.write(place / "clip.wav", np.concatenate([tone(200), np.zeros(1200, dtype=np.int16)]), 24_000)
    (place / "quick.yaml").write_text(QUICK)
    return place


@pytest.fixture(scope="module")
def url(place: Path) -> Iterator[str]:
    with own_server(["--metronome", str(place / "quick.yaml")], place / "server.log") as address:
        yield address


@pytest.fixture(scope="module")
def shards(place: Path, url: str) -> tuple[Path, Path]:
    """Both halves of one plan, performed at the same time."""

    async def both() -> list[Ran]:
        ask = (*measure(place, url), "--repeat", "5", "--sessions", "2")
        return await asyncio.gather(*(run(*ask, "--shard", f"{i}/2", "--out", str(place / f"s{i}")) for i in (1, 2)))

    for ran in asyncio.run(both()):
        assert ran.code == 0, ran.err
    return place / "s1", place / "s2"


def measure(place: Path, url: str) -> tuple[str, ...]:
    """How late a busy machine is decides nothing here."""
    return ("measure", url, "--audio", str(place / "clip.wav"), *CALM)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():
            await asyncio.sleep(0.02)


def workers_of(process: asyncio.subprocess.Process) -> list[int]:
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    return [int(pid) for pid in children if b"harness.workers.worker" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def everybody_sees(pid: int) -> list[bytes]:
    return [Path(f"/proc/{pid}/{what}").read_bytes() for what in ("cmdline", "environ")]


def numbers(out: Path) -> list[int]:
    return sorted(line.number for line in RunFolder.open(out).journal())


def summary(out: Path) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = json.loads((out / "summary.json").read_text())
    return found


async def test_processes_that_end_in_the_midst(place: Path, url: str, tmp_path: Path) -> None:
    """All at once, for they mostly wait."""
    scenes = (
        a_worker_that_is_killed_loses_its_dialogues_only,
        open_loop_workers_keep_the_instants_of_the_plan,
        workers_that_are_stopped_leave_a_run_that_goes_on,
        a_parent_that_is_killed_takes_its_workers_along,
    )
    for scene in scenes:
        (tmp_path / scene.__name__).mkdir()
    await asyncio.gather(*(scene(place, url, tmp_path / scene.__name__) for scene in scenes))


async def a_worker_that_is_killed_loses_its_dialogues_only(place: Path, url: str, tmp_path: Path) -> None:
    out, planned = tmp_path / "run", 12
    process = await start(
        *(*measure(place, url), "--repeat", str(planned), "--sessions", "4"),
        *("--workers", "2", "--header", f"X-Canary: {CANARY}", "--api-key-env", "DUO_KEY", "--out", str(out)),
        extra={"DUO_KEY": CANARY},
    )
    await until(lambda: (out / "journal.jsonl").exists() and len(RunFolder.open(out).journal()) >= 2)
    pids = workers_of(process)
    assert len(pids) == 2
    assert not any(CANARY.encode() in told for pid in pids for told in everybody_sees(pid))
    os.kill(pids[1], signal.SIGKILL)
    ran = await finish(process)
    assert ran.code == 0, ran.err
    told = summary(out)
    attempts, lost = told["attempts"], told["attempts"]["lost"]
    assert 0 < lost == told["dialogues"]["lost"] <= planned // 2
    assert attempts["total"] == attempts["completed"] + attempts["invalid"] + attempts["failed"]
    assert attempts["total"] + attempts["never_attempted"] + lost == planned
    assert len(numbers(out)) == planned - lost
    why = f"worker 2 was killed by SIGKILL; {lost} dialogue{'s' if lost > 1 else ''} lost"
    assert why in told["remarks"] and why[1:] in " ".join(ran.out.split())
    assert f"lost. Go on with: duologue measure --resume {out}" in ran.err and "Traceback" not in ran.err
    assert "nothing is known of them" in (out / "report.html").read_text()
    assert not any(CANARY.encode() in file.read_bytes() for file in out.rglob("*") if file.is_file())

    again = await run("measure", "--resume", str(out), "--header", f"X-Canary: {CANARY}", extra={"DUO_KEY": CANARY})
    assert again.code == 0, again.err
    assert numbers(out) == list(range(planned))
    told = summary(out)
    assert told["attempts"]["lost"] == 0 and told["attempts"]["total"] == planned
    assert "worker 2 was killed by SIGKILL; its dialogues were held later" in told["remarks"]
    assert "lost" not in again.err


async def open_loop_workers_keep_the_instants_of_the_plan(place: Path, url: str, tmp_path: Path) -> None:
    """One is told to stop by somebody else; until then all dialogues have the instants that one process would keep."""
    out = tmp_path / "run"
    process = await start(
        *(*measure(place, url), "--repeat", "14", "--rate", "5", "--seed", "3"),
        *("--workers", "2", "--out", str(out)),
    )
    await until(lambda: (out / "journal.jsonl").exists() and len(RunFolder.open(out).journal()) >= 3)
    os.kill(workers_of(process)[0], signal.SIGTERM)
    ran = await finish(process)
    assert ran.code == 0, ran.err
    assert any("worker 1 could not go on: somebody else told it to stop" in line for line in summary(out)["remarks"])
    intended_ns = {}
    for number in numbers(out):
        opened = read_log(out / f"dialogues/d{number + 1:04d}/events.jsonl")[0]
        assert isinstance(opened, Opened) and opened.intended_ns is not None
        intended_ns[number] = opened.intended_ns
    assert {number % 2 for number in intended_ns} == {0, 1}
    planned = list(itertools.islice(arrivals_ns(RunFolder.open(out).plan.load), 14))
    assert len({began_ns - planned[number] for number, began_ns in intended_ns.items()}) == 1


async def workers_that_are_stopped_leave_a_run_that_goes_on(place: Path, url: str, tmp_path: Path) -> None:
    out = tmp_path / "run"
    process = await start(
        *(*measure(place, url), "--repeat", "9", "--sessions", "2", "--workers", "2"),
        *("--out", str(out)),
    )
    await until(lambda: (out / "journal.jsonl").exists() and len(RunFolder.open(out).journal()) >= 2)
    process.send_signal(signal.SIGINT)
    ran = await finish(process)
    assert ran.code == 130, ran.err
    assert "interrupted" in ran.err and "Traceback" not in ran.err
    done = numbers(out)
    assert 2 <= len(done) < 9 and not (out / LOST).exists()
    again = await run("measure", "--resume", str(out), "--json")
    assert again.code == 0, again.err
    told = json.loads(again.out)
    assert (told["workers"], told["attempts"]["lost"], told["dialogues"]["measured"]) == (2, 0, 9)
    assert numbers(out) == list(range(9))


async def a_parent_that_is_killed_takes_its_workers_along(place: Path, url: str, tmp_path: Path) -> None:
    """Until they are gone nobody else may write the run."""
    out = tmp_path / "run"
    process = await start(
        *(*measure(place, url), "--repeat", "40", "--sessions", "2", "--workers", "2"),
        *("--out", str(out)),
    )
    await until(lambda: (out / "journal.jsonl").exists())
    pids = workers_of(process)
    process.kill()
    await process.wait()

    def may_be_written() -> bool:
        try:
            with RunFolder.open(out).locked():
                return True
        except SetupError:
            return False

    await until(may_be_written)
    await until(lambda: not any(Path(f"/proc/{pid}/cmdline").exists() for pid in pids))
    assert len(numbers(out)) < 40


async def test_no_session_at_all_is_one_line(place: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    ran = await run(
        *("measure", "ws://127.0.0.1:1", "--audio", str(place / "clip.wav"), "--repeat", "4", "--sessions", "4"),
        *("--workers", "2", "--out", str(out)),
    )
    assert ran.code == 2, ran.err
    lines = [line for line in ran.err.splitlines() if line.startswith("duologue: ")]
    assert len(lines) == 1 and "nothing listens" in lines[0]
    assert not out.exists()


async def test_what_no_worker_can_do_is_one_line(shards: tuple[Path, Path], tmp_path: Path) -> None:
    broken = other(shards[0], tmp_path / "run", lambda plan: plan.replace(b'"workers": 1', b'"workers": 2'))
    (broken / "journal.jsonl").unlink()
    (clip,) = (broken / "audio").glob("*.flac")
    soundfile.write(clip, tone(100), 24_000)
    ran = await run("measure", "--resume", str(broken))
    assert ran.code == 2 and "no longer holds the audio" in ran.err and "Traceback" not in ran.err, ran.err


async def test_a_sweep_with_workers(place: Path, url: str, tmp_path: Path) -> None:
    out = tmp_path / "levels"
    ran = await run(*measure(place, url), "--sweep", "2", "--workers", "3", "--out", str(out))
    assert ran.code == 0, ran.err
    assert RunFolder.open(out / "sessions-0002").plan.workers == 2, "no more than sessions"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--shard", "3/2"], "--shard 3/2"),
        (["--workers", "0"], "--workers"),
        (["--workers", "3", "--sessions", "2", "--repeat", "5"], "3 workers cannot share 2 sessions"),
        (["--shard", "1/2", "--sweep", "1,2"], "--shard does not go with"),
    ],
)
async def test_bad_shares_are_one_line(place: Path, tmp_path: Path, arguments: list[str], says: str) -> None:
    clip, out = str(place / "clip.wav"), str(tmp_path / "r")
    ran = await run("measure", "ws://127.0.0.1:1", "--audio", clip, *arguments, "--out", out)
    assert ran.code == 2 and says in ran.err and "Traceback" not in ran.err, ran.err
    assert not (tmp_path / "r").exists()


# ---- merging -------------------------------------------------------------------------------------------------------


async def test_shards_merge_to_the_plan(shards: tuple[Path, Path], tmp_path: Path) -> None:
    out = tmp_path / "both"
    ran = await run("merge", *map(str, shards), "--out", str(out))
    assert ran.code == 0, ran.err
    assert ran.out.rstrip().splitlines()[-1] == f"report: {out / 'report.html'}"
    assert "Merged from 2 runs: s1 (shard 1/2, 3 dialogues), s2 (shard 2/2, 2 dialogues)." in " ".join(ran.out.split())
    assert [numbers(shard) for shard in shards] == [[0, 2, 4], [1, 3]] and numbers(out) == [0, 1, 2, 3, 4]
    for shard in shards:
        for line in RunFolder.open(shard).journal():
            for name in RAW:
                file = f"dialogues/{line.id}/{name}"
                assert (out / file).read_bytes() == (shard / file).read_bytes()
    plan, parts = RunFolder.open(out).plan, [RunFolder.open(shard).plan for shard in shards]
    assert plan.shard == Share() and [part.shard for part in plan.merged] == [Share(0, 2), Share(1, 2)]
    assert [part.floor for part in plan.merged] == [part.floor for part in parts]
    assert all(value == max(part.floor[name] for part in parts) for name, value in plan.floor.items())
    told = summary(out)
    assert told["attempts"]["total"] == sum(summary(shard)["attempts"]["total"] for shard in shards) == 5
    assert told["attempts"]["lost"] == 0 and not (out / LOST).exists()
    turns = [(shard / "turns.csv").read_text().splitlines() for shard in shards]
    merged = (out / "turns.csv").read_text().splitlines()
    assert sorted(merged[1:]) == sorted([*turns[0][1:], *turns[1][1:]]) and merged[0] == turns[0][0]


async def test_what_no_run_has_is_named_and_lost(shards: tuple[Path, Path], tmp_path: Path) -> None:
    part, out = tmp_path / "part", tmp_path / "both"
    shutil.copytree(shards[1], part)
    journal = part / "journal.jsonl"
    journal.write_bytes(journal.read_bytes().splitlines(keepends=True)[0])
    (missing,) = set(numbers(shards[1])) - set(numbers(part))
    ran = await run("merge", str(shards[0]), str(part), "--out", str(out), "--json")
    assert ran.code == 0, ran.err
    assert f"1 dialogue in no run: d{missing + 1:04d}" in ran.err
    told = json.loads(ran.out)
    assert (told["attempts"]["total"], told["attempts"]["lost"], told["dialogues"]["lost"]) == (4, 1, 1)
    assert ran.err.rstrip().splitlines()[-1] == f"report: {out / 'report.html'}"


def other(shard: Path, place: Path, change: Callable[[bytes], bytes]) -> Path:
    shutil.copytree(shard, place)
    (place / "plan.json").write_bytes(change((place / "plan.json").read_bytes()))
    return place


@pytest.mark.parametrize(
    ("old", "new", "field"),
    [
        (b'"reply_s": 120.0', b'"reply_s": 60.0', r"limits\.reply_s is 120\.0 and 60\.0"),
        (b'"repeat": 5', b'"repeat": 6', "repeat is 5 and 6"),
        (b'"last_sample": ', b'"last_sample": 1', r"scripts\[0\]\.turns\[0\]\.last_sample"),
        (b'"turn_detection": "manual"', b'"turn_detection": "server_vad"', "turn_detection"),
        (b'"gate": "1"', b'"gate": "9"', r"definitions\.gate"),
    ],
)
def test_other_plans_are_refused_by_field(
    shards: tuple[Path, Path], tmp_path: Path, old: bytes, new: bytes, field: str
) -> None:
    def change(plan: bytes) -> bytes:
        assert plan.count(old) == 1, old
        return plan.replace(old, new)

    with pytest.raises(SetupError, match=field):
        merge([shards[0], other(shards[1], tmp_path / "other", change)], tmp_path / "out")
    assert {path.name for path in tmp_path.iterdir()} == {"other"}


def test_the_same_dialogues_twice_are_refused(shards: tuple[Path, Path], tmp_path: Path) -> None:
    same = tmp_path / "same"
    same.symlink_to(shards[0])
    with pytest.raises(SetupError, match="given twice"):
        merge([shards[0], same], tmp_path / "out")
    shutil.copytree(shards[0], tmp_path / "copy")
    with pytest.raises(SetupError, match="dialogue d0001 is in s1 and in copy"):
        merge([shards[0], tmp_path / "copy"], tmp_path / "out")
    with pytest.raises(SetupError, match="two run folders or more"):
        merge([shards[0]], tmp_path / "out")
    with pytest.raises(SetupError, match="is there already"):
        merge(shards, shards[1])
    assert not (tmp_path / "out").exists()


def test_a_merge_of_merges_keeps_every_part(shards: tuple[Path, Path], tmp_path: Path) -> None:
    empty = tmp_path / "none"
    shutil.copytree(shards[1], empty)
    (empty / "journal.jsonl").unlink()
    first = merge([shards[0], empty], tmp_path / "first")
    assert first.missing == ["d0002", "d0004"]
    whole = merge([tmp_path / "first", shards[1]], tmp_path / "whole")
    assert whole.missing == [] and numbers(tmp_path / "whole") == [0, 1, 2, 3, 4]
    assert [part.name for part in whole.run.plan.merged] == ["first/s1", "first/none", "s2"]
    assert msgspec.json.decode((tmp_path / "whole" / LOST).read_bytes())["losses"][0]["numbers"] == [1, 3]
