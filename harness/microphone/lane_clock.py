"""From the stamps of a microphone's frames to where the samples of its lane lie in time.

One stamp jitters by as much as the device's thread does. So the stamps of a second are reduced to sample 0 of the lane,
and their median gives one anchor (`sessions.events.LaneAt`); the first one comes sooner.
"""

from __future__ import annotations

from statistics import median_low
from typing import Final

from sessions.clock import NS_PER_MS, NS_PER_S, samples_to_ns
from sessions.events import LaneAt
from sessions.lane import LaneTimes

_FIRST_NS: Final = 200 * NS_PER_MS
_FEWEST: Final = 10
"""Frames of which a median is worth more than going on from the anchor before."""


class LaneClock:
    """Told each frame of a lane, in order. anchors: those that are known so far."""

    def __init__(self, rate_hz: int) -> None:
        self._rate_hz = rate_hz
        self.anchors: list[LaneAt] = []
        self._samples = 0
        self._from = 0
        """The first sample of the frames that no anchor holds yet."""
        self._zeros: list[int] = []
        """When sample 0 would have been, by each of their stamps."""
        self._waited: list[int] = []
        self._starts = True
        self._times: LaneTimes | None = None

    def frame(self, samples: int, at_ns: int, handed_ns: int, *, lost: bool) -> None:
        """The next frame. lost: samples between it and the one before never came."""
        if lost and self._samples:
            self.close(handed_ns)
            self._begin(starts=True)
        self._zeros.append(at_ns - samples_to_ns(self._samples, self._rate_hz))
        self._samples += samples
        self._waited.append(handed_ns - at_ns - samples_to_ns(samples, self._rate_hz))
        gathered_ns = samples_to_ns(self._samples - self._from, self._rate_hz)
        if gathered_ns >= (_FIRST_NS if self._starts else NS_PER_S):
            self.close(handed_ns)

    def close(self, t_ns: int) -> None:
        """No frame will come, or none that goes on from these: an anchor from those that none holds yet, where they are
        enough, or the only ones since the lane began anew."""
        if not self._zeros or (not self._starts and len(self._zeros) < _FEWEST):
            return
        middle = self._from if self._starts else (self._from + self._samples) // 2
        anchor = LaneAt(
            t_ns=t_ns,
            sample=middle,
            at_ns=median_low(self._zeros) + samples_to_ns(middle, self._rate_hz),
            spread_ns=max(self._zeros) - min(self._zeros),
            waited_ns=min(self._waited),
            starts=self._starts,
        )
        self.anchors.append(anchor)
        self._times = LaneTimes(self.anchors, self._rate_hz)
        self._begin(starts=False)

    def _begin(self, *, starts: bool) -> None:
        self._from, self._starts = self._samples, starts
        self._zeros.clear()
        self._waited.clear()

    def times(self) -> LaneTimes:
        """With what is known now. There must have been a frame."""
        if self._times is not None:
            return self._times
        zero_ns = median_low(self._zeros)
        return LaneTimes([LaneAt(zero_ns, 0, zero_ns, 0, min(self._waited), True)], self._rate_hz)
