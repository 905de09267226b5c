"""Do the intervals tell the truth? Simulated runs whose truth is known, measured by the product's own statistics.

A run is a number of dialogues; the log-latencies of a dialogue's turns are a first-order autoregression around a
level of the dialogue's own, so turns are correlated; latencies are log-normal, median 500 ms. Coverage: how often the
95 % interval holds the truth, of a run's figure and of the difference between two runs. A against A: how often the
comparison says "no difference" of two runs of one system, paired (both performed the same scripts, and share what
these do to the latency) and clustered. The goals are for p50; p95 and p99 are printed beside it, and how often they
were withheld.

Queues: against servers of k places and fixed service time, on the virtual clock (benchmarks/queueing.py), the search
for the most sessions that hold finds k ± 1; and an open loop tells what its callers wait, dialogue by dialogue, where a
closed loop of k sessions shows the bare service time.

Run: python -m benchmarks.statistics_honesty (2 to 4 minutes; exit 1 where a goal is missed)
"""

from __future__ import annotations

import math
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import NormalDist

import click
import numpy as np
from numpy.typing import NDArray

from benchmarks.queueing import DEMAND, SERVICE_MS, callers_queue, percentiles, requests_queue, searched
from metrics.comparison import Comparison, compare_clustered, compare_paired
from metrics.stats import summarise

TRIALS = 500
COVERAGE_PERCENT = (92.0, 97.0)
PAIRS = 100
NO_DIFFERENCE = 93
MEDIAN_MS = 500.0
SPREAD = 0.35
"""Standard deviation of the log-latency: p95 is 1.8 times the median."""
LEVELS = 0.3
"""Share of that variance that lies between dialogues."""
RESAMPLES = 1000
SEED = 20
PLACES = (3, 8, 20)
QUEUED = 120
QUEUE_ERROR_MS = 0.001
Latencies = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Shape:
    """carry: correlation of one turn with the next, within a dialogue."""

    dialogues: int
    turns: int
    carry: float

    def __str__(self) -> str:
        return f"{self.dialogues:3} dialogues of {self.turns:2} turns, carry {self.carry}"


SHAPES = (Shape(10, 6, 0.6), Shape(20, 10, 0.8), Shape(30, 6, 0.6), Shape(60, 6, 0.6))


def draw(rng: np.random.Generator, shape: Shape, levels: Latencies | None = None) -> Latencies:
    """(dialogues, turns) latencies in ms. levels: (dialogues, 1) what the dialogues have in common with other runs."""
    noise = rng.normal(size=(shape.dialogues, shape.turns))
    for turn in range(1, shape.turns):
        noise[:, turn] = shape.carry * noise[:, turn - 1] + math.sqrt(1 - shape.carry**2) * noise[:, turn]
    if levels is None:
        levels = rng.normal(size=(shape.dialogues, 1))
    return MEDIAN_MS * np.exp(SPREAD * (math.sqrt(LEVELS) * levels + math.sqrt(1 - LEVELS) * noise))


def truth_ms(percent: int) -> float:
    """The percentile of the distribution that `draw` draws from."""
    return MEDIAN_MS * math.exp(SPREAD * NormalDist().inv_cdf(percent / 100))


def by_dialogue(latencies: Latencies) -> dict[str, list[float]]:
    return {f"d{number:04}": row.tolist() for number, row in enumerate(latencies)}


def coverage(shape: Shape) -> dict[str, tuple[int, int]]:
    """Figure → (intervals that hold the truth, intervals given) of one run's p50, p95, p99."""
    rng = np.random.default_rng(SEED)
    counted = {f"p{percent}": [0, 0] for percent in (50, 95, 99)}
    for trial in range(TRIALS):
        found = summarise(by_dialogue(draw(rng, shape)), resamples=RESAMPLES, seed=trial)
        for percent in (50, 95, 99):
            if (interval := found.ci95.get(f"p{percent}")) is not None:
                counted[f"p{percent}"][0] += interval[0] <= truth_ms(percent) <= interval[1]
                counted[f"p{percent}"][1] += 1
    return {figure: (held, given) for figure, (held, given) in counted.items()}


def comparisons(shape: Shape, trials: int, paired: bool, factor: float = 1.0) -> Iterator[Comparison]:
    """Two runs compared, `trials` times; B is slower by `factor`."""
    rng = np.random.default_rng(SEED + 1)
    for trial in range(trials):
        levels = rng.normal(size=(shape.dialogues, 1)) if paired else None
        a, b = by_dialogue(draw(rng, shape, levels)), by_dialogue(factor * draw(rng, shape, levels))
        if paired:
            pairs = {name: list(zip(a[name], b[name], strict=True)) for name in a}
            yield compare_paired(pairs, resamples=RESAMPLES, seed=trial)
        else:
            yield compare_clustered(a, b, resamples=RESAMPLES, seed=trial)


