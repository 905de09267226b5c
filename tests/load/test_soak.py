"""Pauses between dialogues, and runs that last for a time: on the virtual clock, and as a command."""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
from pathlib import Path

import msgspec
import numpy as np
import pytest
import soundfile

from clients.transports.websocket import StampingConnection
from harness.dialogue.perform import Dialogue
from harness.dialogue.record import Record
from harness.load.drive import WHOLE
from harness.load.progress import LoadProgress
from harness.load.think import pauses_ns, span_s
from harness.report.load_wording import load_lines
from harness.results.derive import Derived
from harness.results.finish import finish_run
from harness.runs.planning import Slot, planned
from harness.runs.remaining import remaining, slots_left, spent_s
from harness.runs.run import Access, Watcher, perform_run
from sessions.clock import NS_PER_S, MonotonicClock, TimerWheel
from sessions.errors import SetupError
from sessions.runs import Load, RunFolder, Share
from sessions.secrets import Secrets
from tests.support.commands import CALM
from tests.support.commands import run as run_command
from tests.support.load_runs import ACCESS, Full, Slots, Workers, hold, make_run
from tests.support.peers import Peer, in_memory, on_a_socket, tone
from tests.support.run_samples import plan
from tests.support.virtual_time import VirtualClock, run_virtual

DIALOGUE_S = 1.5
"""500 ms of speech, an answer after 300 ms that is heard for 200 ms, and 500 ms after it."""


def pauses(dialogues: list[Derived]) -> list[int]:
    """From the end of each dialogue to the readiness of the next, of one session."""
    ended_and_ready = [(one.conversation.ended_ns or 0, one.conversation.ready_ns or 0) for one in dialogues]
    return [later[1] - earlier[0] for earlier, later in itertools.pairwise(ended_and_ready)]


# ---- thinking ------------------------------------------------------------------------------------------------------


def test_a_session_pauses_between_its_dialogues(tmp_path: Path) -> None:
    dialogues = hold(make_run(tmp_path / "run", Load(think="2s"), 4), lambda: Slots(1))
    assert pauses(dialogues) == [2 * NS_PER_S] * 3
    assert pauses(hold(make_run(tmp_path / "none", Load(), 4), lambda: Slots(1))) == [0] * 3


def test_drawn_pauses_are_those_of_the_seed(tmp_path: Path) -> None:
    found = pauses(hold(make_run(tmp_path / "a", Load(think="1s-5s", seed=3), 5), lambda: Slots(1)))
    assert found == list(itertools.islice(pauses_ns("1s-5s", 3, 0), 4))
    assert len(set(found)) == 4 and all(NS_PER_S <= pause <= 5 * NS_PER_S for pause in found)
    assert found != list(itertools.islice(pauses_ns("1s-5s", 4, 0), 4))
    assert found != list(itertools.islice(pauses_ns("1s-5s", 3, 1), 4)), "each session has its own"


def test_exponential_pauses_have_their_mean() -> None:
    drawn = list(itertools.islice(pauses_ns("exp:3s", 1, 0), 4000))
    assert sum(drawn) / len(drawn) == pytest.approx(3 * NS_PER_S, rel=0.05)
    assert sum(pause > 3 * NS_PER_S for pause in drawn) / len(drawn) == pytest.approx(0.3679, abs=0.03)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90.0), ("30m", 1800.0), ("1.5h", 5400.0), ("250ms", 0.25), ("0s", 0.0)]
)
def test_spans(text: str, seconds: float) -> None:
    assert span_s(text, "--duration") == seconds


@pytest.mark.parametrize("text", ["", "2", "s", "-2s", "1 s", "1e3s", "nans", "2d", "1s2s", "99999999h"])
def test_what_is_no_span_is_refused_by_name(text: str) -> None:
    with pytest.raises(SetupError, match="--duration"):
        span_s(text, "--duration")


@pytest.mark.parametrize("text", ["exp:0s", "exp:", "exp:1s-2s", "3s-1s", "1s-", "-", "two"])
def test_what_is_no_pause_is_refused_by_name(text: str) -> None:
    with pytest.raises(SetupError, match="--think"):
        pauses_ns(text, 1, 0)


# ---- a run that lasts for a time -----------------------------------------------------------------------------------


