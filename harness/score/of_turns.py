"""Every figure of every sample, from the lines that a summary was made of: for the page, which shows each turn."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from harness.score.counted import counts
from harness.score.engine import ScoreStore
from harness.score.summary import Scores
from metrics.result import Measured


@dataclass(slots=True)
class SampleScores:
    """One sample. figures: by name · flags: of all metrics, each once."""

    id: str
    group: str
    order: int
    figures: dict[str, Measured] = field(default_factory=dict)
    flags: list[str] = field(default_factory=list)


def scores_by_sample(folder: Path, scores: Scores) -> list[SampleScores]:
    """In order of the groups. folder: of the scores. Raises `BadFile` for a line that cannot be read."""
    store = ScoreStore(folder)
    found: dict[str, SampleScores] = {}
    for name, of_metric in scores.metrics.items():
        made = {**of_metric.needs, name: of_metric.made}
        for line in store.lines(name):
            if counts(store, line, made):
                one = found.setdefault(line.sample, SampleScores(line.sample, line.group, line.order))
                one.figures.update(line.score.figures)
                one.flags += [flag for flag in line.score.flags if flag not in one.flags]
    return sorted(found.values(), key=lambda one: (one.group, one.order, one.id))
