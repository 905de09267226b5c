"""One measurement repeated: how far trials lie apart, and whether that is more than chance.

Each trial gives one p50. Their mean, with an interval by Student's t over trials (mean ± t·SD/√k, k − 1 degrees of
freedom), holds what a single run cannot show: what changes from one start to the next.

Whether trials differ more than the dialogues within them do is judged by the test of W. H. Kruskal and W. A. Wallis,
"Use of Ranks in One-Criterion Variance Analysis", Journal of the American Statistical Association 47 (1952): the
variance of ranks between trials. A dialogue counts once, by the median of its values, ranked among the dialogues of
its script. How often chance makes that variance as large is counted over seeded rearrangements of the dialogues of each
script among the trials, which asks nothing of how values are distributed.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from metrics.stats import SEED, blocks, percentile, student_t

REARRANGEMENTS = 5000
SIGNIFICANT = 0.05
_T = (12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060)
"""The 97.5 % point of Student's t for 1 to 8 degrees of freedom, where `student_t` is not exact enough."""

Spoken = tuple[str, Sequence[float]]
"""One dialogue: its script, and its values of the measure."""


class TrialSpread(msgspec.Struct, frozen=True):
    """One measure over trials, in its unit.

    p50s: by trial, None where it has no value · mean, sd, minimum, maximum: of the p50s · ci95: of their mean ·
    within_sd: of the values around the mean of their own trial · p_value: how often chance alone sets trials so far
    apart · differ: whether that is below 5 % · reason: why there is no `differ`, else "".
    """

    p50s: list[float | None]
    mean: float | None = None
    sd: float | None = None
    minimum: float | None = None
    maximum: float | None = None
    ci95: tuple[float, float] | None = None
    within_sd: float | None = None
    p_value: float | None = None
    differ: bool | None = None
    reason: str = ""


def spread_of_trials(trials: Sequence[Sequence[Spoken]], *, seed: int = SEED) -> TrialSpread:
    """Judge one measure. trials: of each, its dialogues. Raises `ValueError` for a value that is not finite."""
    spoken = [[(script, list(values)) for script, values in trial if len(values)] for trial in trials]
    flat = [[value for _, values in trial for value in values] for trial in spoken]
    if not all(math.isfinite(value) for values in flat for value in values):
        raise ValueError("a measure's values must be finite; leave out those that are unavailable")
    p50s = [percentile(values, 50) if values else None for values in flat]
    known = [p50 for p50 in p50s if p50 is not None]
    if len(known) < 2:
        return TrialSpread(p50s, reason=f"needs 2 trials with values, has {len(known)}")
    mean, sd = math.fsum(known) / len(known), float(np.std(known, ddof=1))
    half = _t(len(known) - 1) * sd / math.sqrt(len(known))
    p_value, reason = _by_chance([trial for trial in spoken if trial], seed)
    return TrialSpread(
        p50s=p50s,
        mean=mean,
        sd=sd,
        minimum=min(known),
        maximum=max(known),
        ci95=(mean - half, mean + half),
        within_sd=_within(flat),
        p_value=p_value,
        differ=None if p_value is None else p_value < SIGNIFICANT,
        reason=reason,
    )


def _t(freedom: int) -> float:
    return _T[freedom - 1] if freedom <= len(_T) else student_t(freedom)


def _within(trials: Sequence[Sequence[float]]) -> float | None:
    """Pooled standard deviation inside trials."""
    freedom = sum(len(values) - 1 for values in trials if values)
    if not freedom:
        return None
    squares = math.fsum(float(np.var(values)) * len(values) for values in trials if values)
    return math.sqrt(squares / freedom)


def _by_chance(trials: Sequence[Sequence[Spoken]], seed: int) -> tuple[float | None, str]:
    """The p value, or why there is none."""
    if _smallest_p(trials) > SIGNIFICANT:
        return None, "too few dialogues in each trial"
    sizes = np.array([len(trial) for trial in trials])
    rng = np.random.default_rng(seed)
    sums = np.zeros((REARRANGEMENTS + 1, len(trials)))
    for owner, ranks in _strata(trials):
        sums += _sums(owner, ranks, len(trials), rng)
    between = (sums**2 / sizes).sum(axis=1)
    as_far = between >= between[0] - 1e-9 * max(1.0, float(between[0]))
    return float(as_far.mean()), ""


def _sums(
    owner: NDArray[np.int64], ranks: NDArray[np.float64], trials: int, rng: np.random.Generator
) -> NDArray[np.float64]:
    """(1 + REARRANGEMENTS, trials) sum of the ranks of each trial: as it is, then rearranged."""
    parts = [np.array([[ranks[owner == trial].sum() for trial in range(trials)]])]
    for rows in blocks(REARRANGEMENTS, len(owner)):
        dealt = rng.permuted(np.tile(owner, (rows, 1)), axis=1)
        parts.append(np.stack([(dealt == trial) @ ranks for trial in range(trials)], axis=1))
    return np.vstack(parts)


def _strata(trials: Sequence[Sequence[Spoken]]) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float64]]]:
    """By script, of its dialogues: (trial, rank of the median less the mean rank); equal medians share a rank."""
    for script in sorted({script for trial in trials for script, _ in trial}):
        pairs = [
            (k, percentile(values, 50)) for k, trial in enumerate(trials) for one, values in trial if one == script
        ]
        medians = np.array([median for _, median in pairs])
        below, upto = ((op(medians[:, None], medians)).sum(axis=1) for op in (np.greater, np.greater_equal))
        ranks = (below + upto + 1) / 2
        yield np.array([k for k, _ in pairs]), ranks - ranks.mean()


def _smallest_p(trials: Sequence[Sequence[Spoken]]) -> float:
    """What the test gives where trials lie as far apart as they can; trials of one size can swap their places."""
    made = [Counter(script for script, _ in trial) for trial in trials]
    arrangements = 1
    for script in {script for counts in made for script in counts}:
        left = sum(counts[script] for counts in made)
        for counts in made:
            arrangements *= math.comb(left, counts[script])
            left -= counts[script]
    alike = Counter(tuple(sorted(counts.items())) for counts in made)
    return math.prod(math.factorial(many) for many in alike.values()) / arrangements
