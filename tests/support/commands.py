"""Running the command line as a user does: a process of its own."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CALM = ("--limit-lateness", "5000")
"""Of a run in which it decides nothing how late a busy machine is: its turns are valid all the same."""


@dataclass(frozen=True, slots=True)
class Ran:
    code: int
    out: str
    err: str


def environment(extra: Mapping[str, str]) -> dict[str, str]:
    """The environment less proxies and colours; runs check no clock, which takes 8 s, unless `extra` says so."""
    kept = {name: value for name, value in os.environ.items() if "proxy" not in name.lower()}
    ours = {"PYTHONPATH": str(ROOT), "NO_COLOR": "1", "COLUMNS": "100", "DUOLOGUE_CALIBRATION": "off"}
    return kept | ours | dict(extra)


async def start(*arguments: str, cwd: Path = ROOT, extra: Mapping[str, str] = {}) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "harness",
        *arguments,
        cwd=cwd,
        env=environment(extra),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def finish(process: asyncio.subprocess.Process) -> Ran:
    try:
        async with asyncio.timeout(300):
            out, err = await process.communicate()
    except TimeoutError:
        process.kill()
        raise
    assert process.returncode is not None
    return Ran(process.returncode, out.decode(), err.decode())


async def run(*arguments: str, cwd: Path = ROOT, extra: Mapping[str, str] = {}) -> Ran:
    """`duologue ARGUMENTS` to its end."""
    return await finish(await start(*arguments, cwd=cwd, extra=extra))
