"""From the lines of one metric to its figures over many samples: means, intervals, and why values are missing."""

from __future__ import annotations

import importlib
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, cast

import msgspec

from metrics.result import Failed, Measured, Unavailable, Value
from metrics.scoring import Aggregate, Figure, Metric, ScoreLine
from metrics.stats import NEEDED_DIALOGUES, ratio_interval

REASONS_AT_MOST: Final = 20
"""Different reasons that are kept apart; a reason with particulars in it could be another one for each sample."""
OTHER_REASONS: Final = "other reasons"
UNUSABLE_FILES: Final = "files that cannot be used"
"""The reason of each of them: what is wrong with which is told once, not with every figure."""
_UNUSABLE: Final = re.compile(r"(?:\w+ failed: )*(cannot use .*)", re.DOTALL)
"""What the reader of sounds says of a file, passed on from metric to metric."""

Summarise = Callable[[Iterable[ScoreLine]], list[Aggregate]]


def aggregate(metric: Metric, lines: Callable[[], Iterable[ScoreLine]]) -> list[Aggregate]:
    """Each figure over all samples, and where they have several languages over those of each.

    lines: the same lines at each call, one per sample, so that none of them need be held. What the metric's own
    `summarise` gives comes first; a figure that it has already is not averaged as well. Reasons are bounded (`told`).
    """
    own: list[Aggregate] = []
    if metric.summarise:
        module, _, name = metric.summarise.partition(":")
        own = [_bounded(one) for one in cast(Summarise, getattr(importlib.import_module(module), name))(lines())]
    summed = {one.figure for one in own}
    figures = [figure for figure in metric.figures if figure.name not in summed]
    return [*own, *_means(figures, lines())]


def _bounded(one: Aggregate) -> Aggregate:
    return msgspec.structs.replace(one, unavailable=told(one.unavailable), errors=told(one.errors))


@dataclass(slots=True)
class _Gathered:
    """values: by group, so that samples of one group are resampled together."""

    values: dict[str, list[float]] = field(default_factory=dict)
    unavailable: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)

    def take(self, measured: Measured, group: str) -> None:
        match measured:
            case Value(value) if not math.isfinite(value):
                self.errors["not a finite number"] += 1
            case Value(value):
                self.values.setdefault(group, []).append(value)
            case Unavailable(because):
                self.unavailable[because] += 1
            case Failed(error):
                self.errors[UNUSABLE_FILES if unusable(error) else error] += 1


def _means(figures: list[Figure], lines: Iterable[ScoreLine]) -> list[Aggregate]:
    gathered: dict[str, dict[str, _Gathered]] = {figure.name: {"": _Gathered()} for figure in figures}
    languages: set[str] = set()
    for line in lines:
        languages.add(line.language)
        for figure in figures:
            measured = line.score.figures.get(figure.name, Unavailable("not given"))
            # Those of no language are in none of the languages' means, but in that of all.
            for language in {"", line.language}:
                kept = gathered[figure.name].setdefault(language, _Gathered())
                kept.take(measured, line.group or f"\0{line.sample}")
    several = len(languages) > 1
    return [
        _aggregate(figure, language, gathered[figure.name][language])
        for figure in figures
        for language in sorted(gathered[figure.name])
        if not language or several
    ]


def _aggregate(figure: Figure, language: str, gathered: _Gathered) -> Aggregate:
    groups = [(math.fsum(values), float(len(values))) for _, values in sorted(gathered.values.items())]
    used = sum(len(values) for values in gathered.values.values())
    ci95 = ratio_interval(groups)
    return Aggregate(
        figure=figure.name,
        title=figure.title,
        unit=figure.unit,
        direction=figure.direction,
        value=math.fsum(total for total, _ in groups) / used if used else None,
        used=used,
        skipped=gathered.unavailable.total(),
        failed=gathered.errors.total(),
        ci95=ci95,
        no_ci95="" if ci95 else _no_interval(len(groups)),
        language=language,
        unavailable=told(gathered.unavailable),
        errors=told(gathered.errors),
        minimum=min(map(min, gathered.values.values()), default=None),
        maximum=max(map(max, gathered.values.values()), default=None),
    )


def _no_interval(groups: int) -> str:
    """Why there is no 95 % interval."""
    if groups < NEEDED_DIALOGUES:
        return f"needs {NEEDED_DIALOGUES} dialogues or folders, has {groups}" if groups else "no values"
    return "a resample can be without any value"


def told(reasons: Mapping[str, int]) -> dict[str, int]:
    """The most frequent first, the rest put together; files that cannot be used are one reason."""
    found: Counter[str] = Counter()
    for reason, count in reasons.items():
        found[UNUSABLE_FILES if unusable(reason) else reason] += count
    return most_frequent(found)


def most_frequent(counts: Mapping[str, int]) -> dict[str, int]:
    """In order, the rest put together."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    kept = dict(ordered[:REASONS_AT_MOST])
    if len(ordered) > REASONS_AT_MOST:
        kept[OTHER_REASONS] = sum(count for _, count in ordered[REASONS_AT_MOST:])
    return kept


def unusable(error: str) -> str:
    """What is wrong with a file that holds no usable sound, with the mend; "" for any other error."""
    found = _UNUSABLE.fullmatch(error)
    return found[1] if found else ""
