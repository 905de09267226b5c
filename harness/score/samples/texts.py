"""A file that says what was said in which audio file: JSON lines, JSON, TSV or CSV."""

from __future__ import annotations

import csv
import io
import json
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from harness.score.samples.names import LANGUAGE_MEND, is_language, whole
from sessions.errors import BadFile, SetupError

ID_NAMES: Final = ("id", "audio", "path", "file", "name", "key", "utterance")
"""What the column, or the field, with the audio file's name may be called; the first that is there counts."""
_MEND = 'Rows are {"id": …, "text": …} in JSON lines, or id and text divided by a tab (.tsv) or a comma (.csv)'


@dataclass(frozen=True, slots=True)
class Row:
    """id: as in the file · text: "" is data · language, emotion: where the file says so · line: 0 where not known."""

    id: str
    text: str
    language: str = ""
    emotion: str = ""
    line: int = 0


def read_rows(file: Path, field: str) -> dict[str, Row]:
    """Every row by its id, made comparable by `normal_id`. field: what holds the text, "text" elsewhere.

    A row whose text is null is left out, as if it were not there; an empty text is kept. Raises `BadFile` for a row
    that cannot be read and for two of one id, and `SetupError` for a file that cannot.
    """
    kind = _KINDS.get(file.suffix.lower())
    if kind is None:
        raise SetupError(f"cannot tell what {file} holds by its name", f"Call it one of: {', '.join(_KINDS)}")
    try:
        content = file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadFile(str(file), "it is not UTF-8", mend="Save it as UTF-8") from error
    except OSError as error:
        raise SetupError(f"cannot read {file}: {error.strerror}", "Check the path") from error
    rows: dict[str, Row] = {}
    for row in kind(file, content, field):
        known = rows.setdefault(normal_id(row.id), row)
        if known is not row:
            what = f"{row.id!r} was there already as {known.id!r}" + (f" in line {known.line}" if known.line else "")
            raise BadFile(str(file), what, line=row.line or None, mend="Give each audio file one row")
    if not rows:
        raise BadFile(str(file), "it holds no rows", mend=_MEND)
    return rows


def normal_id(name: str) -> str:
    """A file's name in one spelling: composed characters, forward slashes, no "./" before it."""
    return unicodedata.normalize("NFC", name.strip().replace("\\", "/")).removeprefix("./")


class _Object(dict[str, Any]):
    """A JSON object. twice: a name that stands in it more than once, else None: JSON itself takes the last, unasked."""

    def __init__(self, pairs: list[tuple[str, Any]]) -> None:
        super().__init__(pairs)
        names = Counter(name for name, _ in pairs)
        self.twice = next((name for name, count in names.items() if count > 1), None)


def _must_have_each_once(file: Path, value: _Object, line: int) -> None:
    if value.twice is not None:
        raise BadFile(str(file), f"{value.twice!r} stands there twice", line=line or None, mend="Leave one of them")


def _json_lines(file: Path, content: str, field: str) -> Iterator[Row]:
    for number, line in enumerate(content.split("\n"), 1):
        if not line.strip():
            continue
        try:
            value = json.loads(line, object_pairs_hook=_Object)
        except (ValueError, RecursionError) as error:
            raise BadFile(str(file), f"it is no JSON: {error}", line=number, mend=_MEND) from error
        yield from _of_object(file, value, field, number)


def _json(file: Path, content: str, field: str) -> Iterator[Row]:
    try:
        value = json.loads(content, object_pairs_hook=_Object)
    except (ValueError, RecursionError) as error:
        raise BadFile(str(file), f"it is no JSON: {error}") from error
    if isinstance(value, list):
        for item in value:
            yield from _of_object(file, item, field, 0)
    elif isinstance(value, _Object):
        _must_have_each_once(file, value, 0)
        for name, text in value.items():
            yield from _row(file, name, {"text": text}, field, 0)
    else:
        raise BadFile(str(file), 'neither a list of rows nor {"id": "text", …}')


def _of_object(file: Path, value: Any, field: str, line: int) -> Iterator[Row]:
    """A row as an object: with fields, or with one entry, id → text."""
    if not isinstance(value, _Object):
        raise BadFile(str(file), "a row that is no object", line=line or None, mend=_MEND)
    _must_have_each_once(file, value, line)
    name = next((value[known] for known in ID_NAMES if known in value), None)
    if name is None and len(value) == 1:
        [(name, text)] = value.items()
        value = {"text": text}
    if not isinstance(name, str | int):
        raise BadFile(
            str(file), f"a row without an id; it has: {', '.join(value) or 'nothing'}", line=line or None, mend=_MEND
        )
    yield from _row(file, str(name), value, field, line)


def _row(file: Path, name: str, values: Mapping[str, Any], field: str, line: int) -> Iterator[Row]:
    if field not in values and "text" not in values:
        what = f"{name!r} has no {field!r}; it has: {', '.join(values)}"
        raise BadFile(str(file), what, line=line or None, mend=_MEND)
    text = values.get(field, values.get("text"))
    if text is None:
        return
    if not isinstance(text, str):
        raise BadFile(str(file), f"the text of {name!r} is a {type(text).__name__}, not text", line=line or None)
    name, text, emotion = (whole(each) for each in (name, text, str(values.get("emotion") or "")))
    language = str(values.get("language") or "").strip()
    if language and not is_language(language):
        what = f"the language of {name!r} is {language!r}, which is no language tag"
        raise BadFile(str(file), what, line=line or None, mend=LANGUAGE_MEND)
    yield Row(name, text, language, emotion, line)


def _tsv(file: Path, content: str, field: str) -> Iterator[Row]:
    lines = ((number, line.rstrip("\r")) for number, line in enumerate(content.split("\n"), 1))
    yield from _columns(file, ((number, line.split("\t")) for number, line in lines if line.strip()), field, "tab")


def _csv(file: Path, content: str, field: str) -> Iterator[Row]:
    reader = csv.reader(io.StringIO(content, newline=""), strict=True)
    try:
        yield from _columns(file, ((reader.line_num, cells) for cells in reader if cells), field, "comma")
    except csv.Error as error:
        raise BadFile(str(file), f"it is no CSV: {error}", line=reader.line_num) from error


def _columns(file: Path, rows: Iterable[tuple[int, list[str]]], field: str, divided_by: str) -> Iterator[Row]:
    """Rows under a header that names the columns, or without one: id, then text."""
    names: list[str] = []
    for number, cells in rows:
        if not names:
            lowered = [cell.strip().lower() for cell in cells]
            if set(lowered) & set(ID_NAMES) and set(lowered) & {field, "text"}:
                names = lowered
                continue
            names = ["id", "text"]
        if len(cells) < 2:
            what = f"no {divided_by} in it, so it has no text (is it divided by spaces?)"
            raise BadFile(str(file), what, line=number, mend=_MEND)
        if len(cells) != len(names):
            what = f"{len(cells)} columns where {len(names)} are expected ({', '.join(names)})"
            raise BadFile(str(file), what, line=number, mend=_MEND)
        values = dict(zip(names, cells, strict=True))
        name = next(values[known] for known in ID_NAMES if known in values)
        yield from _row(file, name, values, field, number)


_KINDS = {".jsonl": _json_lines, ".ndjson": _json_lines, ".json": _json, ".tsv": _tsv, ".csv": _csv}
