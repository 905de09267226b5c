"""Aggregates over turns: percentiles, and bootstrap intervals that resample whole dialogues.

Percentiles are Hyndman–Fan type 7: for n sorted values and probability q, position h = (n − 1)·q, linear between the
values at ⌊h⌋ and ⌊h⌋ + 1. Turns of one dialogue are not independent, so intervals resample dialogues with replacement
(all values of a drawn dialogue together) and take the 2.5th and 97.5th percentile of the figure over the resamples.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

NEEDED_SAMPLES = {50: 1, 95: 20, 99: 100}
"""Percentile → the fewest samples from which it is given."""
NEEDED_DIALOGUES = 10
"""The fewest dialogues from which intervals are given."""
RESAMPLES = 2000
SEED = 1
_CELLS = 4_000_000
"""Resamples are drawn in blocks of at most this many weights, which bounds the memory."""


class Distribution(msgspec.Struct, frozen=True):
    """Values of one measure, summarised, in the measure's unit.

    n: values · dialogues: those that gave at least one · ci95: 95 % intervals by figure ("p50", "p95", "p99", "mean") ·
    reasons: by figure ("p95", "ci95" …), why it is absent.
    """

    n: int
    dialogues: int
    p50: float | None = None
    p95: float | None = None
    p99: float | None = None
    minimum: float | None = None
    maximum: float | None = None
    mean: float | None = None
    ci95: dict[str, tuple[float, float]] = {}
    reasons: dict[str, str] = {}


def percentile(values: Sequence[float], percent: float) -> float:
    """The Hyndman–Fan 7 percentile, `percent` in 0 to 100. Raises `ValueError` for no values."""
    if not len(values):
        raise ValueError("no values have no percentile")
    ordered = sorted(values)
    position = (len(ordered) - 1) * percent / 100
    below = math.floor(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (ordered[above] - ordered[below]) * (position - below)


def summarise(
    values_by_dialogue: Mapping[str, Sequence[float]], *, resamples: int = RESAMPLES, seed: int = SEED
) -> Distribution:
    """Summarise one measure. values_by_dialogue: dialogue id → its turns' values, unavailable ones left out.

    The same values give the same intervals, in whatever order the dialogues stand. Raises `ValueError` for a value that
    is not a finite number.
    """
    groups = [list(values_by_dialogue[name]) for name in sorted(values_by_dialogue) if len(values_by_dialogue[name])]
    values = [float(value) for group in groups for value in group]
    if not values:
        return Distribution(0, 0, reasons=dict.fromkeys(("p50", "p95", "p99", "ci95"), "no values"))
    if not all(map(math.isfinite, values)):
        raise ValueError("a measure's values must be finite; leave out those that are unavailable")
    reasons = {
        f"p{percent}": f"needs {needed} samples, has {len(values)}"
        for percent, needed in NEEDED_SAMPLES.items()
        if len(values) < needed
    }
    given = [percent for percent, needed in NEEDED_SAMPLES.items() if len(values) >= needed]
    percentiles = {f"p{percent}": percentile(values, percent) for percent in given}
    ci95: dict[str, tuple[float, float]] = {}
    if len(groups) >= NEEDED_DIALOGUES:
        ci95 = _intervals(groups, given, resamples, seed)
    else:
        reasons["ci95"] = f"needs {NEEDED_DIALOGUES} dialogues, has {len(groups)}"
    return Distribution(
        n=len(values),
        dialogues=len(groups),
        p50=percentiles.get("p50"),
        p95=percentiles.get("p95"),
        p99=percentiles.get("p99"),
        minimum=min(values),
        maximum=max(values),
        mean=math.fsum(values) / len(values),
        ci95=ci95,
        reasons=reasons,
    )


def _intervals(
    groups: list[list[float]], percents: list[int], resamples: int, seed: int
) -> dict[str, tuple[float, float]]:
    """95 % bootstrap intervals of the percentiles and of the mean, by figure."""
    owner = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    values = np.concatenate([np.asarray(group, dtype=np.float64) for group in groups])
    order = np.argsort(values, kind="stable")
    values, owner = values[order], owner[order]
    rng = np.random.default_rng(seed)
    names = [*(f"p{percent}" for percent in percents), "mean"]
    figures: dict[str, list[NDArray[np.float64]]] = {name: [] for name in names}
    step = max(1, _CELLS // len(values))
    for start in range(0, resamples, step):
        rows = min(step, resamples - start)
        times = rng.multinomial(len(groups), np.full(len(groups), 1 / len(groups)), size=rows)
        weights = times[:, owner]
        upto = np.cumsum(weights, axis=1)
        figures["mean"].append((weights @ values) / upto[:, -1])
        for percent in percents:
            figures[f"p{percent}"].append(_weighted_percentiles(values, upto, percent))
    return {name: _middle_95(np.concatenate(parts)) for name, parts in figures.items()}


def _weighted_percentiles(values: NDArray[np.float64], upto: NDArray[np.int64], percent: int) -> NDArray[np.float64]:
    """(rows,) percentile of each resample. values: sorted (n,) · upto: (rows, n) how often values 0…k were drawn."""
    position = (upto[:, -1] - 1) * (percent / 100)
    below = np.floor(position).astype(np.int64)
    above = np.minimum(below + 1, upto[:, -1] - 1)
    low, high = (values[(upto <= rank[:, None]).sum(axis=1)] for rank in (below, above))
    return np.asarray(low + (high - low) * (position - below), dtype=np.float64)


def _middle_95(figures: NDArray[np.float64]) -> tuple[float, float]:
    low, high = np.percentile(figures, [2.5, 97.5])
    return float(low), float(high)
