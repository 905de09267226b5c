"""Writing weights so that nothing half-done bears a final name: parts, checks, locks, and a full disk in one line."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import hashlib
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import IO

from harness.fetch.progress import Progress, megabytes
from sessions.errors import SetupError, TransportError
from sessions.weights import File
from sessions.weights.store import sha256_of

CHUNK_BYTES = 1 << 20
_LOCK_POLL_S = 0.1
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_ELSEWHERE = "put the cache elsewhere by setting DUOLOGUE_HOME; what is here already is kept"


@contextlib.contextmanager
def disk_errors(path: Path) -> Iterator[None]:
    """Turn what the disk refuses into one line for the user. Raises `SetupError`."""
    try:
        yield
    except OSError as error:
        raise disk_error(error, path) from error


def disk_error(error: OSError, path: Path) -> SetupError:
    """The line for one refused write under `path`."""
    if error.errno in _NO_ROOM:
        return SetupError(f"no room to write {path} ({error.strerror})", f"Free some space, or {_ELSEWHERE}")
    return SetupError(f"cannot write {path} ({error.strerror})", f"Make it writable, or {_ELSEWHERE}")


def make_folder(path: Path) -> Path:
    """Create a folder. Raises `SetupError`."""
    with disk_errors(path):
        path.mkdir(parents=True, exist_ok=True)
    return path


def require_room(folder: Path, needed_bytes: int) -> None:
    """Raise `SetupError` before the first byte if the download cannot fit."""
    free_bytes = shutil.disk_usage(folder).free
    if free_bytes < needed_bytes:
        what = f"no room in {folder}: {megabytes(needed_bytes)} needed, {megabytes(free_bytes)} free"
        raise SetupError(what, f"Free some space, or {_ELSEWHERE}")


class PartWriter:
    """Writes an unfinished file from an offset on, keeping what it holds before it. Each write raises `SetupError`.

    Unbuffered, so that a full disk shows at the write that meets it and not at some later close.
    """

    def __init__(self, part: Path, offset_bytes: int = 0) -> None:
        self._part = part
        with disk_errors(part):
            self._descriptor = os.open(part, os.O_RDWR | os.O_CREAT, 0o644)
            os.lseek(self._descriptor, offset_bytes, os.SEEK_SET)

    def write(self, chunk: bytes) -> None:
        with disk_errors(self._part):
            left = memoryview(chunk)
            while left:
                left = left[os.write(self._descriptor, left) :]

    def cut_here(self) -> None:
        """Drop whatever the file holds after the current position."""
        with disk_errors(self._part):
            os.ftruncate(self._descriptor, os.lseek(self._descriptor, 0, os.SEEK_CUR))

    def __enter__(self) -> PartWriter:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._descriptor)


def used_bytes(folder: Path) -> int:
    """What the files below `folder` take on the disk; holes in unfinished files take nothing."""
    return sum(path.stat().st_blocks * 512 for path in folder.rglob("*") if path.is_file())


def region_sha256(part: Path, offset_bytes: int, size_bytes: int) -> str | None:
    """The hash of a stretch of an unfinished file; None if the file does not reach that far."""
    digest = hashlib.sha256()
    try:
        with part.open("rb") as stream:
            stream.seek(offset_bytes)
            left = size_bytes
            while left and (chunk := stream.read(min(CHUNK_BYTES, left))):
                digest.update(chunk)
                left -= len(chunk)
    except OSError:
        return None
    return None if left else digest.hexdigest()


def settle(part: Path, target: Path, file: File) -> None:
    """Check an unfinished file, bring it onto the disk and give it its final name.

    Raises `TransportError` and removes the part if size or hash are wrong.
    """
    with disk_errors(target):
        size_bytes = part.stat().st_size
        sha256 = sha256_of(part)
        if sha256 != file.sha256:
            part.unlink()
            pinned = f"pinned are {file.size_bytes} bytes with sha256 {file.sha256}"
            raise TransportError(f"{file.name} came as {size_bytes} bytes with sha256 {sha256}, {pinned}")
        target.parent.mkdir(parents=True, exist_ok=True)
        _sync(part)
        part.replace(target)
        _sync(target.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextlib.asynccontextmanager
async def exclusive(root: Path, name: str, progress: Progress) -> AsyncIterator[None]:
    """Hold the entry's lock: one process fetches it, others wait. The kernel frees it if the holder dies."""
    stream = _open_lock(root, name)
    try:
        told = False
        while not _try_lock(stream):
            if not told:
                progress.say(f"{name}: another process is fetching it; waiting")
                told = True
            await asyncio.sleep(_LOCK_POLL_S)
        yield
    finally:
        stream.close()


def _open_lock(root: Path, name: str) -> IO[bytes]:
    path = make_folder(root / ".locks") / name
    with disk_errors(path):
        return path.open("ab")


def _try_lock(stream: IO[bytes]) -> bool:
    try:
        fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
