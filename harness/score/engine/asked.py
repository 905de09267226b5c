"""What is asked of the engine: which metrics with which options, what it may use, and who watches."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from harness.score.table import metric as known_metric
from metrics.scoring import Metric, ScoreLine
from sessions.errors import SetupError

_MIB = 1 << 20
_MOST_READERS = 8


@dataclass(frozen=True, slots=True)
class Chosen:
    """A metric with all of its options. Its scores stand in scores/<name of the metric>.jsonl."""

    metric: Metric
    options: dict[str, str]

    @property
    def name(self) -> str:
        return self.metric.name


@dataclass(frozen=True, slots=True)
class Resources:
    """What the engine may use; every default suits the machine that it runs on.

    device: that models run on, "cpu", "cuda" or "mps" · decoders: processes that read files, 0: by the cores ·
    threads: of each scorer, 0: its share of the cores · memory_bytes: of decoded sound that waits to be scored ·
    worker_python: environment → the python that runs its metrics, before the places where one is looked for ·
    silent_s: how long a worker may be silent over a batch, beside `silent_per_s` for each second of sound in it ·
    load_s: how long a model may take to load · spool: where decoded sound waits, "" for memory where there is room.
    """

    device: str = "cpu"
    decoders: int = 0
    threads: int = 0
    memory_bytes: int = 256 * _MIB
    worker_python: Mapping[str, str] = field(default_factory=dict)
    silent_s: float = 120.0
    silent_per_s: float = 5.0
    load_s: float = 600.0
    spool: str = ""

    @property
    def cores(self) -> int:
        return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1

    @property
    def readers(self) -> int:
        return self.decoders or min(_MOST_READERS, max(1, self.cores // 2))

    def threads_of(self, scorers: int) -> int:
        """Threads of each of so many scorers: twice its share of the cores, so that none is idle while others wait for
        sounds or are done. Waiting threads do not spin, so that too many cost little."""
        return self.threads or max(1, min(self.cores, 2 * self.cores // max(1, scorers)))


class Watcher(Protocol):
    """Is told how scoring goes, in the process and the thread that called."""

    def metric_begins(self, name: str, total: int | None) -> None:
        """Once per metric, hidden ones too. total: samples that it will have a line of, None where nobody knows yet."""

    def scored(self, name: str, line: ScoreLine) -> None:
        """A new line of this metric is in the store."""

    def kept(self, name: str) -> None:
        """One sample's score was there already, from an earlier scoring."""

    def remark(self, text: str) -> None:
        """Something that people should know, told once (a worker died, a metric cannot be had)."""


def chosen_with_needs(
    names: Iterable[str],
    options: Mapping[str, Mapping[str, str]] | None = None,
    *,
    find: Callable[[str], Metric] = known_metric,
) -> tuple[Chosen, ...]:
    """Those metrics and all that they need, each once, what is needed first.

    options: by metric, those that differ from the defaults. Raises `SetupError` for an unknown metric or option, and
    for a value that is no choice of it.
    """
    given = dict(options or {})
    found: dict[str, Chosen] = {}

    def add(name: str, above: tuple[str, ...]) -> None:
        if name in found:
            return
        if name in above:
            raise ValueError(f"metrics need each other: {' → '.join((*above, name))}")
        metric = find(name)
        for needed in metric.needs:
            add(needed, (*above, name))
        found[name] = Chosen(metric, settled(metric, given.get(name, {})))

    for name in names:
        add(name, ())
    for name in given:
        find(name)
        if name not in found:
            raise SetupError(f"options are given for {name}, which is not scored", f"Add {name} to the metrics")
    return tuple(found.values())


def settled(metric: Metric, given: Mapping[str, str]) -> dict[str, str]:
    """Every option of a metric, as given or by default. Raises `SetupError` for what it does not have."""
    known = {option.name: option for option in metric.options}
    for name, value in given.items():
        if name not in known:
            has = f"It has: {', '.join(known)}" if known else "It has none"
            raise SetupError(f"the metric {metric.name} has no option {name!r}", has)
        choices = known[name].choices
        if choices and value not in choices:
            raise SetupError(f"{metric.name}.{name} cannot be {value!r}", f"Choose one of {', '.join(choices)}")
    return {name: given.get(name, option.default) for name, option in known.items()}
