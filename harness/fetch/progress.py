"""What a download tells the user: lines and bars on a terminal, lines alone elsewhere, or nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, TaskID, TextColumn, TimeRemainingColumn, TransferSpeedColumn
from rich.progress import Progress as Display


def megabytes(size_bytes: int) -> str:
    """`148 MB`, `0.5 MB`: decimal megabytes as download pages give them."""
    size_mb = size_bytes / 1e6
    return f"{size_mb:.0f} MB" if size_mb >= 10 else f"{size_mb:.1f} MB"


class Progress(Protocol):
    """Told what happens; `label` names one download."""

    def say(self, line: str) -> None: ...

    def begin(self, label: str, total_bytes: int) -> None: ...

    def update(self, label: str, done_bytes: int) -> None:
        """`done_bytes` of the whole download are here, those of an earlier attempt included."""
        ...

    def end(self, label: str) -> None: ...


class Silent:
    """Tells nothing."""

    def say(self, line: str) -> None: ...

    def begin(self, label: str, total_bytes: int) -> None: ...

    def update(self, label: str, done_bytes: int) -> None: ...

    def end(self, label: str) -> None: ...


@contextmanager
def bars() -> Iterator[Progress]:
    """Bars with speed and remaining time on standard error; plain lines if that is no terminal."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Lines(console)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Display(*columns, TimeRemainingColumn(), console=console, transient=True) as display:
        yield _Bars(display)


class _Lines:
    def __init__(self, console: Console) -> None:
        self._console = console

    def say(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def begin(self, label: str, total_bytes: int) -> None:
        self.say(f"  fetching {label} ({megabytes(total_bytes)})")

    def update(self, label: str, done_bytes: int) -> None: ...

    def end(self, label: str) -> None: ...


class _Bars:
    def __init__(self, display: Display) -> None:
        self._display = display
        self._tasks: dict[str, TaskID] = {}

    def say(self, line: str) -> None:
        self._display.console.print(line, markup=False, highlight=False, soft_wrap=True)

    def begin(self, label: str, total_bytes: int) -> None:
        self._tasks[label] = self._display.add_task(label, total=total_bytes)

    def update(self, label: str, done_bytes: int) -> None:
        self._display.update(self._tasks[label], completed=done_bytes)

    def end(self, label: str) -> None:
        self._display.remove_task(self._tasks.pop(label))
