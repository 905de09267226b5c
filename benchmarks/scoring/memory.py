"""The memory and the CPU time of a process and all that it starts, as the kernel counts them."""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
from pathlib import Path

_EVERY_S = 0.1


def _family(root: int) -> set[int]:
    """The process and all below it. Workers lead sessions of their own, so parents are asked, not groups."""
    parents = {}
    for place in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            parents[int(place.parent.name)] = int(place.read_text().rpartition(")")[2].split()[1])
    family = {root}
    while more := {pid for pid, parent in parents.items() if parent in family} - family:
        family |= more
    return family


def used_bytes(root: int) -> int:
    """Proportional set sizes added up: what several processes share counts once."""
    total = 0
    for pid in _family(root):
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1]) * 1024
    return total


def cpu_ns(root: int) -> int:
    """CPU time of the process and of all below it that live or were waited for, user and system."""
    ticks = 0
    for pid in _family(root):
        with contextlib.suppress(OSError):
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            ticks += sum(map(int, fields[11:15]))
    return ticks * (1_000_000_000 // os.sysconf("SC_CLK_TCK"))


def run_watched(command: list[str]) -> tuple[bytes, int]:
    """Standard output of a command, and the most memory that it and its children had at once, in bytes."""
    peak, ended = 0, threading.Event()
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:

        def watch() -> None:
            nonlocal peak
            while not ended.wait(_EVERY_S):
                peak = max(peak, used_bytes(process.pid))

        watcher = threading.Thread(target=watch)
        watcher.start()
        out, _ = process.communicate()
        ended.set()
        watcher.join()
    if process.returncode:
        raise SystemExit(f"{' '.join(command[:4])} … ended with code {process.returncode}")
    return out, peak
