"""Scores on disk: scores/<metric>.jsonl, lines that are only ever added, found again by what they depend on.

A sample may have several lines (it was scored again with other options, or after an error); the last one counts. What
was scored under one name serves every other sample with the same key.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import io
import os
import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from harness.score.engine.temporary import temporary_errors
from metrics.result import Failed, Measured
from metrics.scoring import Score, ScoreLine
from metrics.scoring.line import LINE_VERSION
from sessions.clock import NS_PER_S, Clock, MonotonicClock
from sessions.errors import BadFile, SetupError
from sessions.runs import take_lock

_LINES_AT_ONCE = 64
_SYNC_NS = NS_PER_S
_INDEX_KIB = 8192

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


class _FiguresOnly(msgspec.Struct):
    figures: dict[str, Measured]


class _Head(msgspec.Struct):
    """All of a line that its index needs."""

    key: str
    sample: str
    version: int
    score: _FiguresOnly


_head = msgspec.json.Decoder(_Head)
_line = msgspec.json.Decoder(ScoreLine)


@dataclass(slots=True)
class _File:
    """One metric's lines. number: in the index · written: length on disk · pending: lines that are not there yet."""

    path: Path
    number: int
    written: int = 0
    descriptor: int = -1
    pending: list[bytes] = field(default_factory=list)
    pending_bytes: int = 0
    unsynced: bool = False


