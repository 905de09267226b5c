"""An event loop whose clock jumps to the next timer when nothing else is to do, and a `Clock` that reads it.

Instants are whole nanoseconds. Callbacks due at the same instant run in the order in which they were scheduled. File
descriptors are still polled, so that a thread may wake the loop; while one is at work (`run_in_executor`) time stands.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any

from sessions.clock import NS_PER_S


class _JumpingSelector(selectors.DefaultSelector):
    """Polls without waiting; where the loop wants to wait for a timer, jumps there."""

    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if ready or timeout == 0:
            return ready
        if self.loop.threads_at_work:
            return super().select(0.01)
        if timeout is None:
            return super().select(1)  # only an outside event can help; do not spin
        self.loop.jump()
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """Starts at 1 s, so that an instant of 0 is never taken for "now"."""

    def __init__(self) -> None:
        self.now_ns = NS_PER_S
        self.threads_at_work = 0
        selector = _JumpingSelector()
        selector.loop = self
        super().__init__(selector)
        self._clock_resolution = 1e-10

    def time(self) -> float:
        return self.now_ns / NS_PER_S

    def jump(self) -> None:
        """To the next timer. Its float is within half a nanosecond of the integer that it was made from."""
        scheduled: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        live = [handle for handle in scheduled if not handle.cancelled()]
        if live:
            self.now_ns = max(self.now_ns, round(min(handle.when() for handle in live) * NS_PER_S))

    def run_in_executor(self, executor: Any, func: Any, *args: Any) -> Any:  # type: ignore[override]
        self.threads_at_work += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._thread_done)
        return future

    def _thread_done(self, _: Any) -> None:
        self.threads_at_work -= 1


class VirtualClock:
    """The `Clock` of the running `VirtualLoop`."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop

    def now_ns(self) -> int:
        return self._loop.now_ns

    async def sleep_until_ns(self, due_ns: int) -> None:
        loop = self._loop
        while loop.now_ns < due_ns:
            waiter = loop.create_future()
            handle = loop.call_at(due_ns / NS_PER_S, _wake, waiter)
            try:
                await waiter
            finally:
                handle.cancel()


def _wake(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


def run_virtual(make: Any) -> Any:
    """Run `await make(clock)` to its end on a virtual loop. Fails if it leaves a task behind."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, VirtualLoop)
        coroutine: Coroutine[Any, Any, Any] = make(VirtualClock(loop))
        result = runner.run(coroutine)
        left = [task for task in asyncio.all_tasks(loop) if not task.done()]
        assert not left, f"tasks left running: {left}"
        return result
