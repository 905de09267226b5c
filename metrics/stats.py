"""Aggregates over turns: percentiles, and bootstrap intervals that resample whole dialogues.

Percentiles are Hyndman–Fan type 7: for n sorted values and probability q, position h = (n − 1)·q, linear between the
values at ⌊h⌋ and ⌊h⌋ + 1. Turns of one dialogue are not independent, so 95 % intervals of the median and of the mean
resample dialogues with replacement, all values of a drawn dialogue together, and take the middle of the figure over the
resamples. With few dialogues the plain middle 95 % is too narrow (it holds the truth in 90 % of the cases with ten of
them), so it is widened as the t distribution is wider than the normal one: `middle_of_resamples`.

A resample never goes beyond the largest value seen, so it cannot tell how far a tail percentile is uncertain: for p95
and p99 the interval comes from the share of values below, and is withheld where its upper end lies beyond all of them
(`tail_interval`). `benchmarks/statistics_honesty.py` shows how often the intervals hold the truth.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist

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
    reasons: by figure ("p95", "ci95" for all intervals, "ci95_p95" for that one …), why it is absent.
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
        missing = [f"p{percent}" for percent in given if f"p{percent}" not in ci95]
        reasons |= {f"ci95_{figure}": "an end of it lies beyond all values; needs more dialogues" for figure in missing}
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
    """95 % intervals of the percentiles and of the mean, by figure; a tail's only where it can be told."""
    sample = Sample(groups)
    figures: dict[str, list[NDArray[np.float64]]] = {"p50": [], "mean": []}
    rng = np.random.default_rng(seed)
    for rows in blocks(resamples, len(sample.values)):
        weights = sample.drawn(draws(rng, len(groups), rows))
        upto = np.cumsum(weights, axis=1)
        figures["p50"].append(weighted_percentiles(sample.values, upto, 50))
        figures["mean"].append((weights @ sample.values) / upto[:, -1])
    found = {name: middle_of_resamples(np.concatenate(parts), len(groups)) for name, parts in figures.items()}
    for percent in percents:
        if percent != 50 and (interval := tail_interval(sample, percent)) is not None:
            found[f"p{percent}"] = interval
    return found


class Sample:
    """Values of dialogues, sorted. values: (n,) · owner: (n,) which dialogue a value is from · dialogues: how many."""

    def __init__(self, groups: Sequence[Sequence[float]]) -> None:
        owner = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
        values = np.concatenate([np.asarray(group, dtype=np.float64) for group in groups])
        order = np.argsort(values, kind="stable")
        self.values: NDArray[np.float64] = values[order]
        self.owner: NDArray[np.int64] = owner[order]
        self.dialogues = len(groups)

    def drawn(self, times: NDArray[np.int64]) -> NDArray[np.int64]:
        """(rows, n) how often each value was drawn. times: (rows, dialogues)."""
        return np.asarray(times[:, self.owner])


def blocks(resamples: int, values: int) -> list[int]:
    """How many resamples to draw at a time."""
    step = max(1, _CELLS // values)
    return [min(step, resamples - start) for start in range(0, resamples, step)]


def draws(rng: np.random.Generator, dialogues: int, rows: int) -> NDArray[np.int64]:
    """(rows, dialogues) how often each dialogue stands in each resample."""
    return rng.multinomial(dialogues, np.full(dialogues, 1 / dialogues), size=rows)


def weighted_percentiles(values: NDArray[np.float64], upto: NDArray[np.int64], percent: int) -> NDArray[np.float64]:
    """(rows,) percentile of each resample. values: sorted (n,) · upto: (rows, n) how often values 0…k were drawn."""
    position = (upto[:, -1] - 1) * (percent / 100)
    below = np.floor(position).astype(np.int64)
    above = np.minimum(below + 1, upto[:, -1] - 1)
    low, high = (values[(upto <= rank[:, None]).sum(axis=1)] for rank in (below, above))
    return np.asarray(low + (high - low) * (position - below), dtype=np.float64)


def middle_of_resamples(
    figures: NDArray[np.float64], dialogues: int, freedom: float | None = None
) -> tuple[float, float]:
    """95 % interval from a figure's resamples: the expanded percentile interval.

    Instead of 2.5 % each tail leaves Φ(−√(n/(n−1))·t), t = the 97.5 % point of Student's t with `freedom` degrees (n−1
    where not given), n = number of dialogues: 0.86 % for 10 of them, 2.2 % for 60. T. Hesterberg, "What Teachers Should
    Know About the Bootstrap", The American Statistician 69 (2015).
    """
    tail = 100 * NormalDist().cdf(-math.sqrt(dialogues / (dialogues - 1)) * student_t(freedom or dialogues - 1))
    low, high = np.percentile(figures, [tail, 100 - tail])
    return float(low), float(high)


def ratio_interval(
    parts: Sequence[tuple[float, float]], *, resamples: int = RESAMPLES, seed: int = SEED
) -> tuple[float, float] | None:
    """95 % interval of Σ numerators / Σ denominators, groups resampled: of a mean (sum, number) or of a corpus rate.

    parts: one (numerator, denominator) per group. None for fewer groups than `NEEDED_DIALOGUES`, and where a resample
    can have nothing to divide by. Without (resamples, groups) weights, so that many thousand groups are no matter.
    """
    groups = len(parts)
    if groups < NEEDED_DIALOGUES:
        return None
    table = np.asarray(parts, dtype=np.float64)
    rng = np.random.default_rng(seed)
    sums = np.empty((resamples, 2))
    for row in range(resamples):
        sums[row] = np.bincount(rng.integers(0, groups, size=groups), minlength=groups) @ table
    if not (sums[:, 1] > 0).all():
        return None
    return middle_of_resamples(sums[:, 0] / sums[:, 1], groups)


def tail_interval(sample: Sample, percent: int) -> tuple[float, float] | None:
    """95 % interval of a percentile from its ranks; None where an end lies beyond all values.

    The share of values at or below the percentile is q ± t·√(q(1−q)·d/n), and the values at those ranks, rounded
    outwards, are the ends: R. S. Woodruff, "Confidence Intervals for Medians and Other Position Measures", Journal of
    the American Statistical Association 47 (1952). d ≥ 1 is the design effect of whole dialogues: the variance of that
    share between dialogues over its variance among independent values (L. Kish, "Survey Sampling", 1965).
    """
    share, n = percent / 100, len(sample.values)
    below = sample.values <= percentile(sample.values.tolist(), percent)
    residuals = np.bincount(sample.owner, weights=below - below.mean(), minlength=sample.dialogues)
    freedom = sample.dialogues - 1
    variance = sample.dialogues / freedom * float(residuals @ residuals) / n**2
    spread = student_t(freedom) * math.sqrt(max(variance, share * (1 - share) / n))
    low, high = math.floor((share - spread) * n) - 1, math.ceil((share + spread) * n)
    if low < 0 or high >= n:
        return None
    return float(sample.values[low]), float(sample.values[high])


def student_t(freedom: float) -> float:
    """The 97.5 % point of Student's t: the expansion 26.7.5 of Abramowitz and Stegun, right to 1e-4 from 9 degrees."""
    z = NormalDist().inv_cdf(0.975)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return math.fsum(term / freedom**power for power, term in enumerate(terms))
