"""The folder for temporary files, where sound and indices lie meanwhile: what is said where the system refuses."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator

from sessions.errors import SetupError

_MEND = "Free some space there, or name another folder by the variable TMPDIR; then give the same command again"
_OF_THE_DISK = {sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN}


@contextlib.contextmanager
def temporary_errors(place: object = "the folder for temporary files") -> Iterator[None]:
    """One line that names the place and the mend."""
    try:
        yield
    except OSError as error:
        raise SetupError(f"cannot write into {place}: {error.strerror or error}", _MEND) from error
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF not in _OF_THE_DISK:
            raise
        raise SetupError(f"cannot write into {place}: {error}", _MEND) from error