def test_rounds_begin_until_the_time_is_over_and_are_whole(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", Load(sessions=2, duration_s=10.0), scripts=3, warmup=1)
    assert (run.plan.repeat, planned(run.plan), run.plan.load.duration_s) == (0, None, 10.0)
    dialogues = hold(run, lambda: Slots(9))
    lines = run.journal()
    assert sorted(line.number for line in lines) == list(range(len(dialogues))) and len(dialogues) % 3 == 0
    assert [line.warmup for line in sorted(lines, key=lambda line: line.number)] == [True] * 3 + [False] * (
        len(lines) - 3
    )
    begun = [(one.conversation.ready_ns or 0) / NS_PER_S - 1 for one in dialogues]  # the virtual clock starts at 1 s
    assert max(begun[::3]) < 10 <= max((one.conversation.ended_ns or 0) / NS_PER_S - 1 for one in dialogues)
    assert all(one.completed for one in dialogues)
    assert not remaining(run) and spent_s(run) >= 10
    assert hold(run, lambda: Slots(9)) and len(run.journal()) == len(lines), "nothing is left to do"


def test_a_run_that_was_stopped_goes_on_for_the_time_that_is_left(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", Load(sessions=2, duration_s=20.0), scripts=2)

    async def make(clock: VirtualClock) -> None:
        async with in_memory(Slots(9), clock) as connect:
            task = asyncio.create_task(perform_run(run, ACCESS, TimerWheel(clock), Watcher(), connect=connect))
            await clock.sleep_until_ns(clock.now_ns() + round(8.2 * NS_PER_S))
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

    run_virtual(make)
    assert spent_s(run) == pytest.approx(8.2)
    before = {line.number for line in run.journal()}
    assert remaining(run).time_s == pytest.approx(11.8) and str(remaining(run)) == "12 s"
    dialogues = hold(run, lambda: Slots(9))
    later = [one for number, one in enumerate(dialogues) if number not in before]
    first_ns, last_ns = (pick((one.conversation.ready_ns or 0) for one in later) for pick in (min, max))
    assert 11.8 - 2 * DIALOGUE_S < (last_ns - first_ns) / NS_PER_S < 11.8 + DIALOGUE_S
    assert len(dialogues) % 2 == 0 and not remaining(run)


def test_a_torn_note_of_the_time_is_no_time(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", Load(duration_s=60.0))
    (run.path / "time_spent.jsonl").write_bytes(b'\n{"spent_s":5.0}\n{"spent_s":1')
    assert spent_s(run) == 5.0
    (run.path / "time_spent.jsonl").write_bytes(b'\n{"spent_s":5.0}\n{"spent_s":1\n{"spent_s":7.5}')
    assert spent_s(run) == 7.5


def test_what_an_earlier_start_began_is_owed_even_when_the_time_is_over() -> None:
    endless = msgspec.structs.replace(plan(1), repeat=0, scripts=plan(1).scripts * 3, load=Load(duration_s=60.0))
    clock = MonotonicClock()

    def owed(*done: int, share: Share = WHOLE) -> list[int]:
        return [slot.number for slot in slots_left(endless, done, clock, clock.now_ns(), share)]

    assert owed() == []
    assert owed(0, 1, 2) == []
    assert owed(0, 1, 4) == [2, 3, 5]
    assert owed(1, 3, share=Share(1, 2)) == [5], "a share's round: as many dialogues as there are scripts"
    assert owed(0, 2, 4, 1, 3, 5, share=Share(1, 2)) == []


def test_nobody_pauses_beyond_the_end(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", Load(duration_s=10.0, think="1h"))

    async def make(clock: VirtualClock) -> int:
        async with in_memory(Slots(1), clock) as connect:
            await perform_run(run, ACCESS, TimerWheel(clock), Watcher(), connect=connect)
        return clock.now_ns()

    assert run_virtual(make) == 11 * NS_PER_S
    assert len(run.journal()) == 1 and not remaining(run)


def test_an_open_loop_knows_its_dialogues_beforehand(tmp_path: Path) -> None:
    load = Load(rate_per_s=2.0, arrivals="constant", duration_s=5.0)
    run = make_run(tmp_path / "run", load, scripts=3)
    assert planned(run.plan) == 12, "ten arrivals, made up to whole rounds"
    dialogues = hold(run, lambda: Slots(99))
    assert {one.start_delay_ns for one in dialogues} == {0} and len(dialogues) == 12
    assert max(one.conversation.ready_ns or 0 for one in dialogues) == NS_PER_S + 11 * NS_PER_S // 2
    summary = finish_run(run).summary
    assert summary.start_delay_ms is not None and summary.start_delay_ms.n == 12


def test_the_line_tells_what_time_is_left(tmp_path: Path) -> None:
    lines: list[str] = []

    class Told(LoadProgress):
        def dialogue_over(self, slot: Slot, record: Record) -> None:
            super().dialogue_over(slot, record)
            lines.append(self.line())

    run = make_run(tmp_path / "run", Load(sessions=3, duration_s=10.0))

    async def make(clock: VirtualClock) -> None:
        async with in_memory(Slots(9), clock) as connect:
            progress = Told(clock, time_left_s=10.0, quiet=True)
            await perform_run(run, ACCESS, TimerWheel(clock), progress, connect=connect)

    run_virtual(make)
    assert "2 active, 1 dialogues done, first packet p50 300 p95 300 ms" in lines[0]
    assert lines[0].endswith(f"{10 - DIALOGUE_S:.0f} s left"), lines[0]
    assert "left" not in lines[-1]


def test_the_words_for_it() -> None:
    (line,) = load_lines(Load(sessions=20, think="exp:3s", duration_s=1800), None)
    assert line.startswith(
        "Closed loop: 20 dialogues at once, each session pausing exp:3s between two (seed 1), begun for 30 min;"
    )
    assert list(load_lines(Load(rate_per_s=2, duration_s=90), None)) == [
        "Open loop: 2 dialogues a second (poisson, seed 1), begun for 90 s."
    ]
    for duration_s, told in ((4, "4 s"), (60, "1 min"), (5400, "90 min"), (7200, "2 h"), (2.5, "2.5 s")):
        (line,) = load_lines(Load(sessions=2, duration_s=duration_s), None)
        assert f"begun for {told};" in line


@pytest.mark.sockets
async def test_the_command_measures_for_a_time(tmp_path: Path) -> None:
    clip, out = tmp_path / "clip.wav", tmp_path / "run"
    soundfile.write(clip, np.concatenate([tone(200), np.zeros(100, dtype=np.int16)]), 24_000)
    async with on_a_socket(Workers(100), MonotonicClock()) as url:
        asked = ("--audio", str(clip), "--sessions", "3", "--duration", "2s", "--think", "0.1s-0.2s", "--seed", "5")
        ran = await run_command("measure", url, *CALM, *asked, "--out", str(out))
        assert ran.code == 0, ran.err
        again = await run_command("measure", "--resume", str(out))
        refused = await run_command("measure", "--resume", str(out), "--duration", "9s")
    made = RunFolder.open(out)
    assert made.plan.load == Load(sessions=3, duration_s=2.0, think="0.1s-0.2s", seed=5) and made.plan.repeat == 0
    summary = json.loads((out / "summary.json").read_text())
    done = summary["dialogues"]["measured"]
    assert 3 <= done == len(made.journal()) and again.code == 0
    attempts = summary["attempts"]
    assert attempts["total"] == done == attempts["completed"] + attempts["invalid"] + attempts["failed"]
    assert "begun for" in " ".join(ran.out.split()) and "--duration 2s" in (out / "report.html").read_text()
    assert refused.code == 2 and "--duration cannot change" in refused.err


@pytest.mark.sockets
@pytest.mark.parametrize("peer", [Workers(100), Full(1)], ids=["all answered", "some refused"])
async def test_a_dialogue_leaves_nothing_for_the_collector(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, peer: Peer
) -> None:
    """While dialogues go on nothing collects garbage: what one leaves in cycles would stay for the length of a soak."""
    run = make_run(tmp_path / "run", Load(sessions=2), 4)
    clock = TimerWheel(MonotonicClock())
    gc.collect()
    kinds = (Dialogue, Record, StampingConnection)
    others = [kept for kept in gc.get_objects() if type(kept) in kinds]  # that tests before this one still hold
    monkeypatch.setattr(gc, "enable", lambda: None)
    try:
        async with on_a_socket(peer, clock) as url:
            await perform_run(run, Access(f"{url}/v1/realtime", {}, "", Secrets()), clock, Watcher())
            await asyncio.sleep(0.05)  # the loop lets go of what is closed
            now = [kept for kept in gc.get_objects() if type(kept) in kinds]
            left = [type(kept).__name__ for kept in now if not any(kept is other for other in others)]
    finally:
        monkeypatch.undo()
        gc.enable()
    assert len(run.journal()) == 4 and left == []
