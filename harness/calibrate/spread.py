"""Errors in short: bias, and how large they are."""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from metrics.stats import NEEDED_SAMPLES, percentile


class Spread(msgspec.Struct, frozen=True):
    """Of n values of reported − true, in their unit.

    bias: their mean, signed · p50, p95, p99, maximum: of their sizes |reported − true|; p95 only from 20, p99 only from
    100 values up. Without values everything but n is None.
    """

    n: int
    bias: float | None = None
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    maximum: float | None = None

    @property
    def nearly_all(self) -> float | None:
        """What all but one in a hundred stay within; below 100 values, what all stayed within."""
        return self.maximum if self.p99 is None else self.p99


def spread(values: Sequence[float]) -> Spread:
    """Summarise errors. Raises `ValueError` for one that is not finite."""
    if not values:
        return Spread(0)
    if not all(map(math.isfinite, values)):
        raise ValueError("an error must be a finite number")
    sizes = [abs(value) for value in values]

    def at(percent: int) -> float | None:
        return percentile(sizes, percent) if len(sizes) >= NEEDED_SAMPLES[percent] else None

    return Spread(len(sizes), math.fsum(values) / len(values), at(50), at(95), at(99), max(sizes))
