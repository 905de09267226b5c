"""What a server wrote and when: the known truth that a measurement is compared with.

Entries are collected in memory, where adding one costs less than a microsecond; a thread of its own carries them to the
file a few times a second, so that no write ever waits for a disk.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from pathlib import Path

import msgspec

from sessions.errors import BadFile, SetupError

FLUSH_S = 0.25
_log = logging.getLogger("duologue.serve")


class Write(msgspec.Struct, frozen=True):
    """One message of a server, or an instant inside it.

    t_ns: read immediately before the socket write, on the host's monotonic clock · connection: its name ·
    type: the message's own, or "stage.NAME" for an internal instant · samples: audio samples that it completes.
    """

    t_ns: int
    connection: str
    type: str
    response_id: str = ""
    samples: int = 0


class WriteLog:
    """Entries in the order of writing. path: a JSON-lines file, written anew; None keeps them in memory only."""

    def __init__(self, path: Path | None = None, *, keep: bool = True) -> None:
        """The file must be writable, else `SetupError`; what is in it stays until `begin`, for it may be another's.

        keep: False forgets entries once they are in the file (or at once, without a file): for long service."""
        self._path, self._keep = path, keep
        self._entries: list[Write] = []
        self._unwritten: deque[Write] = deque()
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._failure: OSError | None = None
        if path is not None:
            _touch(path, "ab")

    def begin(self) -> None:
        """Empty the file: from here on it is ours. Raises `SetupError`."""
        if self._path is not None and self._thread is None:
            _touch(self._path, "wb")
            self._thread = threading.Thread(target=self._carry, name="write log", daemon=True)
            self._thread.start()

    def add(self, entry: Write) -> None:
        if self._keep:
            self._entries.append(entry)
        if self._path is not None:
            self._unwritten.append(entry)

    @property
    def entries(self) -> list[Write]:
        """What was kept, in order."""
        return list(self._entries)

    def close(self) -> None:
        """Write the rest. Raises `SetupError` if the file could not be written at any time."""
        if self._thread is None:
            return
        self._stop.set()
        self._thread.join()
        self._thread = None
        if self._failure is not None:
            what = f"the write log {self._path} is not complete: {self._failure.strerror}"
            raise SetupError(what, "Make room, or choose another place") from self._failure

    def _carry(self) -> None:
        last = False
        while not last:
            last = self._stop.wait(FLUSH_S)
            # Only this thread takes out: what is counted here is there; what comes meanwhile waits for the next round.
            batch = [self._unwritten.popleft() for _ in range(len(self._unwritten))]
            if batch and self._failure is None:
                self._append(b"".join(msgspec.json.encode(entry) + b"\n" for entry in batch))

    def _append(self, lines: bytes) -> None:
        assert self._path is not None
        try:
            with self._path.open("ab") as file:
                file.write(lines)
        except OSError as error:
            self._failure = error
            _log.warning("the write log %s ends here: %s", self._path, error.strerror)


def _touch(path: Path, mode: str) -> None:
    try:
        path.open(mode).close()
    except OSError as error:
        mend = "Choose a place that can be written"
        raise SetupError(f"the write log {path} cannot be written: {error.strerror}", mend) from error


def read_write_log(path: Path) -> list[Write]:
    """Entries of a write log. Raises `BadFile` with the line that does not fit."""
    entries = []
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        try:
            entries.append(msgspec.json.decode(line, type=Write))
        except (msgspec.DecodeError, msgspec.ValidationError) as error:
            raise BadFile(str(path), str(error), line=number) from error
    return entries