class ScoreStore:
    """The scores of one run or one folder of sounds. Write within `writing()`; reading needs no lock.

    The index lies in a private temporary database, so that memory does not grow with the number of lines.
    """

    def __init__(self, folder: Path, clock: Clock | None = None) -> None:
        self.folder = folder
        self._clock = clock or MonotonicClock()
        self._files: dict[str, _File] = {}
        self._index = _score_index()
        self._written_ns = 0
        self._synced_ns = 0
        self._syncing: Future[None] | None = None
        self._syncer: ThreadPoolExecutor | None = None

    def path(self, metric: str) -> Path:
        return self.folder / f"{metric}.jsonl"

    @contextlib.contextmanager
    def writing(self) -> Iterator[ScoreStore]:
        """Only one process scores into a folder. All lines are on disk at the end. Raises `SetupError`."""
        with _disk_errors(self.folder):
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = (self.folder / ".lock").open("w")
        with lock, ThreadPoolExecutor(1, "score-sync") as self._syncer:
            take_lock(lock, self.folder, f"another process is scoring into {self.folder}")
            self._forget()  # another process may have added lines meanwhile
            try:
                yield self
            except BaseException:
                with contextlib.suppress(
                    SetupError
                ):  # whatever ended the scoring is told, not that the disk is full too
                    self.flush()
                raise
            else:
                self.flush()
            finally:
                self._forget()

    def known(self, metric: str, key: str) -> bool:
        """Whether a score with this key is there. One that ended in an error is not: it is worth another try."""
        return self._offset(metric, key) is not None

    def line(self, metric: str, key: str) -> ScoreLine | None:
        """The last line with this key, whatever sample it was made for."""
        offset = self._offset(metric, key)
        if offset is None:
            return None
        file = self._file(metric)
        if offset >= file.written:
            for raw in file.pending:
                if offset == file.written:
                    return _line.decode(raw)
                offset -= len(raw)
        with file.path.open("rb") as lines:
            lines.seek(offset)
            return _line.decode(lines.readline())

    @contextlib.contextmanager
    def reading(self, metric: str) -> Iterator[Callable[[str], ScoreLine | None]]:
        """Sample → the line of it that counts, of as many samples as are asked for."""
        file = self._file(metric)
        self._write(file)
        with file.path.open("rb") if file.path.exists() else io.BytesIO() as lines:

            def last(sample: str) -> ScoreLine | None:
                row = self._index.execute(
                    "SELECT at FROM samples WHERE file = ? AND sample = ?", (file.number, short_name(sample))
                ).fetchone()
                if row is None:
                    return None
                lines.seek(row[0])
                return _line.decode(lines.readline())

            yield last

    def last(self, metric: str, sample: str) -> ScoreLine | None:
        """The line that counts for one sample."""
        with self.reading(metric) as last:
            return last(sample)

    def is_last(self, metric: str, sample: str, key: str) -> bool:
        """Whether the line that counts for this sample has this key."""
        row = self._index.execute(
            "SELECT key FROM samples WHERE file = ? AND sample = ?", (self._file(metric).number, short_name(sample))
        ).fetchone()
        return row is not None and row[0] == short_name(key)

    def lines(self, metric: str) -> Iterator[ScoreLine]:
        """The line that counts of each sample, in the order in which they were written."""
        file = self._file(metric)
        self._write(file)
        if not file.path.exists():
            return
        with file.path.open("rb") as lines:
            offset = 0
            while offset < file.written:
                raw = lines.readline()
                if not raw.endswith(b"\n"):  # another process began the file anew
                    return
                row = self._index.execute(
                    "SELECT 1 FROM samples WHERE file = ? AND at = ?", (file.number, offset)
                ).fetchone()
                if row is not None:
                    yield _line.decode(raw)
                offset += len(raw)

    def add(self, metric: str, line: ScoreLine) -> None:
        """One more line, on disk within a second or 64 lines as long as `tick` is called. Raises `SetupError`."""
        file = self._file(metric)
        at = file.written + file.pending_bytes
        self._enter(file, at, line.key, line.sample, is_error(line.score))
        self._append(file, msgspec.json.encode(line))

    def plain_lines(self, name: str) -> Iterator[bytes]:
        """The lines of a file beside the scores; one that was cut is left out."""
        is_new = name not in self._files
        file = self._files.setdefault(name, _File(self.path(name), len(self._files)))
        self._write(file)
        if file.path.exists():
            with file.path.open("rb") as lines:
                for raw in lines:
                    if raw.endswith(b"\n"):
                        file.written += len(raw) * is_new
                        yield raw

    def add_plain(self, name: str, raw: bytes) -> None:
        """One more line of a file whose lines were read by `plain_lines` before. Raises `SetupError`."""
        self._append(self._files[name], raw)

    def _append(self, file: _File, raw: bytes) -> None:
        file.pending.append(raw + b"\n")
        file.pending_bytes += len(raw) + 1
        if len(file.pending) >= _LINES_AT_ONCE:
            self._write(file)
        self.tick()

    def tick(self) -> None:
        """Write what has waited for a second, and have it brought onto the disk. Raises `SetupError`."""
        now_ns = self._clock.now_ns()
        if now_ns - self._written_ns >= _SYNC_NS:
            self._written_ns = now_ns
            for file in self._files.values():
                self._write(file)
        if now_ns - self._synced_ns >= _SYNC_NS and (self._syncing is None or self._syncing.done()):
            self._synced_ns = now_ns
            self._sync()

    def flush(self) -> None:
        """All lines are on disk. Raises `SetupError`."""
        for file in self._files.values():
            self._write(file)
        self._synced()
        self._sync()
        self._synced()

    def _sync(self) -> None:
        self._synced()
        files = [file for file in self._files.values() if file.unsynced and file.descriptor >= 0]
        for file in files:
            file.unsynced = False
        if files and self._syncer is not None:
            self._syncing = self._syncer.submit(_sync_all, [(file.path, file.descriptor) for file in files])

    def _synced(self) -> None:
        if self._syncing is not None:
            ended, self._syncing = self._syncing, None
            ended.result()

    def _forget(self) -> None:
        """Close everything; what is asked for next is read from the disk again. Lines not yet written are dropped."""
        with contextlib.suppress(SetupError):
            self._synced()
        for file in self._files.values():
            if file.descriptor >= 0:
                os.close(file.descriptor)
        self._files.clear()
        self._index.close()
        self._index = _score_index()

    def _file(self, metric: str) -> _File:
        file = self._files.get(metric)
        if file is None:
            file = self._files[metric] = _File(self.path(metric), len(self._files))
            self._read_index(file)
        return file

    def _read_index(self, file: _File) -> None:
        if not file.path.exists():
            return
        with file.path.open("rb") as lines:
            for number, raw in enumerate(lines, 1):
                if not raw.endswith(b"\n"):  # cut by a kill in mid-write: the sample is scored again
                    break
                try:
                    head = _head.decode(raw)
                except msgspec.MsgspecError as error:
                    raise BadFile(str(file.path), str(error), line=number, mend="Delete this line") from error
                if head.version != LINE_VERSION:
                    problem = f"version {head.version}; this program reads {LINE_VERSION}"
                    raise BadFile(str(file.path), problem, line=number, field="version")
                self._enter(file, file.written, head.key, head.sample, is_error(head.score))
                file.written += len(raw)

    def _enter(self, file: _File, at: int, key: str, sample: str, error: bool) -> None:
        self._index.execute(
            "INSERT OR REPLACE INTO samples VALUES (?, ?, ?, ?)", (file.number, short_name(sample), short_name(key), at)
        )
        if not error:
            self._index.execute("INSERT OR REPLACE INTO keys VALUES (?, ?, ?)", (file.number, short_name(key), at))

    def _offset(self, metric: str, key: str) -> int | None:
        row = self._index.execute(
            "SELECT at FROM keys WHERE file = ? AND key = ?", (self._file(metric).number, short_name(key))
        ).fetchone()
        return None if row is None else int(row[0])

    def _write(self, file: _File) -> None:
        if not file.pending:
            return
        data = memoryview(b"".join(file.pending))
        with _disk_errors(file.path):
            if file.descriptor < 0:
                file.descriptor = os.open(file.path, os.O_RDWR | os.O_CREAT, 0o644)
                os.ftruncate(file.descriptor, file.written)  # a new line never joins a torn one
            done = 0
            try:
                while done < len(data):
                    done += os.pwrite(file.descriptor, data[done:], file.written + done)
            except OSError:
                with contextlib.suppress(OSError):
                    os.ftruncate(file.descriptor, file.written)
                raise
        file.written += len(data)
        file.pending.clear()
        file.pending_bytes = 0
        file.unsynced = True


