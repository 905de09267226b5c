"""Audio files with texts from another file: what fits what, what is missing, what is refused."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import msgspec
import numpy as np
import pytest
import soundfile

from harness.score.samples.of_folder import FolderSamples, Known, samples_of_folder
from harness.score.samples.texts import read_rows
from sessions.errors import BadFile, SetupError


def make(folder: Path, *names: str) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        soundfile.write(path, np.zeros(160, dtype=np.int16), 16_000)
    return folder


def found(folder: Path, **known: object) -> FolderSamples:
    return samples_of_folder(folder, Known(**known))  # type: ignore[arg-type]


def write(path: Path, content: str) -> Path:
    path.write_text(content, encoding="utf-8")
    return path


def test_files_come_in_order_folder_by_folder(tmp_path: Path) -> None:
    folder = make(tmp_path / "in", "b/2.wav", "b/1.wav", "z.flac", "a.ogg", "b/deep/1.wav")
    write(folder / "notes.txt", "not audio")
    make(folder, ".hidden/1.wav", ".x.wav")
    samples = list(found(folder, language="en", reference_audio="voice.wav"))
    assert [one.id for one in samples] == ["a.ogg", "z.flac", "b/1.wav", "b/2.wav", "b/deep/1.wav"]
    assert [one.group for one in samples] == ["", "", "b", "b", "b/deep"]
    assert [one.order for one in samples] == [0, 1, 0, 1, 0]
    assert {one.language for one in samples} == {"en"}
    assert {one.reference_audio for one in samples} == {"voice.wav"}
    assert all(Path(one.audio).is_file() for one in samples)
    assert {(one.text, one.reference) for one in samples} == {(None, None)}


def test_one_file_is_a_folder_of_one(tmp_path: Path) -> None:
    make(tmp_path, "a.wav", "b.wav")
    assert [one.id for one in found(tmp_path / "a.wav")] == ["a.wav"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.jsonl", '{"id": "a", "text": "one"}\n\n{"audio": "b/1.wav", "text": ""}\n'),
        ("t.jsonl", '{"a.wav": "one"}\n{"b/1": ""}\n'),
        ("t.json", '{"a": "one", "b/1": ""}'),
        ("t.json", '[{"id": "a", "text": "one"}, {"path": "b/1", "text": ""}]'),
        ("t.tsv", "a\tone\nb/1\t\n"),
        ("t.tsv", "text\tid\r\none\ta\r\n\tb/1\r\n"),
        ("t.csv", 'id,text\na,"one"\nb/1,""\n'),
        ("t.csv", "./a.wav,one\nb\\1.wav,\n"),
        ("t.csv", '"a","one"\r\n"b/1",""\r\n'),
    ],
)
def test_every_form_says_the_same(name: str, content: str, tmp_path: Path) -> None:
    folder = make(tmp_path / "in", "a.wav", "b/1.wav")
    samples = found(folder, text=write(tmp_path / name, content))
    assert [one.text for one in samples] == ["one", ""]  # an empty text is data
    assert samples.coverage() == ["text for 2 of 2 samples"]


@pytest.mark.parametrize("mark", ["\u2028", "\x85", "\v", "\f", "\x1c"])
def test_a_row_ends_where_a_line_does_and_nowhere_else(tmp_path: Path, mark: str) -> None:
    for name, between in (("t.csv", ","), ("t.tsv", "\t")):
        text = write(tmp_path / name, f"a{between}one{mark}b,two\n".replace(",two", " two"))
        assert [row.text for row in read_rows(text, "text").values()] == [f"one{mark}b two"]


def test_names_fit_with_and_without_folder_and_suffix(tmp_path: Path) -> None:
    folder = make(tmp_path / "in", "set/0000.wav", "set/0001.wav", "set/0002.wav", "set/Ünder.wav")
    ids = {"0000": "stem", "0001.wav": "name", "set/0002": "path", "U\u0308nder": "decomposed"}
    text = write(tmp_path / "t.jsonl", "".join(json.dumps({key: value}) + "\n" for key, value in ids.items()))
    assert [one.text for one in found(folder, text=text)] == ["stem", "name", "path", "decomposed"]


def test_language_and_emotion_come_with_the_row(tmp_path: Path) -> None:
    folder = make(tmp_path / "in", "a.wav", "b.wav")
    rows = [{"id": "a", "text": "你好", "language": "zh", "emotion": "happy"}, {"id": "b", "text": "hi"}]
    text = write(tmp_path / "t.jsonl", "\n".join(map(json.dumps, rows)))
    assert [(one.language, one.emotion) for one in found(folder, text=text, language="en")] == [
        ("zh", "happy"),
        ("en", ""),
    ]


def test_references_have_a_field_of_their_own(tmp_path: Path) -> None:
    folder = make(tmp_path / "in", "a.wav")
    both = write(tmp_path / "t.jsonl", '{"id": "a", "text": "said", "reference": "meant"}')
    (sample,) = found(folder, text=both, reference=both)
    assert (sample.text, sample.reference) == ("said", "meant")


def test_coverage_is_told(tmp_path: Path) -> None:
    folder = make(tmp_path / "in", *(f"{number:04d}.wav" for number in range(10)))
    text = write(tmp_path / "t.jsonl", "".join(f'{{"{number:04d}": "x"}}\n' for number in range(5, 17)))
    samples = found(folder, text=text)
    assert samples.coverage() == [
        "text for 5 of 10 samples",
        "7 rows of text without an audio file: '0010', '0011', '0012' …",
    ]
    assert [one.text for one in samples] == [None] * 5 + ["x"] * 5


def test_a_null_is_no_row(tmp_path: Path) -> None:
    folder = make(tmp_path / "in", "a.wav", "b.wav")
    samples = found(folder, text=write(tmp_path / "t.jsonl", '{"id": "a", "text": null}\n{"id": "b", "text": "x"}'))
    assert [one.text for one in samples] == [None, "x"]
    assert samples.coverage() == ["text for 1 of 2 samples"]


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("t.jsonl", '{"id": "x1", "text": "one"}', "its first id is 'x1', the first file 'a.wav'"),
        ("t.tsv", "a one\nb two\n", "no tab in it, so it has no text (is it divided by spaces?). Rows are"),
        ("t.csv", "a one\n", "no comma in it"),
        ("t.csv", "id,text\na,one,two\n", "3 columns where 2 are expected (id, text)"),
        ("t.jsonl", '{"id": "a", "text": "one"}\n{"id": "a.wav", "text": "two"}', "'a.wav' and 'a' are both a.wav"),
        ("t.jsonl", '{"id": "a", "text": "1"}\n{"id": "./a", "text": "2"}', "was there already as 'a' in line 1"),
        ("t.jsonl", '{"id": "1", "text": "one"}', "'1' fits 2 files: b/1.wav, c/1.wav"),
        ("t.jsonl", '{"id": "a", "answer": "one"}', "'a' has no 'text'; it has: id, answer"),
        ("t.jsonl", '{"who": "a", "text": "one"}', "a row without an id; it has: who, text"),
        ("t.jsonl", '{"id": "a", "text": 3}', "the text of 'a' is a int, not text"),
        ("t.jsonl", "[1]", "a row that is no object"),
        ("t.jsonl", "a one", "t.jsonl:1: it is no JSON"),
        ("t.json", "3", "neither a list of rows"),
        ("t.json", "{}", "it holds no rows"),
        ("t.json", '{"a": "one", "a": "two"}', "'a' stands there twice"),
        ("t.json", '[{"id": "a", "id": "b/1", "text": "one"}]', "'id' stands there twice"),
        ("t.jsonl", '\n{"a": "one", "a": "two"}', "t.jsonl:2: 'a' stands there twice"),
        ("t.tsv", "", "it holds no rows"),
        ("t.txt", "a one", "cannot tell what"),
    ],
)
def test_what_cannot_be_right_is_refused(name: str, content: str, told: str, tmp_path: Path) -> None:
    folder = make(tmp_path / "in", "a.wav", "b/1.wav", "c/1.wav")
    with pytest.raises(SetupError) as refused:
        found(folder, text=write(tmp_path / name, content))
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)


def test_text_that_is_not_utf_8_and_folders_that_are_not_there(tmp_path: Path) -> None:
    latin = tmp_path / "t.tsv"
    latin.write_bytes("a\tcafé\n".encode("latin-1"))
    with pytest.raises(BadFile, match="not UTF-8"):
        read_rows(latin, "text")
    with pytest.raises(SetupError, match="no such folder"):
        found(tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(SetupError, match="no audio file"):
        found(tmp_path / "empty")
    with pytest.raises(SetupError, match="cannot read"):
        found(make(tmp_path / "in", "a.wav"), text=tmp_path / "away.tsv")


def test_names_that_are_no_text_are_named_and_not_scored(tmp_path: Path) -> None:
    folder = make(tmp_path / "in", "a.wav", "Ünder/b.wav")
    odd = os.fsdecode(b"\xff.wav")
    shutil.copy(folder / "a.wav", folder / odd)
    samples = list(found(folder))
    assert [one.id for one in samples] == ["a.wav", "\\xff.wav", "Ünder/b.wav"]
    assert [one.unavailable for one in samples] == ["", "its name is not UTF-8: rename it", ""]
    msgspec.json.encode(samples)
    text = write(tmp_path / "t.json", '{"a": "one", "Ünder/b": "two"}')
    assert found(folder, text=text).coverage() == ["text for 2 of 3 samples"]
    shutil.copy(folder / "a.wav", folder / "\\xff.wav")
    with pytest.raises(SetupError, match="two names look alike as text"):
        found(folder)
    elsewhere = tmp_path / os.fsdecode(b"\xfe")
    folder.rename(elsewhere)
    with pytest.raises(SetupError, match="is not UTF-8"):
        found(elsewhere)


@pytest.mark.parametrize("language", ["English", "e", "en GB", "普通话"])
def test_a_language_that_is_no_tag_is_refused(tmp_path: Path, language: str) -> None:
    text = tmp_path / "t.jsonl"
    text.write_text(json.dumps({"id": "a", "text": "hi", "language": language}))
    with pytest.raises(BadFile, match=r"t\.jsonl:1: the language of 'a' is .* Give a tag"):
        read_rows(text, "text")


def test_half_a_character_is_no_obstacle(tmp_path: Path) -> None:
    text = tmp_path / "t.jsonl"
    text.write_text('{"id": "a", "text": "hi \\ud83d there \\ud83d\\ude00", "emotion": "\\ude00"}')
    (row,) = read_rows(text, "text").values()
    assert (row.text, row.emotion) == (
        "hi \N{REPLACEMENT CHARACTER} there \N{GRINNING FACE}",
        "\N{REPLACEMENT CHARACTER}",
    )


@pytest.mark.parametrize("name", ["t.json", "t.jsonl"])
def test_json_without_end_is_refused(tmp_path: Path, name: str) -> None:
    text = tmp_path / name
    text.write_text("[" * 100_000)
    with pytest.raises(BadFile, match="it is no JSON"):
        read_rows(text, "text")
