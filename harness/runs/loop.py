"""The event loop of a timed process: uvloop where it is installed, else asyncio's own. The plan names it."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import signal
from collections.abc import Callable, Coroutine
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
    """As `asyncio.run`, on that loop. Raises `KeyboardInterrupt` where Ctrl-C or SIGTERM cancelled it."""
    return run_interruptible(main, new_loop)


def run_interruptible(
    main: Coroutine[Any, Any, T], loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None
) -> T:
    """As `asyncio.run`, whose own handler of Ctrl-C forgets one that comes in the instant between its start and the
    loop's: what is left of it is a task that was cancelled by nobody."""
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        try:
            return runner.run(main)
        except asyncio.CancelledError as cancelled:
            raise KeyboardInterrupt from cancelled


async def until_stopped(work: Coroutine[Any, Any, T]) -> T:
    """Await `work`; SIGTERM stops it as Ctrl-C does."""
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    return await work
