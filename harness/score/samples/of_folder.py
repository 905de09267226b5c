"""The audio files of a folder as samples, with the texts that another file has for them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import Final

from harness.score.samples.matching import Matched, match
from harness.score.samples.names import as_text, is_text, must_be_text, must_have_one_name_each
from harness.score.samples.texts import read_rows
from metrics.scoring import Sample
from sessions.errors import SetupError

SUFFIXES: Final = (".wav", ".flac", ".ogg", ".oga", ".opus", ".mp3", ".aif", ".aiff", ".au", ".caf", ".w64", ".rf64")
"""What libsndfile reads and is called by its own name."""


@dataclass(frozen=True, slots=True)
class Known:
    """What holds for every file. text, reference: files with rows · language: of files whose row has none."""

    text: Path | None = None
    reference: Path | None = None
    language: str = ""
    reference_audio: str = ""


@dataclass(frozen=True, slots=True)
class FolderSamples:
    """files: paths below `root`, folder by folder · matched: "text" and "reference", where a file has them."""

    root: Path
    files: list[str]
    known: Known
    matched: dict[str, Matched] = field(default_factory=dict)

    def coverage(self) -> list[str]:
        return [line for name, matched in self.matched.items() for line in matched.coverage(name)]

    def __len__(self) -> int:
        return len(self.files)

    def __iter__(self) -> Iterator[Sample]:
        """One sample per file; those of one folder belong together, a file at the root stands alone."""
        for group, files in groupby(self.files, key=lambda file: str(PurePosixPath(file).parent)):
            for order, file in enumerate(files):
                yield self._sample(file, "" if group == "." else group, order)

    def _sample(self, file: str, group: str, order: int) -> Sample:
        if not is_text(file):
            return Sample(as_text(file), "", as_text(group), order, unavailable="its name is not UTF-8: rename it")
        rows = {name: matched.rows[file] for name, matched in self.matched.items() if file in matched.rows}
        said = rows.get("text")
        return Sample(
            id=file,
            audio=str(self.root / file),
            group=group,
            order=order,
            language=next((row.language for row in rows.values() if row.language), self.known.language),
            text=said.text if said else None,
            reference=rows["reference"].text if "reference" in rows else None,
            reference_audio=self.known.reference_audio,
            emotion=next((row.emotion for row in rows.values() if row.emotion), ""),
        )


def samples_of_folder(place: Path, known: Known) -> FolderSamples:
    """Every audio file below `place`, or that one file. Raises `SetupError` and `BadFile`, also where nothing fits."""
    if not place.exists():
        raise SetupError(f"cannot score {place}: there is no such folder", "Check the path")
    must_be_text(place)
    root, files = (place, list(_files(place))) if place.is_dir() else (place.parent, [place.name])
    if not files:
        raise SetupError(f"no audio file in {place}", f"Known by their names: {' '.join(SUFFIXES)}")
    must_have_one_name_each(files)
    matched = {}
    for name, source in (("text", known.text), ("reference", known.reference)):
        if source is not None:
            matched[name] = match(read_rows(source, name), files, source)
    return FolderSamples(root, files, known, matched)


def _files(folder: Path) -> Iterator[str]:
    """Paths below `folder`, with "/", in order: the files of a folder before those of its folders."""

    def refused(error: OSError) -> None:
        raise SetupError(f"cannot read {error.filename}: {error.strerror}", "Check its permissions") from error

    for place, folders, names in os.walk(folder, onerror=refused):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        below = Path(place).relative_to(folder)
        for name in sorted(names):
            if Path(name).suffix.lower() in SUFFIXES and not name.startswith("."):
                yield (below / name).as_posix()
