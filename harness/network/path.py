"""The path's share of a round trip, from `network.jsonl` alone: what the client waited less what the reflector held.

An answer that cannot be true makes the whole path unavailable: nobody knows which of the others are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from harness.network.log import ANSWER_NS, Exchange, Stretch
from sessions.clock import NS_PER_MS

_CLOCKS_APART_NS = NS_PER_MS
_CLOCKS_DRIFT = 500e-6
"""Two clocks in order run apart by a tenth of that."""


@dataclass(frozen=True, slots=True)
class Whole:
    """One exchange with its answer."""

    n: int
    sent_ns: int
    received_ns: int
    arrived_ns: int
    written_ns: int

    @property
    def held_ns(self) -> int:
        return self.written_ns - self.arrived_ns

    @property
    def path_ns(self) -> int:
        return self.received_ns - self.sent_ns - self.held_ns


@dataclass(slots=True)
class PathTimes:
    """Milliseconds per exchange. The problems say why there are none, "" where there are."""

    before_ms: list[float] = field(default_factory=list)
    during_ms: list[float] = field(default_factory=list)
    problem_before: str = ""
    problem_during: str = ""


def path_times(stretches: Sequence[Stretch]) -> PathTimes:
    """Over all stretches of a run; a stretch that is not whole leaves a figure that is none of the run."""
    found = PathTimes()
    if not stretches:
        found.problem_before = found.problem_during = "no message was exchanged with the reflector"
    for stretch in stretches:
        whole = list(_whole(stretch.exchanges))
        lie = next(_lies(whole), "")
        began_ns = stretch.run_began_ns
        before = [one for one in whole if began_ns is None or one.sent_ns < began_ns]
        during = [one for one in whole if began_ns is not None and one.sent_ns >= began_ns]
        problem = lie or _problem(stretch, len(during))
        found.problem_during = found.problem_during or problem
        found.problem_before = found.problem_before or lie or ("" if before else problem or "no answer came")
        found.before_ms += [one.path_ns / NS_PER_MS for one in before]
        found.during_ms += [one.path_ns / NS_PER_MS for one in during]
    return found


def _whole(exchanges: Sequence[Exchange]) -> Iterator[Whole]:
    for one in exchanges:
        if one.received_ns is not None and one.arrived_ns is not None and one.written_ns is not None:
            yield Whole(one.n, one.sent_ns, one.received_ns, one.arrived_ns, one.written_ns)


def _problem(stretch: Stretch, during: int) -> str:
    if stretch.failed:
        return stretch.failed
    if stretch.ended_ns is None:
        return "the process that measured it was killed"
    late = [one for one in stretch.exchanges if one.received_ns is None and one.sent_ns <= stretch.ended_ns - ANSWER_NS]
    if late:
        return f"the reflector {stretch.begun.reflector} left {len(late)} messages without an answer"
    return "" if during else "no message was answered during the run"


def _lies(exchanges: Sequence[Whole]) -> Iterator[str]:
    """What cannot have been: told in one line."""
    for one in exchanges:
        if not 0 <= one.held_ns <= one.received_ns - one.sent_ns:
            held_ms, trip_ms = one.held_ns / NS_PER_MS, (one.received_ns - one.sent_ns) / NS_PER_MS
            yield (
                f"the reflector's answers cannot be true: it says that it held message {one.n} for {held_ms:.3f} ms of "
                f"a round trip of {trip_ms:.3f} ms"
            )
    for a, b in pairwise(exchanges):
        # Between writing one answer and getting the next message it cannot have counted less than passed here between
        # the same two events seen from outside; and no more between getting one and writing the next.
        inner_ns, outer_ns = b.sent_ns - a.received_ns, b.received_ns - a.sent_ns
        slack_ns = _CLOCKS_APART_NS + outer_ns * _CLOCKS_DRIFT
        if b.arrived_ns - a.written_ns < inner_ns - slack_ns or b.written_ns - a.arrived_ns > outer_ns + slack_ns:
            yield f"the reflector's clock does not run as ours does between messages {a.n} and {b.n}"
