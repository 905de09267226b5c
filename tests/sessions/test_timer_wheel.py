"""One timer for all sleepers: exact on the virtual loop, never early on a real one."""

from __future__ import annotations

import asyncio

import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from sessions.clock import NS_PER_MS, NS_PER_S, MonotonicClock, TimerWheel
from tests.support.virtual_time import VirtualClock, VirtualLoop, run_virtual


@given(delays_ns=st.lists(st.integers(-5, 3 * NS_PER_S), max_size=30))
def test_every_sleeper_wakes_at_its_own_instant(delays_ns: list[int]) -> None:
    async def make(clock: VirtualClock) -> list[tuple[int, int]]:
        wheel = TimerWheel(clock)
        start_ns = wheel.now_ns()
        woken = []

        async def sleep(delay_ns: int) -> None:
            await wheel.sleep_until_ns(start_ns + delay_ns)
            woken.append((max(0, delay_ns), wheel.now_ns() - start_ns))

        await asyncio.gather(*(sleep(delay_ns) for delay_ns in delays_ns))
        return woken

    woken = run_virtual(make)
    assert all(wanted == got for wanted, got in woken)
    assert [wanted for wanted, _ in woken] == sorted(max(0, delay_ns) for delay_ns in delays_ns)


def test_one_timer_serves_a_thousand_sleepers() -> None:
    async def make(clock: VirtualClock) -> int:
        wheel = TimerWheel(clock)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        sleepers = [
            asyncio.create_task(wheel.sleep_until_ns(clock.now_ns() + (k % 20) * NS_PER_MS + 1)) for k in range(1000)
        ]
        await asyncio.sleep(0)
        timers = [handle for handle in loop._scheduled if not handle.cancelled()]  # type: ignore[attr-defined]
        await asyncio.gather(*sleepers)
        return len(timers)

    assert run_virtual(make) == 1


def test_who_is_cancelled_leaves_no_timer_behind() -> None:
    """A timer for nobody would make a virtual clock jump, and wake a real loop for nothing."""

    async def make(clock: VirtualClock) -> tuple[int, int]:
        wheel = TimerWheel(clock)
        start_ns = clock.now_ns()
        first, last = (asyncio.create_task(wheel.sleep_until_ns(start_ns + ms * NS_PER_MS)) for ms in (5, 9))
        await asyncio.sleep(0)
        first.cancel()
        await last
        reached_ns = clock.now_ns() - start_ns
        alone = asyncio.create_task(wheel.sleep_until_ns(clock.now_ns() + NS_PER_S))
        await asyncio.sleep(0)
        alone.cancel()
        await asyncio.gather(first, alone, return_exceptions=True)
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        left = [handle for handle in loop._scheduled if not handle.cancelled()]  # type: ignore[attr-defined]
        return reached_ns, len(left)

    assert run_virtual(make) == (9 * NS_PER_MS, 0)


def test_steps_are_made_at_their_instants_without_a_task_waking() -> None:
    async def make(clock: VirtualClock) -> tuple[list[int], int]:
        wheel = TimerWheel(clock)
        start_ns = clock.now_ns()
        made: list[int] = []

        def step() -> int | None:
            made.append(clock.now_ns() - start_ns)
            return start_ns + len(made) * 20 * NS_PER_MS + 7 if len(made) < 4 else None

        await wheel.run_steps(start_ns, step)
        return made, clock.now_ns() - start_ns

    made, over_ns = run_virtual(make)
    assert made == [0, 20 * NS_PER_MS + 7, 40 * NS_PER_MS + 7, 60 * NS_PER_MS + 7]
    assert over_ns == made[-1]


def test_a_step_that_fails_fails_alone() -> None:
    async def make(clock: VirtualClock) -> tuple[str, int]:
        wheel = TimerWheel(clock)
        due_ns = clock.now_ns() + NS_PER_MS
        made = []

        def fails() -> int | None:
            raise ValueError("mine")

        def goes_on() -> int | None:
            made.append(clock.now_ns())
            return clock.now_ns() + NS_PER_MS if len(made) < 5 else None

        others = asyncio.create_task(wheel.run_steps(due_ns, goes_on))
        try:
            await wheel.run_steps(due_ns, fails)
        except ValueError as error:
            said = str(error)
        await others
        return said, len(made)

    assert run_virtual(make) == ("mine", 5)


def test_no_step_after_a_cancellation() -> None:
    async def make(clock: VirtualClock) -> int:
        wheel = TimerWheel(clock)
        made = []

        def step() -> int | None:
            made.append(clock.now_ns())
            return clock.now_ns() + NS_PER_MS

        task = asyncio.create_task(wheel.run_steps(clock.now_ns(), step))
        await wheel.sleep_until_ns(clock.now_ns() + 3 * NS_PER_MS)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        count = len(made)
        await clock.sleep_until_ns(clock.now_ns() + NS_PER_S)
        return len(made) - count

    assert run_virtual(make) == 0


@pytest.mark.parametrize("loop_factory", [asyncio.SelectorEventLoop, uvloop.new_event_loop])
def test_nobody_wakes_early_on_a_real_loop(loop_factory: object) -> None:
    """Uvloop calls up to a millisecond before the instant that was asked for."""

    async def wake_ups() -> list[int]:
        wheel = TimerWheel(MonotonicClock())
        start_ns = wheel.now_ns()
        late = []

        async def stream(phase_ns: int) -> None:
            for k in range(12):
                due_ns = start_ns + phase_ns + k * 5_300_000
                await wheel.sleep_until_ns(due_ns)
                late.append(wheel.now_ns() - due_ns)

        await asyncio.gather(*(stream(k * 130_000) for k in range(40)))
        return late

    with asyncio.Runner(loop_factory=loop_factory) as runner:  # type: ignore[arg-type]
        late = runner.run(wake_ups())
    assert len(late) == 480
    assert min(late) >= 0
