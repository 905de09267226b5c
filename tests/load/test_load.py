"""Many dialogues at once, on the virtual clock: instants equal to the nanosecond."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path

import pytest

from harness.load.drive import STEP_NS, arrivals_ns
from harness.load.progress import LoadProgress
from harness.results.finish import finish_run
from harness.runs.run import Watcher, perform_run
from metrics.result import Value
from metrics.turns import measure_conversation
from sessions.clock import NS_PER_MS, NS_PER_S, MonotonicClock, TimerWheel
from sessions.errors import ConnectFailed
from sessions.runs import Limits, Load
from tests.support.load_runs import ACCESS, Full, Slots, hold, make_run
from tests.support.peers import in_memory
from tests.support.virtual_time import VirtualClock, run_virtual


def latency_ms(derived: object, name: str = "first_packet_ms") -> float:
    (turn,) = measure_conversation(derived.conversation)  # type: ignore[attr-defined]
    measured = turn.measures[name]
    assert isinstance(measured, Value), measured
    return measured.value


def test_latencies_are_exact_at_any_number_of_sessions(tmp_path: Path) -> None:
    peers: list[Slots] = []

    def peer() -> Slots:
        peers.append(Slots(1000))
        return peers[0]

    run = make_run(tmp_path / "run", Load(sessions=25), 60)
    dialogues = hold(run, peer)
    assert [latency_ms(one) for one in dialogues] == [300.0] * 60
    assert [latency_ms(one, "send_lateness_max_ms") for one in dialogues] == [0.0] * 60
    assert peers[0].most == 25
    assert [line.number for line in sorted(run.journal(), key=lambda line: line.number)] == list(range(60))


def test_connections_come_one_after_the_other(tmp_path: Path) -> None:
    dialogues = hold(make_run(tmp_path / "run", Load(sessions=10), 10), lambda: Slots(10))
    ready = [one.conversation.ready_ns or 0 for one in dialogues]
    assert [later - earlier for earlier, later in itertools.pairwise(ready)] == [STEP_NS] * 9


def test_a_ramp_spreads_the_first_sessions(tmp_path: Path) -> None:
    dialogues = hold(make_run(tmp_path / "run", Load(sessions=4, ramp_s=2.0), 4), lambda: Slots(4))
    ready = [one.conversation.ready_ns or 0 for one in dialogues]
    assert [later - earlier for earlier, later in itertools.pairwise(ready)] == [NS_PER_S // 2] * 3


def test_open_loop_keeps_its_instants_and_tells_the_delay(tmp_path: Path) -> None:
    """One place, dialogues that last longer than the time between them: each waits for all before it. The latencies,
    which begin when a session is ready, do not show it."""
    run = make_run(tmp_path / "run", Load(rate_per_s=2.0, arrivals="constant"), 8, limits=Limits(connect_s=60))
    dialogues = hold(run, lambda: Slots(1))
    first = dialogues[0].conversation
    lasted_ns = (first.ended_ns or 0) - (first.ready_ns or 0)
    assert lasted_ns > NS_PER_S // 2
    assert [one.start_delay_ns for one in dialogues] == [k * (lasted_ns - NS_PER_S // 2) for k in range(8)]
    assert [latency_ms(one) for one in dialogues] == [300.0] * 8
    summary = finish_run(run).summary
    assert summary.start_delay_ms is not None and summary.start_delay_ms.n == 8
    assert summary.start_delay_ms.maximum == pytest.approx(7 * (lasted_ns / NS_PER_MS - 500))


def test_a_closed_loop_hides_what_open_loop_shows(tmp_path: Path) -> None:
    closed = hold(make_run(tmp_path / "closed", Load(), 8), lambda: Slots(1))
    assert {one.start_delay_ns for one in closed} == {None}
    assert [latency_ms(one) for one in closed] == [300.0] * 8


def test_a_cap_of_sessions_is_a_delay_of_those_behind_it(tmp_path: Path) -> None:
    """The server has room for all: whatever waits here waits in this client, and is told all the same."""
    load = Load(rate_per_s=2.0, arrivals="constant", max_sessions=1)
    capped = hold(make_run(tmp_path / "capped", load, 6), lambda: Slots(100))
    queued = hold(make_run(tmp_path / "queued", Load(rate_per_s=2.0, arrivals="constant"), 6), lambda: Slots(1))
    assert [one.start_delay_ns for one in capped] == [one.start_delay_ns for one in queued]
    free = hold(make_run(tmp_path / "free", Load(rate_per_s=2.0, arrivals="constant"), 6), lambda: Slots(100))
    assert {one.start_delay_ns for one in free} == {0}


def test_arrivals() -> None:
    constant = itertools.islice(arrivals_ns(Load(rate_per_s=3, arrivals="constant")), 4)
    assert list(constant) == [0, 333_333_333, 666_666_667, NS_PER_S]

    def poisson(seed: int) -> list[int]:
        return list(itertools.islice(arrivals_ns(Load(rate_per_s=5, seed=seed)), 4000))

    assert poisson(7) == poisson(7) != poisson(8)
    gaps = [(b - a) / NS_PER_S for a, b in itertools.pairwise(poisson(7))]
    mean = sum(gaps) / len(gaps)
    assert mean == pytest.approx(0.2, rel=0.05)
    assert sum(gap > 0.2 for gap in gaps) / len(gaps) == pytest.approx(0.3679, abs=0.03), "exponential"


def test_no_session_at_all_ends_the_run_with_its_own_error(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", Load(sessions=5), 20)
    tried = []

    async def refused() -> object:
        tried.append(1)
        raise ConnectFailed("nothing listens", "Start the server")

    async def make(clock: VirtualClock) -> None:
        with pytest.raises(ConnectFailed):
            await perform_run(run, ACCESS, TimerWheel(clock), Watcher(), connect=refused)  # type: ignore[arg-type]

    run_virtual(make)
    assert len(tried) == 1 and not run.journal()
    run.discard()
    assert not run.path.exists()


def test_a_refusal_beside_sessions_that_stand_is_a_result(tmp_path: Path) -> None:
    progress = LoadProgress(MonotonicClock(), quiet=True)
    dialogues = hold(make_run(tmp_path / "run", Load(sessions=6), 6), lambda: Full(4), progress)
    outcomes = [end.outcome for one in dialogues for end in one.conversation.ends]
    assert outcomes == ["closed"] * 2
    assert "0 active, 6/6 dialogues done, turns failed: 2 closed, first packet p50 300 p95 300 ms" in progress.line()


def test_an_interrupted_load_keeps_what_was_done_and_resumes(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", Load(sessions=4), 12)

    async def make(clock: VirtualClock) -> None:
        async with in_memory(Slots(4), clock) as connect:
            task = asyncio.create_task(perform_run(run, ACCESS, TimerWheel(clock), Watcher(), connect=connect))
            await clock.sleep_until_ns(clock.now_ns() + 2 * NS_PER_S)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    run_virtual(make)
    done = {line.number for line in run.journal()}
    assert 4 <= len(done) < 12
    stopped = [path.name for path in (run.path / "dialogues").iterdir() if "stopped" in path.name]
    assert len(stopped) == 4
    assert [latency_ms(one) for one in hold(run, lambda: Slots(4))] == [300.0] * 12
    assert len(run.journal()) == 12 and done < {line.number for line in run.journal()}
