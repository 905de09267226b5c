"""`network.jsonl` of a run folder: every exchange with the reflector, as it was.

Each stretch of a run (it has several when it was resumed) begins with `Begun` and ends with `Ended`; one that has no
`Ended` was killed. `sent_ns`, `received_ns` and `t_ns` are on this host's monotonic clock, `arrived_ns` and
`written_ns` on the reflector's: only differences within one of them mean anything.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

import msgspec

from sessions.clock import NS_PER_S
from sessions.errors import BadFile
from sessions.runs import disk_errors

FILE = "network.jsonl"
VERSION = 1
ANSWER_NS = 5 * NS_PER_S
"""A reflector that has not answered by then has stopped."""


class Line(msgspec.Struct, frozen=True, tag_field="kind", forbid_unknown_fields=True):
    """Base of all lines."""


class Begun(Line, frozen=True, tag="begun"):
    t_ns: int
    wall_time: str
    reflector: str
    request_bytes: int
    answer_bytes: int
    version: int = VERSION


class RunBegan(Line, frozen=True, tag="run_began"):
    """From here on dialogues were held: what was sent before is "before", what after "during"."""

    t_ns: int


class Exchange(Line, frozen=True, tag="exchange"):
    """Message `n` and its answer. sent_ns: just before the write. The last three are null where none came."""

    n: int
    sent_ns: int
    received_ns: int | None = None
    arrived_ns: int | None = None
    written_ns: int | None = None


class Failed(Line, frozen=True, tag="failed"):
    """Why there were no more exchanges from then on."""

    t_ns: int
    what: str


class Ended(Line, frozen=True, tag="ended"):
    t_ns: int


AnyLine = Begun | RunBegan | Exchange | Failed | Ended
_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(AnyLine)


@dataclass(slots=True)
class Stretch:
    """One stretch of a run.

    failed: why exchanges ceased, "" where they did not · ended_ns: None where it was killed.
    """

    begun: Begun
    run_began_ns: int | None = None
    exchanges: list[Exchange] = field(default_factory=list)
    failed: str = ""
    ended_ns: int | None = None


def append(folder: Path, lines: Iterable[AnyLine]) -> None:
    """Add lines in one write. Raises `SetupError` where they cannot be written."""
    with disk_errors(folder / FILE), (folder / FILE).open("ab+") as out:
        _drop_torn_tail(out)
        out.write(b"".join(_encoder.encode(line) + b"\n" for line in lines))


def _drop_torn_tail(file: BinaryIO) -> None:
    """Cut what a kill in mid-write left after the last newline, so that no new line joins it."""
    file.seek(0)
    data = file.read()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        file.truncate(whole)


def read(folder: Path) -> list[Stretch]:
    """The stretches of a run in order; none where no reflector was asked. Raises `BadFile`.

    A torn line (a kill in mid-write) is left out: its stretch then has no end.
    """
    file = folder / FILE
    if not file.exists():
        return []
    stretches: list[Stretch] = []
    raw = file.read_bytes().split(b"\n")
    for number, text in enumerate(raw[:-1], 1):
        try:
            line = _decoder.decode(text)
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise BadFile(str(file), str(error), line=number) from error
        if isinstance(line, Begun):
            if line.version != VERSION:
                raise BadFile(str(file), f"version {line.version}; this program reads {VERSION}", line=number)
            stretches.append(Stretch(line))
        elif stretches:
            _add(stretches[-1], line)
        else:
            raise BadFile(str(file), "the first line must be of kind 'begun'", line=number)
    return stretches


def _add(stretch: Stretch, line: RunBegan | Exchange | Failed | Ended) -> None:
    match line:
        case RunBegan():
            stretch.run_began_ns = line.t_ns
        case Exchange():
            stretch.exchanges.append(line)
        case Failed():
            stretch.failed = stretch.failed or line.what
        case Ended():
            stretch.ended_ns = line.t_ns