def difference_coverage(paired: bool, factor: float, shape: Shape) -> dict[str, tuple[int, int]]:
    """As `coverage`, of the difference between a run and one that is slower by `factor`."""
    counted: dict[str, list[int]] = {}
    for found in comparisons(shape, TRIALS, paired, factor):
        for one in found.differences:
            if one.ci95 is not None:
                counts = counted.setdefault(one.figure, [0, 0])
                counts[0] += one.ci95[0] <= (factor - 1) * truth_ms(int(one.figure[1:])) <= one.ci95[1]
                counts[1] += 1
    return {figure: (held, given) for figure, (held, given) in counted.items()}


def same(paired: bool, shape: Shape) -> int:
    """Of `PAIRS` comparisons of A with A, those that show no difference at p50."""
    return sum(found.differences[0].shown is False for found in comparisons(shape, PAIRS, paired))


def _told(counted: dict[str, tuple[int, int]]) -> str:
    cells = []
    for figure, (held, given) in counted.items():
        cells.append(f"{figure} {100 * held / given:5.1f} %" if given else f"{figure} withheld")
        if 0 < given < TRIALS:
            cells[-1] += f" (given in {given})"
    return "   ".join(cells)


def _judge(title: str, figures: Callable[[Shape], tuple[bool, str]]) -> bool:
    click.echo(title)
    met = True
    for shape in SHAPES:
        good, line = figures(shape)
        met = met and good
        click.echo(f"  {shape}: {line}{'' if good else '   MISSED'}")
    return met


def _covered(count: Callable[[Shape], dict[str, tuple[int, int]]], shape: Shape) -> tuple[bool, str]:
    counted = count(shape)
    held, given = counted["p50"]
    low, high = COVERAGE_PERCENT
    return given > 0 and low <= 100 * held / given <= high, _told(counted)


def _same(paired: bool, shape: Shape) -> tuple[bool, str]:
    said = same(paired, shape)
    return said >= NO_DIFFERENCE, f'"no difference shown" in {said} of {PAIRS}'


def _searches(place: Path) -> bool:
    click.echo(f"SLO search against a server of k places, {SERVICE_MS / 1000:g} s each (goal: k ± 1)")
    met = True
    for k in PLACES:
        found = searched(k, place / f"search-{k}")
        good = abs(found - k) <= 1
        met = met and good
        click.echo(f"  k = {k:2}: found {found:2}{'' if good else '   MISSED'}")
    return met


def _queues(place: Path) -> bool:
    k, dialogues = PLACES[0], QUEUED
    click.echo(
        f"Closed loop of {k} sessions beside open loop at {DEMAND:g} × what {k} places hold, {dialogues} dialogues\n"
        f"(goal: every wait within {QUEUE_ERROR_MS:g} ms of the truth, and p95 at least twice that of closed loop)\n"
        f"  {'milliseconds':48}{'p50':>9}{'p95':>9}{'max':>9}"
    )
    met = True
    for title, hold in (("callers wait for a place", callers_queue), ("requests wait for a place", requests_queue)):
        found = hold(k, dialogues, place / title.partition(" ")[0])
        shown, hidden = found.open.waited_ms(), found.closed.waited_ms()
        click.echo(f"  {title}")
        click.echo(f"    {'closed loop, voice-to-voice':46}{percentiles(hidden)}")
        click.echo(f"    {'open loop, voice-to-voice':46}{percentiles(found.open.latency_ms)}")
        click.echo(f"    {'open loop, start delay':46}{percentiles(found.open.start_delay_ms)}")
        click.echo(f"    {'open loop, both: what a caller waits':46}{percentiles(shown)}")
        click.echo(f"    {'truth, from arrivals and places alone':46}{percentiles(found.true_ms)}")
        good = found.error_ms <= QUEUE_ERROR_MS and np.percentile(shown, 95) >= 2 * np.percentile(hidden, 95)
        met = met and bool(good)
        click.echo(f"    largest error of a wait: {found.error_ms:.6f} ms{'' if good else '   MISSED'}")
    return met


@click.command()
def main() -> None:
    """Print every figure, and whether the goals are met."""
    low, high = COVERAGE_PERCENT
    goal = f"{TRIALS} trials; goal for p50: {low:g} to {high:g} %"
    title = f"95 % intervals of one run that hold the truth ({goal})"
    results = [_judge(title, partial(_covered, coverage))]
    for paired in (True, False):
        kind = "paired" if paired else "clustered"
        for factor in (1.0, 1.25):
            title = f"95 % intervals of the difference, {kind}, B {factor:g} × A, that hold the truth ({goal})"
            results.append(_judge(title, partial(_covered, partial(difference_coverage, paired, factor))))
        results.append(_judge(f"A against A, {kind} (goal: at least {NO_DIFFERENCE})", partial(_same, paired)))
    with tempfile.TemporaryDirectory(prefix="duologue-honesty-") as scratch:
        results += [_searches(Path(scratch)), _queues(Path(scratch))]
    click.echo("PASS" if all(results) else "MISSED")
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
