"""Which row of a text file speaks of which audio file, and how many are without the other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from harness.report.wording import plural
from harness.score.samples.texts import Row, normal_id
from sessions.errors import BadFile


@dataclass(frozen=True, slots=True)
class Matched:
    """rows: by the file's relative path · strays: ids of rows that no file has · files: how many there are."""

    rows: dict[str, Row]
    strays: list[str]
    files: int

    def coverage(self, field: str) -> Iterator[str]:
        """ "text for 5 of 10 samples", and what else people must know."""
        yield f"{field} for {len(self.rows)} of {plural(self.files, 'sample')}"
        if self.strays:
            listed = ", ".join(map(repr, self.strays[:3])) + (" …" if len(self.strays) > 3 else "")
            yield f"{plural(len(self.strays), 'row')} of {field} without an audio file: {listed}"


def match(rows: Mapping[str, Row], files: Sequence[str], source: Path) -> Matched:
    """Rows to files: by path, with or without suffix, else by name, with or without suffix.

    rows: as `read_rows` gives them · files: paths below the folder, with "/" · source: the rows' own file, for people.
    Raises `BadFile` where an id fits several files, where two rows fit one, and where nothing fits.
    """
    by_spelling = _spellings(files)
    found: dict[str, Row] = {}
    strays = []
    for name, row in rows.items():
        fitting = next((by_rank[name] for by_rank in by_spelling if name in by_rank), [])
        if not fitting:
            strays.append(row.id)
            continue
        where = row.line or None
        if len(fitting) > 1:
            what = f"{row.id!r} fits {len(fitting)} files: {fitting[0]}, {fitting[1]}"
            raise BadFile(str(source), what, line=where, mend="Give the path below the folder")
        known = found.setdefault(fitting[0], row)
        if known is not row:
            what = f"{row.id!r} and {known.id!r} are both {fitting[0]}"
            raise BadFile(str(source), what, line=where, mend="Give each audio file one row")
    if not found:
        first = next(iter(rows.values())).id
        raise BadFile(
            str(source),
            f"none of its {plural(len(rows), 'id')} is that of an audio file: "
            f"its first id is {first!r}, the first file {files[0]!r}",
            mend="Ids are paths below the folder, or file names, with or without suffix",
        )
    return Matched(found, strays, len(files))


def _spellings(files: Sequence[str]) -> list[dict[str, list[str]]]:
    """By rank, the nearest first: spelling → the files that it fits."""
    ranks: list[dict[str, list[str]]] = [{}, {}, {}, {}]
    for file in files:
        path = PurePosixPath(normal_id(file))
        for rank, spelling in enumerate((str(path), str(path.with_suffix("")), path.name, path.stem)):
            ranks[rank].setdefault(spelling, []).append(file)
    return ranks
