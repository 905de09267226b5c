"""Gaps between audio arrivals of the reply that gives the latencies.

gap_max_ms, gap_p50_ms = maximum and median (Hyndman–Fan 7) of the differences between consecutive arrival instants of
messages that hold samples. Messages of one instant came with the same read and are one arrival, so that figures do not
depend on how the peer cuts what it sends at once. Unavailable with fewer than two arrivals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from metrics.measures.base import Measure, of_audio
from metrics.result import Measured, Unavailable, Value
from metrics.stats import percentile
from metrics.view import TurnView
from sessions.clock import NS_PER_MS


def _of_gaps(summary: Callable[[Sequence[float]], float]) -> Callable[[TurnView], Measured]:
    def measure(view: TurnView) -> Measured:
        instants_ns = sorted({arrival.t_ns for arrival in view.heard.arrivals})
        if len(instants_ns) < 2:
            return Unavailable("all audio came in one arrival, which has no gap")
        return Value(summary([(later - earlier) / NS_PER_MS for earlier, later in pairwise(instants_ns)]))

    return of_audio(measure)


GAP_MAX = Measure("gap_max_ms", "1", "ms", "lower", "maximum of the gaps between audio arrivals", _of_gaps(max))
GAP_P50 = Measure(
    "gap_p50_ms",
    "1",
    "ms",
    "lower",
    "median of the gaps between audio arrivals",
    _of_gaps(lambda gaps: percentile(gaps, 50)),
)
