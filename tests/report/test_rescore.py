"""`duologue rescore`: from the record alone, and byte for byte the same each time."""

from __future__ import annotations

import io
import struct
from pathlib import Path

import msgspec
import numpy as np
import pytest
import soundfile
from click.testing import CliRunner

from harness.cli.rescore import rescore as rescore_command
from harness.replay.rescore import derived, rescore
from harness.report.html.ogg import with_serial
from harness.results.finish import finish_run
from sessions.errors import SetupError
from sessions.runs import RunFolder
from tests.report.test_check import recorded


def everything(run: RunFolder) -> dict[str, bytes]:
    """Every file of the folder, by its path in it."""
    files = [file for file in sorted(run.path.rglob("*")) if file.is_file()]
    return {str(file.relative_to(run.path)): file.read_bytes() for file in files}


@pytest.mark.parametrize("turn_detection", ["manual", "server_vad"])
def test_twice_is_once(turn_detection: str, tmp_path: Path) -> None:
    run = recorded(tmp_path, turn_detection)
    finish_run(run)
    first = everything(run)
    names = set(derived(run))
    assert {"summary.json", "turns.csv", "report.html", "dialogues/d0001/recording.flac"} <= names
    done = rescore(run)
    assert (set(done.same), done.changed, done.made, done.gone) == (names, [], [], [])
    assert everything(run) == first


def test_what_was_derived_is_not_needed(tmp_path: Path) -> None:
    run = recorded(tmp_path)
    finish_run(run)
    first = everything(run)
    names = set(derived(run))
    for name in names:
        (run.path / name).unlink()
    done = rescore(run)
    assert set(done.made) == names
    assert everything(run) == first


def test_what_was_tampered_with_is_told(tmp_path: Path) -> None:
    run = recorded(tmp_path)
    finish_run(run)
    first = everything(run)
    (run.path / "turns.csv").write_text("mine\n")
    (run.dialogue("d0001") / "reply-9.flac").write_bytes(b"mine too")
    done = rescore(run)
    assert done.changed == ["turns.csv"]
    assert done.gone == ["dialogues/d0001/reply-9.flac"]
    assert everything(run) == first


def test_the_summary_names_the_definitions_that_made_it(tmp_path: Path) -> None:
    """A run of an older program, scored by this one."""
    run = recorded(tmp_path)
    older = {**run.plan.definitions, "gate": "0"}
    assert older != run.plan.definitions
    old = RunFolder(run.path, msgspec.structs.replace(run.plan, definitions=older))
    assert rescore(old).finished.summary.definitions["gate"] == run.plan.definitions["gate"]


def test_the_command_says_what_became_of_the_files(tmp_path: Path) -> None:
    run = recorded(tmp_path)
    finish_run(run)
    result = CliRunner().invoke(rescore_command, [str(run.path)], standalone_mode=False)
    assert result.return_value == 0, result.output
    assert f"{len(derived(run))} files as before, byte for byte" in result.output
    empty = RunFolder.create(tmp_path / "empty", run.plan)
    with pytest.raises(SetupError, match="has no finished dialogue"):
        CliRunner().invoke(rescore_command, [str(empty.path)], standalone_mode=False, catch_exceptions=False)


# ---- the one thing in a page that encoders choose by chance --------------------------------------------------------


def ogg() -> bytes:
    out = io.BytesIO()
    sound = np.random.default_rng(1).normal(0, 0.1, (100_000, 2))
    soundfile.write(out, sound, 24_000, format="OGG", subtype="VORBIS")
    return out.getvalue()


def pages(data: bytes) -> list[bytes]:
    found, at = [], 0
    while at < len(data):
        segments = data[at + 26]
        size = 27 + segments + sum(data[at + 27 : at + 27 + segments])
        found.append(data[at : at + size])
        at += size
    return found


def checksum(page: bytes) -> int:
    """Bit by bit, as RFC 3533 defines it."""
    value = 0
    for byte in page[:22] + bytes(4) + page[26:]:
        value ^= byte << 24
        for _ in range(8):
            value = (value << 1) ^ (0x104C11DB7 if value >> 31 else 0)
    return value


def test_the_serial_number_of_an_ogg_stream_is_ours() -> None:
    one, other = ogg(), ogg()
    same = with_serial(one, 1)
    assert same == with_serial(other, 1)
    for page in pages(same):
        serial, stored = struct.unpack_from("<I4xI", page, 14)
        assert serial == 1
        assert stored == checksum(page)
    assert np.array_equal(soundfile.read(io.BytesIO(one))[0], soundfile.read(io.BytesIO(same))[0])


@pytest.mark.parametrize("data", [b"", b"OggS", b"RIFF" + bytes(40), ogg()[:-1]])
def test_what_is_no_ogg_stream_stays_as_it_is(data: bytes) -> None:
    assert with_serial(data, 1) == data
