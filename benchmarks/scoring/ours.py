"""One arm, a process of its own: the engine over folders of sounds.

python -m benchmarks.scoring.ours WEIGHTS SCORES METRIC,METRIC FOLDER …
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from pathlib import Path

import msgspec

from benchmarks.scoring.measured import find, options_for
from benchmarks.scoring.memory import cpu_ns
from harness.score.engine import Resources, ScoreStore, chosen_with_needs, score_samples
from metrics.scoring import Sample, ScoreLine
from sessions.clock import MonotonicClock


class Report(msgspec.Struct):
    """When each score came, by metric: the instant, and the CPU time of all processes until then."""

    stamps_ns: dict[str, list[int]]
    cpu_ns: dict[str, list[int]]


class _Stamps:
    def __init__(self) -> None:
        self.clock = MonotonicClock()
        self.by_metric: dict[str, list[int]] = defaultdict(list)
        self.cpu: dict[str, list[int]] = defaultdict(list)

    def metric_begins(self, name: str, total: int | None) -> None:
        """Nothing is to be stamped."""

    def scored(self, name: str, line: ScoreLine) -> None:
        self.by_metric[name].append(self.clock.now_ns())
        self.cpu[name].append(cpu_ns(os.getpid()))

    def kept(self, name: str) -> None:
        raise RuntimeError("there were scores before")

    def remark(self, text: str) -> None:
        sys.stderr.write(f"{text}\n")


def samples_of(folders: list[Path]) -> list[Sample]:
    files = [path for folder in folders for path in sorted(folder.iterdir())]
    return [Sample(f"{path.parent.name}/{path.name}", str(path), language="en") for path in files]


def main() -> None:
    weights, scores, names, *folders = sys.argv[1:]
    asked = names.split(",")
    chosen = chosen_with_needs(asked, options_for(asked, Path(weights)), find=find)
    stamps, store = _Stamps(), ScoreStore(Path(scores))
    with store.writing():
        samples = samples_of([Path(folder) for folder in folders])
        score_samples(samples, chosen, store, watcher=stamps, resources=Resources())
    report = Report(stamps.by_metric, stamps.cpu)
    sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")


if __name__ == "__main__":
    main()
