"""B against A: differences of percentiles with intervals, paired or clustered; and rates of failure.

The difference at a percentile is B's figure minus A's. Its 95 % interval resamples whole dialogues, seeded: *paired*,
where dialogue k of A and dialogue k of B performed the same script, a drawn pair brings both (and only turns that have
a value on both sides are looked at); *clustered*, the dialogues of A and of B are drawn apart. The ends are those of
`metrics.stats.middle_of_resamples`; unlike a percentile itself, the difference of two tails is seldom one-sided, so
resamples serve it well (`benchmarks/statistics_honesty.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import NormalDist
from typing import Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

from metrics.stats import (
    NEEDED_DIALOGUES,
    NEEDED_SAMPLES,
    RESAMPLES,
    SEED,
    Sample,
    blocks,
    draws,
    middle_of_resamples,
    percentile,
    weighted_percentiles,
)

Pairing = Literal["paired", "clustered"]


class Difference(msgspec.Struct, frozen=True):
    """One percentile of two runs. All in the measure's unit.

    difference: b − a · ci95: its interval · reason: why there is no interval, or no difference at all; else "".
    """

    figure: str
    a: float | None
    b: float | None
    difference: float | None
    ci95: tuple[float, float] | None
    reason: str

    @property
    def shown(self) -> bool | None:
        """Whether a difference is shown: the interval leaves out 0. None where there is no interval."""
        return None if self.ci95 is None else self.ci95[0] > 0 or self.ci95[1] < 0


class Comparison(msgspec.Struct, frozen=True):
    """One measure of two runs. n_a, n_b: values used (equal where paired) · dialogues_a, dialogues_b: with values."""

    pairing: Pairing
    n_a: int
    n_b: int
    dialogues_a: int
    dialogues_b: int
    differences: list[Difference]


def compare_paired(
    pairs_by_dialogue: Mapping[str, Sequence[tuple[float, float]]], *, resamples: int = RESAMPLES, seed: int = SEED
) -> Comparison:
    """Compare turn by turn. pairs_by_dialogue: dialogue pair → (A's value, B's value) of the turns that have both."""
    names = sorted(name for name, pairs in pairs_by_dialogue.items() if len(pairs))
    groups_a, groups_b = ([[pair[side] for pair in pairs_by_dialogue[name]] for name in names] for side in (0, 1))
    return _compare("paired", groups_a, groups_b, resamples, seed)


def compare_clustered(
    a_by_dialogue: Mapping[str, Sequence[float]],
    b_by_dialogue: Mapping[str, Sequence[float]],
    *,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> Comparison:
    """Compare runs whose dialogues have nothing to do with each other. Each: dialogue → values of its turns."""
    groups_a, groups_b = (
        [list(values[name]) for name in sorted(values) if len(values[name])]
        for values in (a_by_dialogue, b_by_dialogue)
    )
    return _compare("clustered", groups_a, groups_b, resamples, seed)


def _compare(
    pairing: Pairing, groups_a: list[list[float]], groups_b: list[list[float]], resamples: int, seed: int
) -> Comparison:
    flat_a, flat_b = ([value for group in groups for value in group] for groups in (groups_a, groups_b))
    if not all(map(math.isfinite, (*flat_a, *flat_b))):
        raise ValueError("a measure's values must be finite; leave out those that are unavailable")
    fewest, dialogues = min(len(flat_a), len(flat_b)), min(len(groups_a), len(groups_b))
    given = [percent for percent, needed in NEEDED_SAMPLES.items() if fewest >= needed]
    intervals: dict[int, tuple[float, float]] = {}
    if dialogues >= NEEDED_DIALOGUES:
        intervals = _intervals(pairing, Sample(groups_a), Sample(groups_b), given, resamples, seed)
    differences = []
    for percent, needed in NEEDED_SAMPLES.items():
        if percent not in given:
            reason = f"needs {needed} samples, has {fewest}" if fewest else "no values"
            differences.append(Difference(f"p{percent}", None, None, None, None, reason))
            continue
        a, b = percentile(flat_a, percent), percentile(flat_b, percent)
        reason = "" if percent in intervals else f"needs {NEEDED_DIALOGUES} dialogues, has {dialogues}"
        differences.append(Difference(f"p{percent}", a, b, b - a, intervals.get(percent), reason))
    return Comparison(pairing, len(flat_a), len(flat_b), len(groups_a), len(groups_b), differences)


def _intervals(
    pairing: Pairing, a: Sample, b: Sample, percents: list[int], resamples: int, seed: int
) -> dict[int, tuple[float, float]]:
    """Percent → interval of the difference. Each side has a generator of its own; paired, B takes A's draws."""
    rng_a, rng_b = (np.random.default_rng([seed, side]) for side in (0, 1))
    found: dict[int, list[NDArray[np.float64]]] = {percent: [] for percent in percents}
    for rows in blocks(resamples, len(a.values) + len(b.values)):
        times_a = draws(rng_a, a.dialogues, rows)
        times_b = times_a if pairing == "paired" else draws(rng_b, b.dialogues, rows)
        upto_a, upto_b = (np.cumsum(side.drawn(times), axis=1) for side, times in ((a, times_a), (b, times_b)))
        for percent in percents:
            both = (weighted_percentiles(side.values, upto, percent) for side, upto in ((a, upto_a), (b, upto_b)))
            found[percent].append(np.stack(tuple(both)))
    dialogues = min(a.dialogues, b.dialogues)
    intervals = {}
    for percent, parts in found.items():
        figures = np.concatenate(parts, axis=1)
        freedom = float(dialogues - 1) if pairing == "paired" else _welch(figures, a.dialogues, b.dialogues)
        intervals[percent] = middle_of_resamples(figures[1] - figures[0], dialogues, freedom)
    return intervals


def _welch(figures: NDArray[np.float64], dialogues_a: int, dialogues_b: int) -> float:
    """Degrees of freedom of a difference of two independent figures. figures: (2, resamples).

    B. L. Welch, "The generalization of 'Student's' problem …", Biometrika 34 (1947).
    """
    variance_a, variance_b = (float(variance) for variance in figures.var(axis=1))
    apart = variance_a**2 / (dialogues_a - 1) + variance_b**2 / (dialogues_b - 1)
    return (variance_a + variance_b) ** 2 / apart if apart else float(dialogues_a + dialogues_b - 2)


def wilson(hits: int, of: int) -> tuple[float, float]:
    """95 % score interval of a share. E. B. Wilson, Journal of the American Statistical Association 22 (1927)."""
    z = NormalDist().inv_cdf(0.975)
    share = hits / of
    middle, spread = share + z * z / (2 * of), z * math.sqrt(share * (1 - share) / of + z * z / (4 * of * of))
    return max(0.0, (middle - spread) / (1 + z * z / of)), min(1.0, (middle + spread) / (1 + z * z / of))


def rate_difference(hits_a: int, of_a: int, hits_b: int, of_b: int) -> tuple[float, float]:
    """95 % interval of B's share minus A's, of independent attempts; both `of` at least 1.

    Method 10 (square and add Wilson's limits) of R. G. Newcombe, "Interval estimation for the difference between
    independent proportions: comparison of eleven methods", Statistics in Medicine 17 (1998), 873–890.
    """
    share_a, share_b = hits_a / of_a, hits_b / of_b
    (low_a, high_a), (low_b, high_b) = wilson(hits_a, of_a), wilson(hits_b, of_b)
    difference = share_b - share_a
    return (
        difference - math.hypot(share_b - low_b, high_a - share_a),
        difference + math.hypot(high_b - share_b, share_a - low_a),
    )
