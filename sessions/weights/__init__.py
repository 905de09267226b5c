"""Model files: which ones (`MANIFEST`), where they are on this machine (`folder`, `found`), whether they are intact.

Nothing here opens a socket; `duologue weights fetch` (package `harness.fetch`) downloads.
"""

from __future__ import annotations

from pathlib import Path

from sessions.weights.entry import File, Weight
from sessions.weights.manifest import MANIFEST, SETS
from sessions.weights.store import Checked, Found, Store

__all__ = ["MANIFEST", "SETS", "Checked", "File", "Found", "Store", "Weight", "folder", "found"]


def found(name: str, *, given: Path | None = None) -> Found:
    """Where the entry `name` lies, which place that is and the hashes of its files.

    Raises `MissingWeights` if no place has it, `SetupError` for an unknown name or a given folder that does not fit.
    """
    return Store().found(name, given=given)


def folder(name: str, *, given: Path | None = None) -> Path:
    """A folder that holds all files of the entry `name` with the pinned hashes. Errors as `found`."""
    return Store().folder(name, given=given)
