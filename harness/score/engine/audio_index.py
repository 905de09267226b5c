"""Which sound a file holds, as far as it was read before: nothing is decoded again only to learn its name."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

import msgspec

from harness.score.engine.store import ScoreStore, new_index, short_name

NAME = "audio"
"""Of its file among the scores: scores/audio.jsonl."""


class Known(msgspec.Struct, frozen=True):
    """path: from the folder of the scores · size, mtime_ns: of the file when it was read · sha256: of its sound."""

    path: str
    size: int
    mtime_ns: int
    sha256: str
    rate_hz: int
    samples: int

    @property
    def seconds(self) -> float:
        return self.samples / self.rate_hz


class AudioIndex:
    """What is known of files. Use within the store's `writing()`, which also brings new lines onto the disk."""

    def __init__(self, store: ScoreStore) -> None:
        self._store = store
        self._index: sqlite3.Connection = new_index()
        self._index.execute("CREATE TABLE audio (path BLOB PRIMARY KEY, line BLOB) WITHOUT ROWID")
        for raw in store.plain_lines(NAME):
            try:
                self._enter(msgspec.json.decode(raw, type=Known))
            except msgspec.MsgspecError:
                continue  # it only saves time: a line that cannot be read costs one reading of a file

    def find(self, path: str) -> Known | None:
        """What a file holds, unless it changed since."""
        row = self._index.execute("SELECT line FROM audio WHERE path = ?", (short_name(self._name(path)),)).fetchone()
        if row is None:
            return None
        known = msgspec.json.decode(row[0], type=Known)
        try:
            stat = Path(path).stat()
        except OSError:
            return None
        return known if (stat.st_size, stat.st_mtime_ns) == (known.size, known.mtime_ns) else None

    def add(self, path: str, stat: os.stat_result, sha256: str, rate_hz: int, samples: int) -> Known:
        """stat: of the file before it was read."""
        known = Known(self._name(path), stat.st_size, stat.st_mtime_ns, sha256, rate_hz, samples)
        self._enter(known)
        self._store.add_plain(NAME, msgspec.json.encode(known))
        return known

    def close(self) -> None:
        self._index.close()

    def _enter(self, known: Known) -> None:
        self._index.execute(
            "INSERT OR REPLACE INTO audio VALUES (?, ?)", (short_name(known.path), msgspec.json.encode(known))
        )

    def _name(self, path: str) -> str:
        """From the scores' folder: a run that is moved keeps what is known of it."""
        return os.path.relpath(path, self._store.folder)
