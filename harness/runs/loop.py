"""The event loop of a timed process: uvloop where it is installed, else asyncio's own. The plan names it."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


def loop_name() -> str:
    """As it stands in the plan's `software.loop`."""
    return "uvloop" if importlib.util.find_spec("uvloop") else "asyncio"


def new_loop() -> asyncio.AbstractEventLoop:
    if loop_name() == "asyncio":
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = importlib.import_module("uvloop").new_event_loop()
    return loop


def run_timed(main: Coroutine[Any, Any, T]) -> T:
    """As `asyncio.run`, on that loop."""
    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(main)


async def until_stopped(work: Coroutine[Any, Any, T]) -> T:
    """Await `work`; SIGTERM stops it as Ctrl-C does."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await work
