"""Two targets in alternation: the order, and both performed on the virtual clock by a server that drifts."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st

from harness.runs.planning import Ask
from harness.runs.run import Access, Watcher
from harness.several.finish import FinishedPair, finish_pair
from harness.several.interleave import Pair, begin_pair, open_pair, perform_alternately
from harness.several.order import NAMES, Name, Step, alternation
from sessions.clock import NS_PER_MS, TimerWheel
from sessions.errors import BadFile, SetupError
from sessions.runs import RunFolder
from sessions.scripts import script_from_audio
from sessions.secrets import Secrets
from tests.support.peers import Peer, Wire, audio, created, done, greet, in_memory, request, sleep_ms, tone
from tests.support.virtual_time import VirtualClock, run_virtual

ACCESS: dict[Name, Access] = {name: Access(f"ws://{name}/v1/realtime", {}, "", Secrets()) for name in NAMES}

# ---- the order -----------------------------------------------------------------------------------------------------


@given(warmups=st.integers(0, 9), counted=st.integers(1, 40), seed=st.integers(0, 2**32))
def test_every_dialogue_stands_once_beside_its_partner(warmups: int, counted: int, seed: int) -> None:
    total = warmups + counted
    steps = alternation(warmups, total, seed)
    assert sorted(steps, key=lambda step: (step.run, step.number)) == [
        Step(name, number) for name in NAMES for number in range(total)
    ]
    assert [step.number for step in steps[::2]] == [step.number for step in steps[1::2]] == list(range(total))
    assert all(first.run != second.run for first, second in zip(steps[::2], steps[1::2], strict=True))
    assert steps == alternation(warmups, total, seed)


@given(blocks=st.integers(1, 30), seed=st.integers(0, 2**32))
def test_a_linear_drift_falls_on_both_alike(blocks: int, seed: int) -> None:
    steps = alternation(0, 2 * blocks, seed)
    for start in range(0, len(steps), 4):
        runs = "".join(step.run for step in steps[start : start + 4])
        assert runs in ("abba", "baab")
    places = {name: [place for place, step in enumerate(steps) if step.run == name] for name in NAMES}
    assert sum(places["a"]) == sum(places["b"])
    begins = Counter(step.run for step in steps[::4])
    assert abs(begins["a"] - begins["b"]) <= 1


def test_the_seed_decides() -> None:
    assert len({tuple(alternation(0, 12, seed)) for seed in range(20)}) > 5
    assert alternation(0, 0, 1) == []


# ---- performed -----------------------------------------------------------------------------------------------------


class Drifting:
    """Answers after `delay_ms`, and 1 ms more with every 100 ms that have passed since the beginning."""

    def __init__(self, delay_ms: float, order: list[str], name: str) -> None:
        self._delay_ms, self._order, self._name = delay_ms, order, name

    async def __call__(self, wire: Wire) -> None:
        self._order.append(self._name)
        await greet(wire)
        while True:
            await request(wire)
            await sleep_ms(wire, self._delay_ms + wire.clock.now_ns() // (100 * NS_PER_MS))
            await wire.send(created("r"))
            await wire.send(audio("r", tone(200)))
            await wire.send(done("r"))


async def closes(wire: Wire) -> None:
    await wire.close(1013, "gone")


def begin(place: Path, *, repeat: int = 10, warmup: int = 1, **of_b: str) -> Pair:
    clip = place.parent / "clip.wav"
    soundfile.write(clip, tone(200), 24_000)
    script = script_from_audio([str(clip)])
    a = Ask("ws://a", [script], repeat=repeat, warmup=warmup)
    b = Ask("ws://b", [script], repeat=repeat, warmup=warmup, **of_b)  # type: ignore[arg-type]
    return begin_pair((a, b), Secrets(), place, seed=3, allowed=())


def hold(pair: Pair, a: Peer, b: Peer) -> FinishedPair:
    async def make(clock: VirtualClock) -> None:
        async with in_memory(a, clock) as connect_a, in_memory(b, clock) as connect_b:
            await perform_alternately(
                pair,
                ACCESS,
                TimerWheel(clock),
                {name: Watcher() for name in NAMES},
                connect={"a": connect_a, "b": connect_b},
            )

    run_virtual(make)
    return finish_pair(pair)


def test_the_difference_is_exact_although_the_server_drifts(tmp_path: Path) -> None:
    """By 1 ms in 100: from the first dialogue to the last far more than the 40 ms between the two."""
    order: list[str] = []
    pair = begin(tmp_path / "pair")
    compared = hold(pair, Drifting(300, order, "a"), Drifting(260, order, "b")).compared
    assert [step.partition("/")[0] for step in pair.asked.order] == order
    assert compared is not None and compared.pairing.startswith("paired")
    assert compared.remarks[0] == "performed in alternation, in blocks of A B B A or B A A B (seed 3)"
    row = next(row for row in compared.rows if row.metric == "voice_to_voice_ms")
    p50 = row.comparison.differences[0]
    assert p50.a is not None and p50.difference is not None and p50.ci95 is not None
    assert row.comparison.n_a == 10 and p50.a > 350
    assert p50.ci95[0] <= -40 <= p50.ci95[1] < 0
    assert row.verdict.startswith("B is ") and "ms faster at p50, 95 % CI" in row.verdict
    page = (tmp_path / "pair" / "comparison.html").read_text()
    assert row.verdict in page and 'href="a/report.html"' in page and "<script" not in page


def test_what_is_done_is_not_done_again(tmp_path: Path) -> None:
    """Both runs lose their last lines, as after a kill; what is left follows the same order."""
    order: list[str] = []
    pair = begin(tmp_path / "pair", repeat=4)
    whole = hold(pair, Drifting(300, order, "a"), Drifting(300, order, "b"))
    for run, kept in ((pair.a, 3), (pair.b, 2)):
        journal = run.path / "journal.jsonl"
        journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:kept]))
    again = open_pair(tmp_path / "pair")
    assert again.asked == pair.asked
    left = [f"{name}/{slot.id}" for name, slot in again.left()]
    assert left == [step for step in pair.asked.order if step[-1] > ("3" if step[0] == "a" else "2")]
    order.clear()
    resumed = hold(again, Drifting(300, order, "a"), Drifting(300, order, "b"))
    assert [step[0] for step in left] == order
    assert resumed.compared is not None and whole.compared is not None
    assert resumed.compared.a.dialogues == whole.compared.a.dialogues == 4


def test_only_what_both_performed_is_compared(tmp_path: Path) -> None:
    pair = begin(tmp_path / "pair", repeat=4)
    order: list[str] = []
    hold(pair, Drifting(300, order, "a"), Drifting(300, order, "b"))
    journal = pair.b.path / "journal.jsonl"
    journal.write_bytes(b"".join(journal.read_bytes().splitlines(keepends=True)[:3]))
    compared = finish_pair(pair).compared
    assert compared is not None and compared.pairing.startswith("paired")
    assert (compared.a.dialogues, compared.b.dialogues) == (2, 2)
    journal.write_bytes(journal.read_bytes().splitlines(keepends=True)[0])
    assert finish_pair(pair).compared is None, "the warm-up is no dialogue to compare"


def test_b_goes_away_in_the_midst(tmp_path: Path) -> None:
    """Its dialogues fail and are results; A's stand."""
    served = 0

    async def leaves(wire: Wire) -> None:
        nonlocal served
        served += 1
        await (closes(wire) if served > 4 else Drifting(300, [], "b")(wire))

    made = hold(begin(tmp_path / "pair", repeat=8), Drifting(300, [], "a"), leaves)
    assert made.compared is not None
    assert (made.compared.a.completed, made.compared.b.completed) == (8, 3)
    assert made.compared.b.failed == 5
    assert any("the shares of failed turns differ" in line for line in made.compared.warnings)


def test_runs_that_could_not_be_compared_are_not_begun(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="turn_detection: A has manual, B has server_vad"):
        begin(tmp_path / "pair", turn_detection="server_vad")
    assert not (tmp_path / "pair").exists()
    begin(tmp_path / "pair")
    with pytest.raises(SetupError, match="already holds two runs"):
        begin(tmp_path / "pair")


def test_a_file_that_does_not_fit_is_told(tmp_path: Path) -> None:
    pair = begin(tmp_path / "pair")
    file = pair.path / "interleave.json"
    good = file.read_text()
    for bad, says in (
        (good.replace("a/d0001", "a/d0002"), "order"),
        (good.replace('"version": 1', '"version": 9'), "version 9"),
        ("{", "interleave.json"),
    ):
        file.write_text(bad)
        with pytest.raises(BadFile, match=says):
            open_pair(pair.path)
    file.write_text(good)
    assert isinstance(open_pair(pair.path).a, RunFolder)
