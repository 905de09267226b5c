"""The run folder: journal, resumption, atomic writes."""

from __future__ import annotations

import errno
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from harness.cli.measure import measure
from harness.runs.places import default_place, made_default_place
from sessions.errors import BadFile, SetupError
from sessions.runs import JournalLine, Limits, Plan, RunFolder, disk_errors, write_atomic
from sessions.secrets import Secrets


def plan() -> Plan:
    return Plan(
        created="2026-01-01T00:00:00",
        target="ws://127.0.0.1:1/",
        protocol="openai-realtime",
        protocol_class="A",
        turn_detection="manual",
        server_vad={},
        voice="",
        headers=[],
        scripts=[],
        repeat=1,
        warmup=0,
        frame_ms=20,
        rate_hz=24_000,
        limits=Limits(),
        definitions={},
        software={},
        floor={},
    )


def line(number: int) -> JournalLine:
    return JournalLine(id=f"d{number:04d}", number=number, script="s", warmup=False, turns=3)


def test_a_plan_comes_back_as_it_was(tmp_path: Path) -> None:
    RunFolder.create(tmp_path / "run", plan())
    assert RunFolder.open(tmp_path / "run").plan == plan()


def test_whole_numbers_for_the_server_stay_whole(tmp_path: Path) -> None:
    """A server refuses 300.0 where it wants 300, in a run's first start and when it is resumed."""
    asked = msgspec.structs.replace(plan(), server_vad={"silence_duration_ms": 300, "threshold": 0.5})
    made = RunFolder.create(tmp_path / "run", asked)
    for run in (made, RunFolder.open(tmp_path / "run")):
        assert [type(value) for value in run.plan.server_vad.values()] == [int, float]


def test_a_torn_last_line_is_not_done_and_does_no_harm(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", plan())
    run.append_journal(line(0))
    with (run.path / "journal.jsonl").open("ab") as torn:
        torn.write(b'{"id":"d0001","num')
    assert run.journal() == [line(0)]
    run.append_journal(line(1))
    assert run.journal() == [line(0), line(1)]


def test_a_damaged_line_is_named(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", plan())
    run.append_journal(line(0))
    (run.path / "journal.jsonl").write_bytes(b"{}\n")
    with pytest.raises(BadFile, match=r"journal\.jsonl:1"):
        run.journal()


def test_not_a_run_and_a_run_already_there(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="not a run folder"):
        RunFolder.open(tmp_path)
    RunFolder.create(tmp_path / "run", plan())
    with pytest.raises(SetupError, match=r"It lies in a run; give that: .*/run$"):
        RunFolder.open(tmp_path / "run" / "dialogues" / "d0001")
    with pytest.raises(SetupError, match="--resume"):
        RunFolder.create(tmp_path / "run", plan())


def test_a_plan_of_another_version_is_refused(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", plan())
    text = (run.path / "plan.json").read_text().replace('"version": 1', '"version": 99')
    (run.path / "plan.json").write_text(text)
    with pytest.raises(BadFile, match="99"):
        RunFolder.open(run.path)


@pytest.mark.parametrize(
    ("place", "then", "says"),
    [
        ("run/dialogues/d0001", "", "then go on with --resume {0}/run"),
        ("run/report.html", "give: duologue report RUN", "then give: duologue report RUN"),
        ("labels.txt", "", "then give the command again"),
    ],
)
def test_a_full_disk_has_the_mend_of_what_was_under_way(tmp_path: Path, place: str, then: str, says: str) -> None:
    RunFolder.create(tmp_path / "run", plan())
    with pytest.raises(SetupError) as caught, disk_errors(tmp_path / place, then=then):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert says.format(tmp_path) in caught.value.mend


def test_one_writer_at_a_time(tmp_path: Path) -> None:
    run = RunFolder.create(tmp_path / "run", plan())
    with run.locked(), pytest.raises(SetupError, match="another process"), RunFolder.open(run.path).locked():
        pass


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "summary.json"
    write_atomic(file, "old")
    monkeypatch.setattr("os.fsync", lambda fd: (_ for _ in ()).throw(OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="No space"):
        write_atomic(file, "new")
    assert file.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["summary.json"]


@pytest.mark.parametrize(
    ("file", "says"),
    [
        ("plan.json", "already holds a run. Choose another --out, or go on with it: --resume"),
        ("levels.json", "already holds levels. Choose another --out"),
        ("interleave.json", "already holds two runs. "),
        ("trials.json", "already holds trials. "),
    ],
)
def test_a_folder_holds_one_thing(tmp_path: Path, file: str, says: str) -> None:
    """Neither a run, nor levels, nor several runs begin in a folder that holds any of them."""
    (tmp_path / file).write_text("{}")
    asked = ["ws://127.0.0.1:1", "--script", "facts", "--out", str(tmp_path)]
    for more in ([], ["--sweep", "1,2"], ["--trials", "2"], ["--interleave", "ws://127.0.0.1:2"]):
        ran = CliRunner().invoke(measure, [*asked, *more], obj=Secrets(), standalone_mode=False)
        assert isinstance(ran.exception, SetupError) and says in str(ran.exception), (more, ran.exception)
    assert [path.name for path in tmp_path.iterdir()] == [file]


def test_commands_that_begin_at_once_have_a_folder_each(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("harness.runs.places.wall_time", lambda: "2026-11-29T10:15:00.123+00:00")
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: made_default_place("talk"), range(8)))
    first = "runs/2026-11-29T10-15-00-talk"
    assert sorted(map(str, made)) == [first, *(f"{first}-{number}" for number in range(2, 9))]
    assert str(default_place("talk")) == f"{first}-9"


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (["--repeat", "99999999999"], "99,999,999,999 dialogues; a run holds at most 1,000,000"),
        (["--warmup", "1000000"], "1,000,001 dialogues"),
        (["--rate", "1000", "--duration", "9h", "--max-sessions", "4"], "32,400,000 dialogues"),
    ],
)
def test_a_plan_that_no_memory_holds_is_refused(tmp_path: Path, more: list[str], says: str) -> None:
    asked = ["ws://127.0.0.1:1", "--script", "facts", "--out", str(tmp_path / "run"), *more]
    ran = CliRunner().invoke(measure, asked, obj=Secrets(), standalone_mode=False)
    assert isinstance(ran.exception, SetupError) and says in str(ran.exception), ran.exception
    assert not (tmp_path / "run").exists()
