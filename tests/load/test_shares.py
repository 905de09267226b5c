"""Shares of a plan on the virtual clock: together they are the whole, to the nanosecond."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.calibrate.bound import Check, Part, bound_of
from harness.cli.sharing import check_sharing, shard_of
from harness.dialogue.record import Record
from harness.dialogue.tracker import LiveReply, LiveTurn, Tracker
from harness.load.drive import STEP_NS, drive
from harness.runs.losses import Loss, add_losses, read_losses, still_lost
from harness.workers.messages import Over, TurnOver, from_worker, line
from sessions.clock import NS_PER_MS, NS_PER_S, TimerWheel
from sessions.errors import BadFile, SetupError
from sessions.runs import Load, Share
from tests.support.run_samples import plan
from tests.support.virtual_time import VirtualClock, run_virtual

BEGAN_NS = 5 * NS_PER_S
LASTS_NS = 1300 * NS_PER_MS
DIALOGUES = 23
WHOLE = Share()


def held(load: Load, share: Share) -> dict[int, tuple[int | None, int]]:
    """By number: when the dialogue was to begin, and when it did, after the beginning."""
    found: dict[int, tuple[int | None, int]] = {}

    async def make(clock: VirtualClock) -> None:
        async def job(number: int, intended_ns: int | None) -> None:
            found[number] = (None if intended_ns is None else intended_ns - BEGAN_NS, clock.now_ns() - BEGAN_NS)
            await clock.sleep_until_ns(clock.now_ns() + LASTS_NS)

        slots = list(range(DIALOGUES))[share.index :: share.of]
        await drive(load, slots, TimerWheel(clock), job, share=share, began_ns=BEGAN_NS)

    run_virtual(make)
    return found


def shares(of: int) -> list[Share]:
    return [Share(index, of) for index in range(of)]


def joined(load: Load, of: int) -> dict[int, tuple[int | None, int]]:
    parts = [held(load, share) for share in shares(of)]
    together = dict(sorted(item for part in parts for item in part.items()))
    assert len(together) == sum(map(len, parts)) == DIALOGUES, "every dialogue once"
    return together


@pytest.mark.parametrize("of", [2, 3, 5])
@pytest.mark.parametrize("arrivals", ["constant", "poisson"])
def test_the_arrivals_of_all_shares_are_those_of_the_plan(arrivals: str, of: int) -> None:
    load = Load(rate_per_s=3.0, arrivals=arrivals, seed=11)
    assert joined(load, of) == held(load, WHOLE)


def test_closed_loop_shares_connect_in_the_order_of_the_whole() -> None:
    load = Load(sessions=6)
    first = sorted(began_ns for _, began_ns in joined(load, 3).values())[:6]
    assert first == [k * STEP_NS for k in range(6)]
    assert first == sorted(began_ns for _, began_ns in held(load, WHOLE).values())[:6]


@pytest.mark.parametrize("of", [2, 3, 4])
def test_closed_loop_shares_hold_as_many_sessions_as_the_whole(of: int) -> None:
    load = Load(sessions=7, ramp_s=0.875)
    whole, parts = held(load, WHOLE), joined(load, of)

    def at_once(found: dict[int, tuple[int | None, int]]) -> int:
        begins = [began_ns for _, began_ns in found.values()]
        return max(sum(began <= now < began + LASTS_NS for began in begins) for now in begins)

    assert at_once(whole) == at_once(parts) == 7
    ramp = [sorted(began_ns for _, began_ns in found.values())[:7] for found in (whole, parts)]
    assert ramp[0] == [k * 125 * NS_PER_MS for k in range(7)]
    assert all(abs(one - other) <= of * STEP_NS for one, other in zip(*ramp, strict=True))


def test_a_cap_of_sessions_is_shared_too() -> None:
    load = Load(rate_per_s=50.0, arrivals="constant", max_sessions=5)
    begins = [began_ns for _, began_ns in joined(load, 2).values()]
    assert max(sum(began <= now < began + LASTS_NS for began in begins) for now in begins) == 5


@given(count=st.integers(0, 200), of=st.integers(1, 9), workers=st.integers(1, 5))
def test_shares_of_shares_are_shares(count: int, of: int, workers: int) -> None:
    assert sum(share.part(count) for share in shares(of)) == count
    for share in shares(of):
        own = list(range(count))[share.index :: share.of]
        inner = [share.divided(index, workers) for index in range(workers)]
        dealt = [list(range(count))[one.index :: one.of] for one in inner]
        assert dealt == [own[index::workers] for index in range(workers)]
        assert sorted(itertools.chain.from_iterable(dealt)) == own


def test_what_a_worker_tells_comes_back_as_it_was() -> None:
    reply = LiveReply("r", 1, 5, first_audio_ns=7, samples=10, text="it may be long")
    tracker = Tracker(24_000, replies={"r": reply}, turns=[LiveTurn(0, 1), LiveTurn(1, 3, began=True)], late_max_ns=9)
    told = from_worker.decode(line(TurnOver.of(4, 1, tracker, 11)))
    assert isinstance(told, TurnOver) and (told.number, told.cpu_ns) == (4, 11)
    shown = told.tracker(24_000)
    assert (shown.of_turn(1)[0].first_audio_ns, shown.turns[-1].speech_end_ns, shown.late_max_ns) == (7, 3, 9)
    assert b"long" not in line(told)
    over = from_worker.decode(line(Over(4, True, True, ["time-out"], 12)))
    assert isinstance(over, Over) and over.record() == Record(completed=True, set_up=True, gave_up=["time-out"])


@pytest.mark.parametrize("text", ["3/2", "0/2", "1", "a/b", "1/0", "-1/2", "1/2/3", ""])
def test_a_shard_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(SetupError, match="--shard"):
        shard_of(text)


def test_shards_count_from_one() -> None:
    assert [shard_of("1/2"), shard_of("2/2"), shard_of(None)] == [Share(0, 2), Share(1, 2), Share()]


@pytest.mark.parametrize(
    ("shard", "workers", "load", "dialogues", "says"),
    [
        (Share(), 3, Load(sessions=2), 9, "3 workers cannot share 2 sessions"),
        (Share(0, 2), 2, Load(sessions=3), 9, "2 shards of 2 workers each cannot share 3 sessions"),
        (Share(0, 4), 1, Load(sessions=3), 9, "4 shards cannot share 3 sessions"),
        (Share(), 3, Load(rate_per_s=1.0), 2, "3 workers cannot share 2 dialogues"),
        (Share(), 3, Load(rate_per_s=1.0, max_sessions=2), 9, "share 2 sessions. Raise --max-sessions"),
    ],
)
def test_more_hands_than_work_are_refused(shard: Share, workers: int, load: Load, dialogues: int, says: str) -> None:
    with pytest.raises(SetupError, match=says):
        check_sharing(shard, workers, load, dialogues)


def check(*errors_ms: float, invalid: int = 0) -> Check:
    return Check("2026-01-01T00:00:00", errors_ms=list(errors_ms), invalid=invalid)


def test_a_merged_run_is_as_good_as_its_worst_part() -> None:
    good, bad = Part(check(0.1, 0.2), check(0.1), run="a"), Part(check(3.0, -4.0), check(2.0, invalid=1), run="b")
    merged, alone = bound_of([good, bad], 20.0), bound_of([bad], 20.0)
    assert merged is not None and alone is not None
    assert (merged.within_ms, merged.all, merged.invalid) == (4.0, alone.all, 1)
    assert merged.warnings == [f"b: {warning}" for warning in alone.warnings] != []


def test_nothing_is_known_of_a_merged_run_with_a_part_of_which_nothing_is() -> None:
    unchecked = Part(Check("2026-01-01T00:00:00", problem="this part was run without"), run="b")
    merged = bound_of([Part(check(0.1), run="a"), unchecked], 20.0)
    assert merged is not None and merged.within_ms is None
    assert merged.warnings == ["b: The clock was not checked: this part was run without"]


def test_losses_are_kept_until_the_journal_has_them(tmp_path: Path) -> None:
    asked = plan(3, repeat=4, warmup=1)
    add_losses(tmp_path, [Loss("worker 2", "was killed by SIGKILL", [0, 2, 4])])
    add_losses(tmp_path, [])
    losses = read_losses(tmp_path)
    first = still_lost(asked, losses, {1, 3})
    assert (first.dialogues, first.turns) == (2, 6), "the warm-up dialogue is in no count"
    assert first.reasons == ("worker 2 was killed by SIGKILL; 3 dialogues lost",)
    last = still_lost(asked, losses, {0, 1, 2, 3, 4})
    assert (last.dialogues, last.turns) == (0, 0)
    assert last.reasons == ("worker 2 was killed by SIGKILL; its dialogues were held later",)
    (tmp_path / "lost.json").write_text("{}")
    with pytest.raises(BadFile, match=r"lost\.json"):
        read_losses(tmp_path)
