"""One thing that is wrong, and where."""

from __future__ import annotations

import msgspec


class Problem(msgspec.Struct, frozen=True):
    """file: its path in the run folder · line: from 1, null where it is the file as a whole."""

    file: str
    line: int | None
    problem: str

    def __str__(self) -> str:
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{where}: {self.problem}"
