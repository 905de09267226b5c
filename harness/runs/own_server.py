"""A server of our own in a process of its own: for the demo and the benchmarks. Models never run where time is kept."""

from __future__ import annotations

import contextlib
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from sessions.errors import SetupError

_STOP_S = 8


@contextlib.contextmanager
def own_server(arguments: Sequence[str], log: Path) -> Iterator[str]:
    """`duologue serve ARGUMENTS` on a free loopback port; yields its ws:// address and stops it in the end.

    log: takes what the server says. It also stops by itself when this process is gone (its standard input closes).
    Raises `SetupError` with the server's own words when it does not start.
    """
    command = [
        sys.executable,
        "-m",
        "harness",
        "serve",
        "--port",
        "0",
        "--stop-with-stdin",
        *arguments,
    ]  # a later --port wins
    with log.open("wb") as said:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said)
        try:
            yield _address(process, log)
        finally:
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_STOP_S)
            if process.poll() is None:
                process.kill()
                process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    """Read what the server prints until it names its address."""
    assert process.stdout is not None
    for line in process.stdout:
        found = re.search(rb"ws://[^\s\"]+", line)
        if found:
            return found[0].decode()
    process.wait()
    last = log.read_text(errors="replace").strip().splitlines() or ["it said nothing"]
    problem = last[-1].removeprefix("duologue: ")
    raise SetupError(f"the server did not start: {problem}", "To see all that it says: duologue serve")
