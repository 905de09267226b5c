"""Where decoded sound waits for those that score it: files in memory while they are small, on the disk else.

What waits is bounded in bytes: who wants to add more waits himself.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import shutil
import tempfile
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.score.engine.temporary import temporary_errors

_MEMORY = Path("/dev/shm")
_PREFIX = "duologue-sound-"
_LARGE_BYTES = 64 << 20
"""A sound that may become larger goes to the disk, so that an hour of it takes no memory."""
_BYTES_PER_FILE_BYTE = {".wav": 2.5, ".flac": 5.0}
_BYTES_PER_PACKED_BYTE = 12.0


@dataclass(slots=True)
class Stored:
    """A sound at one rate. note: what was done to its channels · users: scorers that have not yet heard it."""

    place: Path
    samples: int
    rate_hz: int
    note: str = ""
    users: int = 0

    @property
    def size_bytes(self) -> int:
        return 4 * self.samples


class Spool:
    """Use within `open_spool`. folder: on the disk, for whatever else the engine keeps meanwhile."""

    def __init__(self, folder: Path, memory: Path, limit_bytes: int) -> None:
        self.folder, self._memory = folder, memory
        self._limit_bytes = limit_bytes
        self.used_bytes = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self._number = 0

    async def reserve(self, size_bytes: int) -> None:
        """Wait until so much may be added, or until nothing else is there. In order of asking."""
        if self._waiting or not self._fits(size_bytes):
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((size_bytes, turn))
            await turn  # who wakes us has taken our bytes into account
        else:
            self.used_bytes += size_bytes

    def settle(self, reserved_bytes: int, size_bytes: int) -> None:
        """What was reserved has become so much; 0 where it is gone."""
        self.used_bytes += size_bytes - reserved_bytes
        while self._waiting and self._fits(self._waiting[0][0]):
            wanted, turn = self._waiting.popleft()
            if not turn.cancelled():
                self.used_bytes += wanted
                turn.set_result(None)

    def place(self, size_bytes: int) -> Path:
        """A new name for a sound that may become so large."""
        self._number += 1
        room = shutil.disk_usage(self._memory).free
        fast = size_bytes < _LARGE_BYTES and room > 2 * self._limit_bytes
        return (self._memory if fast else self.folder) / str(self._number)

    def release(self, stored: Stored) -> None:
        """One user fewer; without any the sound is removed."""
        stored.users -= 1
        if stored.users <= 0:
            stored.place.unlink(missing_ok=True)
            self.settle(stored.size_bytes, 0)

    def _fits(self, size_bytes: int) -> bool:
        return self.used_bytes == 0 or self.used_bytes + size_bytes <= self._limit_bytes


def guess_bytes(path: Path, rates: int) -> int:
    """How much a file may become, decoded at so many rates, where its header does not say."""
    with contextlib.suppress(OSError):
        per_byte = _BYTES_PER_FILE_BYTE.get(path.suffix.lower(), _BYTES_PER_PACKED_BYTE)
        return int(path.stat().st_size * per_byte * max(rates, 1))
    return 0


@contextlib.contextmanager
def open_spool(folder: str, limit_bytes: int) -> Iterator[Spool]:
    """A spool that leaves nothing behind; what killed ones left is removed. folder: "" for the system's own places.

    Raises `SetupError` where the disk refuses.
    """
    with temporary_errors():
        disk = Path(folder or tempfile.gettempdir())
    memory = _MEMORY if not folder and os.access(_MEMORY, os.W_OK) else disk
    with contextlib.ExitStack() as stack:
        place = stack.enter_context(_own_folder(disk))
        fast = place if memory == disk else stack.enter_context(_own_folder(memory))
        yield Spool(place, fast, limit_bytes)


@contextlib.contextmanager
def _own_folder(base: Path) -> Iterator[Path]:
    prefix = f"{_PREFIX}{os.getuid()}-"
    with temporary_errors(base), contextlib.ExitStack() as entering:
        base.mkdir(parents=True, exist_ok=True)
        door = entering.enter_context((base / f"{prefix}lock").open("w"))
        fcntl.flock(door, fcntl.LOCK_EX)  # nobody sweeps while somebody moves in
        for left in base.glob(f"{prefix}*/lock"):
            _sweep(left)
        folder = Path(tempfile.mkdtemp(prefix=prefix, dir=base))
        mine = (folder / "lock").open("w")
        fcntl.flock(mine, fcntl.LOCK_EX)
    try:
        with mine:
            yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _sweep(lock: Path) -> None:
    """Remove a folder whose owner is gone."""
    with contextlib.suppress(OSError), lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(lock.parent, ignore_errors=True)
