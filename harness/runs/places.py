"""Where runs are put. A folder holds one run, or several of one command, and never both."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path

from harness.runs.planning import free_space
from sessions.clock import wall_time
from sessions.errors import SetupError
from sessions.runs import disk_errors

LEVELS, INTERLEAVE, TRIALS = "levels.json", "interleave.json", "trials.json"
_HOLDS = {"plan.json": "a run", LEVELS: "levels", INTERLEAVE: "two runs", TRIALS: "trials"}
"""By file, what a folder with it holds."""
_ROOM_BYTES = 1024 * 1024


def default_place(kind: str) -> Path:
    """A name by the wall clock that nobody has: two runs may begin in one second."""
    path = Path("runs") / f"{re.sub(r'[:.+].*$', '', wall_time().replace(':', '-'))}-{kind}"
    place, number = path, 1
    with disk_errors(path):
        while place.exists():
            number += 1
            place = path.with_name(f"{path.name}-{number}")
    return place


def made_default_place(kind: str) -> Path:
    """The same, and the folder is made: of two commands that begin at once each has its own. Raises `SetupError`."""
    while True:
        place = default_place(kind)
        with disk_errors(place):
            place.parent.mkdir(parents=True, exist_ok=True)
            with contextlib.suppress(FileExistsError):
                place.mkdir()
                return place


def must_be_free(place: Path, runs: int = 1) -> None:
    """Raise `SetupError` where `place` holds something already, or has no room for the beginning of so many runs."""
    if file := _held(place):
        go_on = "" if file == LEVELS else f", or go on with it: --resume {place}"
        raise SetupError(f"{place} already holds {_HOLDS[file]}", f"Choose another --out{go_on}")
    free_space(place, _ROOM_BYTES * runs)


def _held(place: Path) -> str:
    with disk_errors(place):
        return next((file for file in _HOLDS if (place / file).exists()), "")
