"""A worker as the engine sees it: started when it is first asked, named when it dies or falls silent."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from pathlib import Path

from harness.score.engine.messages import HEAD_BYTES, Answer, Request, answer, frame

_TAIL_BYTES = 4096
_LOG_BYTES = 4 << 20
_TAIL_LINES = 3


class Died(Exception):
    """The worker is gone, or was ended because it did not answer. Says how, beginning with a verb."""


class Child:
    """One worker process. `ask` starts it anew where it is not there; what was loaded is gone then.

    log: a file that takes what it prints · starting_s: what the first question may take beside its own time.
    """

    def __init__(self, python: str, environment: Mapping[str, str], log: Path, starting_s: float) -> None:
        self._python, self._environment, self._log, self._starting_s = python, dict(environment), log, starting_s
        self._process: Process | None = None

    @property
    def alive(self) -> bool:
        return self._process is not None

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    async def ask(self, message: Request, limit_s: float) -> Answer:
        """The answer. Raises `Died` where none comes within `limit_s`; nothing is left of the worker then."""
        process = self._process
        if process is None:
            process = await self._start()
            limit_s += self._starting_s
        try:
            async with asyncio.timeout(limit_s):
                return await _exchange(process, message)
        except TimeoutError:
            await self.kill()
            raise Died(f"gave no answer within {limit_s:.0f} s") from None
        except (asyncio.IncompleteReadError, ConnectionError, BrokenPipeError):
            # It closed its pipe: either it is gone, or it never will answer.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(5):
                    await process.wait()
            code = process.returncode
            await self.kill()
            raise Died(self._how(code)) from None
        except BaseException:
            await self.kill()
            raise

    async def kill(self) -> None:
        """End it at once, whatever it does."""
        process, self._process = self._process, None
        if process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # with whatever it started itself
        # It takes no time, so who is cancelled meanwhile still leaves nothing behind.
        cleaning = asyncio.ensure_future(_clean_up(process))
        cancelled: asyncio.CancelledError | None = None
        while not cleaning.done():
            try:
                await asyncio.shield(cleaning)
            except asyncio.CancelledError as error:
                cancelled = error
        if cancelled is not None:
            raise cancelled

    async def _start(self) -> Process:
        try:
            with self._log.open("ab") as log:
                os.ftruncate(log.fileno(), 0)
                self._process = await asyncio.create_subprocess_exec(
                    self._python,
                    "-P",  # the current folder is the user's: nothing in it is to be taken for a package
                    "-m",
                    "harness.score.engine.worker",
                    stdin=PIPE,
                    stdout=PIPE,
                    stderr=log,
                    env=self._environment,
                    start_new_session=True,  # Ctrl-C comes to the engine alone
                )
        except OSError as error:
            raise Died(f"cannot be started: {error}") from error
        return self._process

    def _how(self, code: int | None) -> str:
        if code is None:
            return "closed its pipe"
        if code < 0:
            with contextlib.suppress(ValueError):
                name = signal.Signals(-code).name
                told = f"was killed by signal {-code} ({name})"
                return told + (", as the system does when memory runs out" if -code == signal.SIGKILL else "")
            return f"was killed by signal {-code}"
        words = self.last_words()
        return f"ended with code {code}" + (f": {words}" if words else "")

    def last_words(self) -> str:
        """The end of what it printed."""
        try:
            with self._log.open("rb") as log:
                log.seek(max(0, log.seek(0, os.SEEK_END) - _TAIL_BYTES))
                lines = log.read().decode(errors="replace").strip().splitlines()
        except OSError:
            return ""
        return " / ".join(line.strip() for line in lines[-_TAIL_LINES:])


async def _clean_up(process: Process) -> None:
    """Of a process that was killed."""
    assert process.stdin is not None and process.stdout is not None
    process.stdin.close()
    await process.wait()
    with contextlib.suppress(ConnectionError, BrokenPipeError):
        await process.stdin.wait_closed()
    while await process.stdout.read(_LOG_BYTES):
        pass


async def _exchange(process: Process, message: Request) -> Answer:
    assert process.stdin is not None and process.stdout is not None
    process.stdin.write(frame(message))
    await process.stdin.drain()
    head = await process.stdout.readexactly(HEAD_BYTES)
    return answer(await process.stdout.readexactly(int.from_bytes(head, "big")))
