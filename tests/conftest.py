"""What holds for every test: a task left running fails the test that left it."""

from __future__ import annotations

import asyncio
import functools
import inspect
import os
import signal
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import settings

# Several test processes share few cores: threads of models that wait for each other must not spin (7 times slower).
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# A shell ignores Ctrl-C for what it starts in the background, and so would every program that the tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)

# CI must not fail by luck on a change that is not at fault; people's runs go on searching.
# No example has a deadline: the machine decides how long one takes.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("searching", deadline=None)
settings.load_profile("repeatable" if os.environ.get("CI") else "searching")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.obj):
            item.obj = _leaving_no_task(item.obj)


def _of_a_fixture(task: asyncio.Task[Any]) -> bool:
    """A server that a fixture started still serves a connection; the fixture's own end stops it."""
    return getattr(task.get_coro(), "__qualname__", "").startswith("RequestHandler.")


def _leaving_no_task(test: Callable[..., Awaitable[None]]) -> Callable[..., Awaitable[None]]:
    @functools.wraps(test)
    async def checked(*args: Any, **kwargs: Any) -> None:
        before = asyncio.all_tasks()
        await test(*args, **kwargs)
        for _ in range(20):  # transports that were just closed end their tasks in the next turns of the loop
            left = {task for task in asyncio.all_tasks() - before if not _of_a_fixture(task)}
            if not left:
                return
            await asyncio.sleep(0.01)
        pytest.fail(f"tasks left running: {left}")

    return checked
