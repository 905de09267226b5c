"""Where the samples of a microphone's lane lie in time: a device counts by a clock of its own, which drifts from ours.

The device's stamps are gathered into anchors (`sessions.events.LaneAt`), about one a second. Between two anchors time
runs evenly; beyond the first and the last, and up to samples that were lost, at the nominal rate. Stamps agree with one
another to a fraction of a millisecond, yet all of them may be late: no sample is handed over before it was heard, so
all of the lane is moved back by as much as its stamps claim that (in all but the worst tenth of its anchors).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence

from sessions.clock import NS_PER_S, samples_to_ns
from sessions.events import AnyEvent, LaneAt

LANE_FILE = "microphone.flac"
"""In a dialogue's folder: all that the microphone heard, mono, at the rate of the wire."""
_DRIFT_FROM_NS = 5 * NS_PER_S
"""Over less time the stamps' own jitter is greater than any drift."""


class LaneTimes:
    """Sample → instant, by anchors in order of their samples."""

    def __init__(self, anchors: Sequence[LaneAt], rate_hz: int) -> None:
        self._anchors = sorted(anchors, key=lambda anchor: anchor.sample)
        self._samples = [anchor.sample for anchor in self._anchors]
        waited_ns = sorted(anchor.waited_ns for anchor in anchors)[len(anchors) // 10]
        self.early_ns = max(0, -waited_ns)
        """How much earlier than its stamps say all of it was."""
        disagree_ns = max(anchor.spread_ns for anchor in anchors)
        self.unsure_ns = disagree_ns + max(0, -min(anchor.waited_ns for anchor in anchors) - self.early_ns)
        """How far a single stamp may lie from where the lane has it, by the log's own word."""
        self.rate_hz = rate_hz

    @classmethod
    def of(cls, events: Iterable[AnyEvent], rate_hz: int) -> LaneTimes | None:
        """Those of a log; None where it has no microphone."""
        anchors = [event for event in events if isinstance(event, LaneAt)]
        return cls(anchors, rate_hz) if anchors else None

    def at_ns(self, sample: int) -> int:
        """When the sample with this index begins at the microphone."""
        return self._stamped_ns(sample) - self.early_ns

    def end_ns(self, sample: int) -> int:
        """When it ends: what follows it may have been lost, and the next one begin much later."""
        return self.at_ns(sample) + samples_to_ns(1, self.rate_hz)

    def _stamped_ns(self, sample: int) -> int:
        anchors = self._anchors
        after = bisect_right(self._samples, sample)
        before = anchors[max(0, after - 1)]
        if 0 < after < len(anchors) and not anchors[after].starts:
            following = anchors[after]
            part = (following.at_ns - before.at_ns) * (sample - before.sample)
            return before.at_ns + part // (following.sample - before.sample)
        if sample < before.sample:
            return before.at_ns - samples_to_ns(before.sample - sample, self.rate_hz)
        return before.at_ns + samples_to_ns(sample - before.sample, self.rate_hz)

    @property
    def drift_ppm(self) -> float | None:
        """How much slower the device's clock is than ours, in millionths; None where that cannot be told."""
        starts = [index for index, anchor in enumerate(self._anchors) if anchor.starts] or [0]
        runs = [self._anchors[a:b] for a, b in zip(starts, [*starts[1:], len(self._anchors)], strict=True)]
        run = max(runs, key=lambda one: one[-1].at_ns - one[0].at_ns)
        took_ns = run[-1].at_ns - run[0].at_ns
        if took_ns < _DRIFT_FROM_NS:
            return None
        nominal_ns = samples_to_ns(run[-1].sample - run[0].sample, self.rate_hz)
        return (took_ns - nominal_ns) / nominal_ns * 1e6
