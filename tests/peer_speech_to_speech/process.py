"""Starts and stops the foreign server."""

from __future__ import annotations

import contextlib
import select
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

SCRIPT = Path(__file__).with_name("server.py")
START_S = 120
STOP_S = 20


@contextlib.contextmanager
def running(python: Path, answers: Sequence[str], *, slots: int, word_ms: int) -> Iterator[str]:
    """Yields the host and port of a server that gives `answers` in turn, speaking each word for `word_ms`.

    Raises `AssertionError` with the server's last words where it does not start, or does not stop by itself.
    """
    command = [str(python), "-I", str(SCRIPT), f"--slots={slots}", f"--word-ms={word_ms}", *answers]
    with tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
        assert process.stdin is not None and process.stdout is not None
        with process:
            try:
                readable, _, _ = select.select([process.stdout], [], [], START_S)
                port = process.stdout.readline().decode().strip() if readable else ""
                assert port.isdecimal(), f"the foreign server did not start: {_last_words(errors)}"
                yield f"127.0.0.1:{port}"
                process.stdin.close()
                assert process.wait(STOP_S) == 0, f"the foreign server ended badly: {_last_words(errors)}"
            finally:
                process.kill()


def _last_words(errors: IO[bytes]) -> str:
    errors.seek(0)
    lines = errors.read().decode(errors="replace").split("\n")
    return "\n".join(lines[-30:])
