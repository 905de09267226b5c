"""Figures over many samples that are no mean of theirs: made of sums, by group and by language."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from metrics.result import Failed, Unavailable
from metrics.scoring import Aggregate, Figure, ScoreLine
from metrics.stats import NEEDED_DIALOGUES

Sums = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class CorpusFigure:
    """figure: what it is called, over the corpus · of: the figure of a sample that says whether it counts · parts: what
    a line adds · value: of the summed parts (n,) · interval: 95 %, of the parts by group (groups, n), groups resampled;
    None where there is none."""

    figure: Figure
    of: str
    parts: Callable[[ScoreLine], Sequence[int]]
    value: Callable[[Sums], float | None]
    interval: Callable[[Sums], tuple[float, float] | None]


class _Tally:
    """What the lines of one language add up to."""

    def __init__(self) -> None:
        self.groups: dict[str, Sums] = {}
        self.used = 0
        self.unavailable, self.errors = Counter[str](), Counter[str]()


def corpus(figures: Sequence[CorpusFigure], lines: Iterable[ScoreLine]) -> list[Aggregate]:
    """Each over all samples, and by language where there are several. Nothing where no sample counts."""
    tallies: list[dict[str, _Tally]] = [defaultdict(_Tally) for _ in figures]
    languages = set()
    for line in lines:
        languages.add(line.language)
        for figure, of_figure in zip(figures, tallies, strict=True):
            for language in {"", line.language}:
                _take(of_figure[language], figure, line)
    several = len(languages) > 1
    return [
        _aggregate(figure, tally, language)
        for figure, of_figure in zip(figures, tallies, strict=True)
        for language, tally in sorted(of_figure.items())
        if tally.used and (several or not language)
    ]


def _take(tally: _Tally, figure: CorpusFigure, line: ScoreLine) -> None:
    measured = line.score.figures.get(figure.of, Unavailable("not given"))
    if isinstance(measured, Unavailable):
        tally.unavailable[measured.because] += 1
    elif isinstance(measured, Failed):
        tally.errors[measured.error] += 1
    else:
        tally.used += 1
        parts = np.asarray(figure.parts(line), dtype=np.int64)
        group = line.group or f"\0{line.sample}"
        tally.groups[group] = tally.groups[group] + parts if group in tally.groups else parts


def _aggregate(figure: CorpusFigure, tally: _Tally, language: str) -> Aggregate:
    groups = np.array([tally.groups[name] for name in sorted(tally.groups)])
    enough = len(groups) >= NEEDED_DIALOGUES
    return Aggregate(
        figure=figure.figure.name,
        title=figure.figure.title,
        unit=figure.figure.unit,
        direction=figure.figure.direction,
        value=figure.value(groups.sum(axis=0)),
        used=tally.used,
        skipped=tally.unavailable.total(),
        failed=tally.errors.total(),
        ci95=figure.interval(groups) if enough else None,
        no_ci95="" if enough else f"needs {NEEDED_DIALOGUES} dialogues or folders, has {len(groups)}",
        language=language,
        unavailable=dict(tally.unavailable.most_common()),
        errors=dict(tally.errors.most_common()),
    )
