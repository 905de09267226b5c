"""What the user's sounds were, as somebody noted it: audio alone cannot tell a backchannel from an interruption.

Read are an Audacity label track (`START<tab>END<tab>KIND`, seconds), the same as CSV with a heading (`start_s,end_s,
kind`, and `sample` where one file speaks of many), and Full-Duplex-Bench's `interrupt.json`, `pause.json` and
`metadata.json`. A label may say `user: KIND`; those that begin with `agent` are passed over, so that what `--out` wrote
can be edited and given back. `short` and an empty kind leave it to the audio. `pause` is no sound: what the user says
before and after it is one turn.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, Final

from harness.analyze.inputs import Sample
from metrics.spans import Span
from sessions.clock import NS_PER_S
from sessions.errors import BadFile

KINDS: Final = ("speech", "interruption", "overlap", "backchannel", "noise", "silence")
SHORT: Final = "short"
PAUSE: Final = "pause"
_FDB_KINDS: Final = (
    ("user_backchannel", "backchannel"),
    ("talking_to_other", "noise"),
    ("background_speech", "noise"),
    ("user_interruption", "interruption"),
)
"""A part of a Full-Duplex-Bench v1.5 folder's name → what the event in its samples is to the agent."""
_COLUMNS: Final = ("start_s", "end_s", "kind")
_MEND: Final = f"A label is start, end (seconds) and a kind: {', '.join((*KINDS, PAUSE))}"


@dataclass(frozen=True, slots=True)
class Label:
    """kind: of `KINDS`, or `PAUSE` · sample: whose it is, "" for any."""

    span: Span
    kind: str
    sample: str = ""


def read_labels(path: Path) -> list[Label]:
    """Read an Audacity track or a CSV, by its content. Raises `BadFile` that names line and mistake."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        problem = error.strerror if isinstance(error, OSError) else "it is not text"
        raise BadFile(str(path), problem or "cannot be read", mend=_MEND) from error
    rows = _csv_rows(path, lines) if lines and "\t" not in lines[0] else _track_rows(path, lines)
    return [label for row in rows if (label := _label(path, *row)) is not None]


def labels_beside(sample: Sample) -> list[Label]:
    """Of the files that lie beside a sample's audio: its own sidecar, else what Full-Duplex-Bench left there."""
    sidecars = [sample.user.with_name(sample.user.name + ending) for ending in (".labels.csv", ".labels.txt")]
    if (sidecar := next((path for path in sidecars if path.is_file()), None)) is not None:
        return read_labels(sidecar)
    if not sample.is_pair:
        return []
    found: list[Label] = []
    for name, kind in (("interrupt.json", "interruption"), ("pause.json", PAUSE)):
        if (path := sample.user.with_name(name)).is_file():
            found += _events(path, kind)
    if (path := sample.user.with_name("metadata.json")).is_file():
        found += _metadata(path)
    return found


def for_sample(labels: Sequence[Label], name: str) -> list[Label]:
    return [label for label in labels if label.sample in ("", name)]


def _track_rows(path: Path, lines: Sequence[str]) -> Iterator[tuple[int, str, str, str, str]]:
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.startswith("\\"):  # a backslash: the frequency range of a spectral label
            continue
        cells = line.split("\t")
        if len(cells) < 2:
            raise BadFile(str(path), "no start and end with a tab between them", number, mend=_MEND)
        yield number, cells[0], cells[1], "\t".join(cells[2:]), ""


def _csv_rows(path: Path, lines: Sequence[str]) -> Iterator[tuple[int, str, str, str, str]]:
    table = csv.DictReader(lines)
    missing = [name for name in _COLUMNS if name not in (table.fieldnames or ())]
    if missing:
        raise BadFile(str(path), f"there is no column {missing[0]!r} in the heading", 1, mend=_MEND)
    for row in table:
        start, end, kind, sample = (row.get(name) or "" for name in (*_COLUMNS, "sample"))
        yield table.line_num, start, end, kind, sample


def _label(path: Path, line: int, start: str, end: str, kind: str, sample: str) -> Label | None:
    kind = kind.strip().lower()
    if kind.startswith("agent"):
        return None
    kind = kind.removeprefix("user:").strip().partition(" (")[0]
    if kind in ("", SHORT):
        return None
    if kind not in (*KINDS, PAUSE):
        raise BadFile(str(path), f"{kind!r} is no kind of a user's sound", line, mend=_MEND)
    return Label(_span(path, line, start, end), kind, sample.strip())


def _span(path: Path, line: int | None, start: Any, end: Any) -> Span:
    try:
        first_s, end_s = float(start), float(end)
    except (TypeError, ValueError):
        first_s = end_s = math.nan
    if not 0 <= first_s < end_s < math.inf:
        raise BadFile(str(path), f"{start!r} to {end!r} is no stretch of time, in seconds", line, mend=_MEND)
    return Span(round(first_s * NS_PER_S), round(end_s * NS_PER_S))


def _events(path: Path, kind: str) -> list[Label]:
    """v1: a list of `{"timestamp": [start, end]}`."""
    found = _json(path)
    if not isinstance(found, list) or not all(isinstance(one, dict) for one in found):
        raise BadFile(str(path), "is no list of events", mend="Delete it, or give --labels")
    return [Label(_pair(path, one.get("timestamp")), kind) for one in found]


def _metadata(path: Path) -> list[Label]:
    """v1.5: `{"timestamps": [start, end]}`; the folder's name tells what is there."""
    folders = PurePosixPath(path.absolute().parent.as_posix()).parts[::-1]
    kind = next((kind for part in folders for name, kind in _FDB_KINDS if name in part), None)
    found = _json(path)
    if kind is None or not isinstance(found, dict) or "timestamps" not in found:
        return []  # another tool's: it tells nothing of a sound
    return [Label(_pair(path, found["timestamps"]), kind)]


def _pair(path: Path, pair: Any) -> Span:
    if not isinstance(pair, list) or len(pair) != 2:
        raise BadFile(str(path), f"{pair!r} is no start and end", mend="Delete it, or give --labels")
    return _span(path, None, *pair)


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadFile(str(path), f"cannot be read: {error}", mend="Delete it, or give --labels") from error
