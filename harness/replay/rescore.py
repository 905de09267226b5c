"""Every measure of a run anew, from the record alone, and what became of the files that were there."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.results.finish import FinishedRun, finish_run
from harness.results.raw_record import raw_record
from harness.runs.planning import slot_of
from sessions.runs import AGAIN, RunFolder, disk_errors

RENDERED = ("recording.flac", "reply-*.flac")
"""In a dialogue's folder: rendered only where it is not there yet, so that it has to go first."""
_WRITTEN = (
    "summary.json",
    "turns.csv",
    "report.html",
    *(f"dialogues/*/{name}" for name in RENDERED),
)


@dataclass(frozen=True, slots=True)
class Rescored:
    """same: derived files whose bytes are as before · changed: others · made: those that were not there · gone: those
    that were, and that this program does not make of the record. Paths in the run folder, in order."""

    finished: FinishedRun
    same: list[str]
    changed: list[str]
    made: list[str]
    gone: list[str]


def rescore(run: RunFolder, *, on_dialogue: Callable[[int, int], None] = lambda done, total: None) -> Rescored:
    """Derive everything again. The run must be locked. on_dialogue: told (done, total).

    Raises `SetupError`, `BadFile` where the record is damaged, and leaves what was derived from it while it was whole.
    """
    before = derived(run)
    for line in run.journal():
        raw_record(run, line.id, slot_of(run.plan, line.number).script)
    with disk_errors(run.path, then=AGAIN):
        for line in run.journal():
            for pattern in RENDERED:
                for file in run.dialogue(line.id).glob(pattern):
                    file.unlink()
    finished = finish_run(run, on_dialogue=on_dialogue)
    after = derived(run)
    both = sorted(before.keys() & after.keys())
    return Rescored(
        finished=finished,
        same=[name for name in both if before[name] == after[name]],
        changed=[name for name in both if before[name] != after[name]],
        made=sorted(after.keys() - before.keys()),
        gone=sorted(before.keys() - after.keys()),
    )


def derived(run: RunFolder) -> dict[str, str]:
    """SHA-256 of every file that was derived from the record, by its path in the run folder."""
    journaled = {line.id for line in run.journal()}
    files = [file for pattern in _WRITTEN for file in sorted(run.path.glob(pattern)) if file.is_file()]
    return {
        str(file.relative_to(run.path)): _sha256(file)
        for file in files
        if file.parent == run.path or file.parent.name in journaled
    }


def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()
