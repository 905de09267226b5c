"""Which of a metric's lines count in its figures: one per sample of this scoring, all made with the same settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from harness.score.engine import ScoreStore
from metrics.result import Value
from metrics.scoring import Metric, Sample, ScoreLine

NOT_SCORED = "not scored yet with these settings"
Samples = Callable[[], Iterable[Sample]]
"""The samples of a scoring, the same ones at each call."""


@dataclass(frozen=True, slots=True)
class Settings:
    """With what the scores of a metric were made."""

    version: str
    options: dict[str, str]
    identity: dict[str, str]

    @classmethod
    def of(cls, line: ScoreLine) -> Settings:
        return cls(line.metric_version, line.options, line.identity)


def settings_of(store: ScoreStore, name: str, options: dict[str, str] | None = None) -> Settings | None:
    """Those of the last line; one with a value says more than one that was never scored. None without lines.

    options: those that were asked for now; lines with others do not count.
    """
    last: Settings | None = None
    with_value = False
    for line in store.lines(name):
        if options is not None and line.options != options:
            continue
        has_value = any(isinstance(figure, Value) for figure in line.score.figures.values())
        if has_value or not with_value:
            last, with_value = Settings.of(line), has_value or with_value
    return last


def counted(store: ScoreStore, metric: Metric, settings: Settings, samples: Samples) -> Iterator[ScoreLine]:
    """One line per sample: those of the store, then for samples that it has none of, lines that say so."""
    missing = {sample.id for sample in samples()}
    for line in store.lines(metric.name):
        if line.sample in missing and counts(line, settings):
            missing.discard(line.sample)
            yield line
    if missing:
        for sample in samples():
            if sample.id in missing:
                yield _not_scored(metric, settings, sample)


def counts(line: ScoreLine, settings: Settings) -> bool:
    """Whether it was made with these settings. Without any value it may have been made where the model was not to be
    had, so without its identity."""
    if (line.metric_version, line.options) != (settings.version, settings.options):
        return False
    return line.identity == settings.identity or not any(isinstance(f, Value) for f in line.score.figures.values())


def _not_scored(metric: Metric, settings: Settings, sample: Sample) -> ScoreLine:
    return ScoreLine(
        key="",
        sample=sample.id,
        metric=metric.name,
        metric_version=settings.version,
        score=metric.nothing(sample.unavailable or NOT_SCORED),
        group=sample.group,
        order=sample.order,
        language=sample.language,
    )
