"""Every format: name → where its writer is and what it makes by default, loaded when used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.results.dialogue_result import DialogueResult
from sessions.errors import SetupError
from sessions.runs import AGAIN, RunFolder, disk_errors
from sessions.tables import load

Write = Callable[[RunFolder, list[DialogueResult], Path], None]


@dataclass(frozen=True, slots=True)
class Format:
    """writer: "module:function" · place: in the run folder · is_folder: one file or more per dialogue lie in it."""

    writer: str
    place: str
    is_folder: bool = False


FORMATS: dict[str, Format] = {
    "csv": Format("harness.export.tables:write_csv", "export/turns.csv"),
    "parquet": Format("harness.export.tables:write_parquet", "export/turns.parquet"),
    "audacity": Format("harness.export.audacity:write", "export/audacity", is_folder=True),
    "elan": Format("harness.export.elan:write", "export/elan", is_folder=True),
    "latex": Format("harness.export.latex:write", "export/table.tex"),
}


def export_run(run: RunFolder, name: str, out: Path | None = None) -> Path:
    """Write the run in a format, and tell where. out: the file, or for labels the folder; None: in the run folder.

    Raises `SetupError` where there is nothing to write, or no place for it.
    """
    from harness.results.finish import finish_dialogues

    chosen = FORMATS[name]
    place = run.path / chosen.place if out is None else out
    _check(place, chosen)
    run.must_hold_a_dialogue()
    write: Write = load({name: chosen.writer}, name, "export format")
    dialogues = finish_dialogues(run)
    with disk_errors(place, then=AGAIN):
        (place if chosen.is_folder else place.parent).mkdir(parents=True, exist_ok=True)
        write(run, dialogues, place)
    return place


def _check(place: Path, chosen: Format) -> None:
    if chosen.is_folder and place.exists() and not place.is_dir():
        raise SetupError(f"--out {place} is a file, and labels need a folder", "Name a folder")
    if not chosen.is_folder and place.is_dir():
        raise SetupError(f"--out {place} is a folder", f"Name a file in it: --out {place / Path(chosen.place).name}")
