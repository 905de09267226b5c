"""Run folders that are not whole any more: every command that reads one names what is wrong in one line, with exit code
2, and takes nothing away."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.results.finish import finish_run
from sessions.runs import RunFolder
from tests.product.test_bad_audio import run as duologue
from tests.report.test_check import recorded
from tests.report.test_rescore import everything


def half(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def a_loop(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.name)


def without_its_end(path: Path) -> None:
    path.write_bytes(b"\n".join(path.read_bytes().splitlines()[:-1]) + b"\n")


def with_other(kind: str, **fields: object) -> Callable[[Path], None]:
    """Change the last event of a kind."""

    def change(path: Path) -> None:
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        [*_, event] = [line for line in lines if line["kind"] == kind]
        event.update(fields)
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))

    return change


DAMAGE: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "no log": ("events.jsonl", Path.unlink, "No such file"),
    "an empty log": ("events.jsonl", lambda path: path.write_bytes(b""), "the log of d0001 has no beginning"),
    "a log that was cut": ("events.jsonl", without_its_end, "the log of d0001 has no end: it was cut off"),
    "a log that was torn": ("events.jsonl", lambda path: path.write_bytes(path.read_bytes()[:-9]), "events.jsonl:"),
    "a log of other bytes": ("events.jsonl", lambda path: path.write_bytes(bytes(300)), "events.jsonl:1"),
    "a pipe": ("events.jsonl", a_pipe, "it is not a regular file"),
    "a folder": ("received.bin", a_folder, "it is not a regular file"),
    "a link to itself": ("received.bin", a_loop, "symbolic links"),
    "a stamp of nothing": ("events.jsonl", with_other("received", t_ns=0), "an instant in line"),
    "a stamp of another age": ("events.jsonl", with_other("ended", t_ns=1 << 63), "an instant in line"),
    "an end of speech far off": ("events.jsonl", with_other("turn", speech_end_ns=1 << 63), "an instant in line"),
    "another rate": ("events.jsonl", with_other("opened", rate_hz=8000), "says rate_hz 8000; the plan says 24000"),
    "a rate of 0": ("events.jsonl", with_other("turn", rate_hz=0), "Expected `int` >= 200"),
    "an offset below 0": ("events.jsonl", with_other("received", offset=-1), "Expected `int` >= 0"),
    "a turn that nobody planned": ("events.jsonl", with_other("turn", turn=2), "has a turn 3; its script has 2"),
    "no messages": ("received.bin", Path.unlink, "No such file"),
    "half of the messages": ("received.bin", half, "received.bin of d0001 is shorter than its log says"),
}
COMMANDS = [
    ["rescore"],
    ["report"],
    ["export", "--format", "csv"],
    ["export", "--format", "elan"],
    ["case", "d0001/1"],
    ["replay", "--against", "ws://127.0.0.1:1", "--no-calibration"],
    ["serve", "--replay"],
    ["compare", "SELF"],
]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    run = recorded(tmp_path_factory.mktemp("whole"))
    finish_run(run)
    return run


@pytest.fixture
def damaged(whole: RunFolder, tmp_path: Path) -> RunFolder:
    for name, data in everything(whole).items():
        (tmp_path / "run" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "run" / name).write_bytes(data)
    return RunFolder.open(tmp_path / "run")


def command_line(command: list[str], run: Path) -> list[str]:
    name, *options = command
    if name == "serve":
        return [name, *options, str(run), "--port", "0"]
    place = ["--out", str(run.parent / "out")] if name in ("export", "replay", "case") else []
    others = [str(run) if option == "SELF" else option for option in options if not option.startswith("d0")]
    return [name, str(run), *(option for option in options if option.startswith("d0")), *others, *place]


@pytest.mark.parametrize("damage", DAMAGE)
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_damaged_record_is_named_and_nothing_is_taken_away(
    damaged: RunFolder, command: list[str], damage: str
) -> None:
    name, harm, says = DAMAGE[damage]
    harm(damaged.dialogue("d0001") / name)
    before = everything(damaged)
    code, said = duologue(command_line(command, damaged.path))
    assert code == 2, said
    lines = [line for line in said.splitlines() if line.startswith("duologue: ")]
    assert len(lines) == 1 and says in lines[0] and "Traceback" not in said, said
    after = everything(damaged)
    assert after | {".lock": b""} == before | {".lock": b""}


@pytest.mark.parametrize("damage", DAMAGE)
def test_check_names_it_too(damaged: RunFolder, damage: str) -> None:
    name, harm, _ = DAMAGE[damage]
    harm(damaged.dialogue("d0001") / name)
    code, said = duologue(["check", str(damaged.path)])
    assert code != 0 and name in said and "Traceback" not in said, said


@pytest.mark.parametrize(
    ("name", "data"),
    [("turns.csv", b"\xfd\xfe"), ("turns.csv", b"dialogue,turn,voice_to_voice_ms\r\nd0001,1,x\r\n")],
)
def test_a_damaged_table_is_named_by_check(damaged: RunFolder, name: str, data: bytes) -> None:
    (damaged.path / name).write_bytes(data)
    code, said = duologue(["check", str(damaged.path)])
    assert code == 1 and f"{name}: it is no table of turns" in said and "Traceback" not in said, said


def test_a_clip_is_as_long_as_the_plan_says(damaged: RunFolder) -> None:
    text = (damaged.path / "plan.json").read_text()
    (damaged.path / "plan.json").write_text(re.sub(r'"last_sample": \d+', '"last_sample": 1000000000000', text))
    code, said = duologue(command_line(["replay", "--against", "ws://127.0.0.1:1"], damaged.path))
    assert code == 2 and "last_sample 1000000000000 is not in" in said and "Traceback" not in said, said


@pytest.mark.parametrize("name", ["plan.json", "journal.jsonl"])
@pytest.mark.parametrize("command", [["check"], *COMMANDS], ids=" ".join)
def test_a_plan_and_a_journal_that_are_none(damaged: RunFolder, command: list[str], name: str) -> None:
    for data in (b"[" * 100_000, b'{"a":' * 100_000, bytes(300), b"{}\n"):
        (damaged.path / name).write_bytes(data)
        code, said = duologue(command_line(command, damaged.path))
        assert code in (1, 2) and (name in said or "has no finished dialogue" in said) and "Traceback" not in said, said


@pytest.mark.parametrize("harm", [a_pipe, a_folder])
@pytest.mark.parametrize("command", [["check"], *COMMANDS], ids=" ".join)
def test_a_journal_that_is_no_file(damaged: RunFolder, command: list[str], harm: Callable[[Path], object]) -> None:
    harm(damaged.path / "journal.jsonl")
    code, said = duologue(command_line(command, damaged.path))
    assert code == 2 and "journal.jsonl: it is not a regular file" in said and "Traceback" not in said, said


@pytest.mark.parametrize(
    ("name", "old", "new", "says"),
    [
        ("journal.jsonl", '"id":"d0001"', '"id":"../../elsewhere"', "journal.jsonl:1"),
        ("plan.json", '"timeout_s": 30.0', '"timeout_s": 1e308', "timeout_s"),
        ("plan.json", '"rate_hz": 24000', '"rate_hz": 0', "rate_hz"),
        ("plan.json", '"frame_ms": 20', '"frame_ms": 0', "frame_ms"),
    ],
)
def test_a_folder_from_a_stranger_leads_nowhere_else_and_no_number_of_it_is_a_bug(
    damaged: RunFolder, name: str, old: str, new: str, says: str
) -> None:
    elsewhere = damaged.path.parent / "elsewhere" / "recording.flac"
    elsewhere.parent.mkdir()
    elsewhere.write_bytes(b"mine")
    text = (damaged.path / name).read_text()
    assert old in text
    (damaged.path / name).write_text(text.replace(old, new))
    for command in COMMANDS:
        code, said = duologue(command_line(command, damaged.path))
        assert code == 2 and says in said and "Traceback" not in said, said
    assert elsewhere.read_bytes() == b"mine"