def _sync_all(files: list[tuple[Path, int]]) -> None:
    for path, descriptor in files:
        with _disk_errors(path):
            os.fsync(descriptor)


class _Index(sqlite3.Connection):
    """Raises `SetupError` where the folder for temporary files, into which it grows, is full."""

    def execute(self, sql: str, parameters: Any = ()) -> sqlite3.Cursor:
        with temporary_errors():
            return super().execute(sql, parameters)


def new_index() -> sqlite3.Connection:
    """A private database that lies in memory while it is small, and is gone when it is closed. Its `execute` raises
    `SetupError`."""
    index = sqlite3.connect("", isolation_level=None, check_same_thread=False, factory=_Index)
    index.execute(f"PRAGMA cache_size = -{_INDEX_KIB}")
    index.execute("PRAGMA journal_mode = OFF")
    index.execute("PRAGMA synchronous = OFF")
    return index


def _score_index() -> sqlite3.Connection:
    index = new_index()
    index.execute("CREATE TABLE keys (file INTEGER, key BLOB, at INTEGER, PRIMARY KEY (file, key)) WITHOUT ROWID")
    index.execute("CREATE TABLE samples (file INTEGER, sample BLOB, key BLOB, at INTEGER, PRIMARY KEY (file, sample))")
    index.execute("CREATE INDEX places ON samples (file, at)")
    return index


def short_name(text: str) -> bytes:
    """Enough of a hash that no two meet: an entry is as long whatever the name."""
    return hashlib.blake2b(text.encode(), digest_size=16).digest()


def is_error(score: Score | _FiguresOnly) -> bool:
    """Whether a figure of it could not be computed."""
    return any(isinstance(figure, Failed) for figure in score.figures.values())


@contextlib.contextmanager
def _disk_errors(path: Path) -> Iterator[None]:
    """One line that names the place and the mend."""
    try:
        yield
    except OSError as error:
        mend = "Make it writable, or choose another --out"
        if error.errno in _FULL:
            mend = "Free some space, then give the same command again (with --audio, the same --out too): it goes on"
        raise SetupError(f"cannot write {path}: {error.strerror or error}", mend) from error
