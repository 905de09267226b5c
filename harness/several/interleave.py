"""Two targets in alternation: two runs, whose dialogues take turns."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from harness.calibrate.bound import add_part, read_parts
from harness.compare.fit import judged_fit
from harness.load.drive import drive
from harness.runs.clock_checks import ClockChecks
from harness.runs.loop import run_timed, until_stopped
from harness.runs.places import INTERLEAVE
from harness.runs.planning import Ask, Slot, schedule
from harness.runs.progress import Progress
from harness.runs.run import Access, Connect, Watcher, performing
from harness.several.begin import begin_runs
from harness.several.order import NAMES, Name, alternation
from sessions.clock import Clock, MonotonicClock, TimerWheel
from sessions.errors import BadFile
from sessions.runs import Load, Plan, RunFolder, disk_errors, indented, read_json, write_atomic
from sessions.secrets import Secrets

VERSION = 1


class Interleave(msgspec.Struct, frozen=True):
    """`interleave.json`: what was asked of the two runs together.

    order: `a/d0001`, `b/d0001` …, the dialogues as they follow one another, warm-up first · allowed: fields in which
    the two may differ (harness/compare/fit.py).
    """

    created: str
    targets: tuple[str, str]
    seed: int
    order: list[str]
    allowed: list[str]
    version: int = VERSION


@dataclass(frozen=True, slots=True)
class Pair:
    """The two runs, in `path`/a and `path`/b."""

    path: Path
    asked: Interleave
    a: RunFolder
    b: RunFolder

    @property
    def runs(self) -> dict[Name, RunFolder]:
        return {"a": self.a, "b": self.b}

    def left(self) -> list[tuple[Name, Slot]]:
        """The dialogues that are still to do, in order."""
        slots = {f"{name}/{slot.id}": (name, slot) for name, run in self.runs.items() for slot in schedule(run.plan)}
        done = {f"{name}/{line.id}" for name, run in self.runs.items() for line in run.journal()}
        return [slots[place] for place in self.asked.order if place not in done]


def begin_pair(asks: tuple[Ask, Ask], secrets: Secrets, place: Path, *, seed: int, allowed: Sequence[str]) -> Pair:
    """Make both run folders and `interleave.json`.

    Raises `SetupError` where the two could not be compared afterwards, with the field named.
    """

    def comparable(plans: Sequence[Plan]) -> None:
        judged_fit(plans[0], plans[1], allowed)

    a, b = begin_runs(asks, secrets, place, NAMES, comparable)
    slots = schedule(a.plan)
    order = [
        f"{step.run}/{slots[step.number].id}"
        for step in alternation(sum(slot.warmup for slot in slots), len(slots), seed)
    ]
    asked = Interleave(a.plan.created, (a.plan.target, b.plan.target), seed, order, list(allowed))
    with disk_errors(place):
        write_atomic(place / INTERLEAVE, indented(asked))
    return Pair(place, asked, a, b)


def open_pair(place: Path) -> Pair:
    """What `begin_pair` made. Raises `SetupError` or `BadFile`."""
    file = place / INTERLEAVE
    asked = read_json(file, Interleave, VERSION)
    pair = Pair(place, asked, *(RunFolder.open(place / name) for name in NAMES))
    known = {f"{name}/{slot.id}" for name, run in pair.runs.items() for slot in schedule(run.plan)}
    if set(asked.order) != known or len(asked.order) != len(known):
        raise BadFile(str(file), "these are not the dialogues of a/plan.json and b/plan.json", field="order")
    return pair


def perform_pair(pair: Pair, access: Mapping[Name, Access], *, quiet: bool, check_clock: bool) -> bool:
    """Perform what is left of both runs, which are locked; whether the user interrupted it."""
    clock = TimerWheel(MonotonicClock())
    watchers = {name: Progress(quiet=quiet, label=f"{name.upper()} ") for name in NAMES}
    checks = _Checks(pair, asked=check_clock and bool(pair.left()), quiet=quiet)
    interrupted = False
    try:
        checks.before()
        run_timed(until_stopped(perform_alternately(pair, access, clock, watchers)))
    except (KeyboardInterrupt, asyncio.CancelledError):
        interrupted = True
    finally:
        for watcher in watchers.values():
            watcher.close()
    if not interrupted or any(run.journal() for run in pair.runs.values()):
        checks.after(interrupted=interrupted)
    return interrupted


async def perform_alternately(
    pair: Pair,
    access: Mapping[Name, Access],
    clock: Clock,
    watchers: Mapping[Name, Watcher],
    *,
    connect: Mapping[Name, Connect] = {},
) -> None:
    """Perform what the journals say is still to do, one at a time. Errors and `connect`: see `perform_run`."""
    with (
        performing(pair.a, access["a"], clock, watchers["a"], connect=connect.get("a")) as (perform_a, _),
        performing(pair.b, access["b"], clock, watchers["b"], connect=connect.get("b")) as (perform_b, _),
    ):
        performs = {"a": perform_a, "b": perform_b}

        async def perform(step: tuple[Name, Slot], intended_ns: int | None) -> None:
            name, slot = step
            await performs[name](slot, intended_ns)

        await drive(Load(), pair.left(), clock, perform)


class _Checks:
    """The checks of this machine's clock, one for both runs where they speak one protocol; kept in both folders."""

    def __init__(self, pair: Pair, *, asked: bool, quiet: bool) -> None:
        self._pair = pair
        by_protocol = {run.plan.protocol: run for run in (pair.b, pair.a)}
        self._own = [(run, ClockChecks(run, asked=asked, quiet=quiet)) for run in by_protocol.values()]

    def before(self) -> None:
        for _, checks in self._own:
            checks.before()

    def after(self, *, interrupted: bool) -> None:
        for run, checks in self._own:
            known = len(read_parts(run.path))
            checks.after(interrupted=interrupted)
            for part in read_parts(run.path)[known:]:
                for other in self._others(run):
                    add_part(other.path, part)

    def _others(self, run: RunFolder) -> Iterator[RunFolder]:
        for other in self._pair.runs.values():
            if other is not run and other.plan.protocol == run.plan.protocol:
                yield other
