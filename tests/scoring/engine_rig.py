"""What the engine's tests share: sounds, a watcher that remembers, and one call that scores."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import soundfile

from harness.score.engine import Resources, ScoreStore, chosen_with_needs, score_samples
from metrics.result import Failed, Measured, Unavailable, Value
from metrics.scoring import Metric, Sample, ScoreLine
from tests.scoring.engine_metrics import ALL, LOG

RATE_HZ = 16_000
QUICK = Resources(threads=1, decoders=1, silent_s=60)


@dataclass
class Memory:
    """A watcher. lines: new ones, by metric · kept: how many were there already, by metric."""

    totals: dict[str, int | None] = field(default_factory=dict)
    lines: dict[str, list[ScoreLine]] = field(default_factory=dict)
    kept_: dict[str, int] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    def metric_begins(self, name: str, total: int | None) -> None:
        self.totals[name] = total

    def scored(self, name: str, line: ScoreLine) -> None:
        self.lines.setdefault(name, []).append(line)

    def kept(self, name: str) -> None:
        self.kept_[name] = self.kept_.get(name, 0) + 1

    def remark(self, text: str) -> None:
        self.remarks.append(text)


def sound(path: Path, peak: float, seconds: float = 0.2, rate_hz: int = RATE_HZ) -> Path:
    """A tone of 440 Hz whose largest sample is near `peak`, as float."""
    path.parent.mkdir(parents=True, exist_ok=True)
    wave = peak * np.cos(2 * np.pi * 440 * np.arange(int(seconds * rate_hz)) / rate_hz)
    soundfile.write(path, wave.astype(np.float32), rate_hz, subtype="FLOAT")
    return path


def sounds(folder: Path, texts: Sequence[str | None], **fields: str) -> list[Sample]:
    """One sound per text, each of another loudness and content: 0.01, 0.02 …"""
    return [
        Sample(f"s{k}", str(sound(folder / f"s{k}.wav", 0.01 * (k + 1))), text=text, order=k, **fields)  # type: ignore[arg-type]
        for k, text in enumerate(texts)
    ]


def score(
    samples: Iterable[Sample],
    names: Sequence[str],
    folder: Path,
    *,
    resources: Resources = QUICK,
    options: Mapping[str, Mapping[str, str]] | None = None,
    metrics: Mapping[str, Metric] = ALL,
    memory: Memory | None = None,
) -> Memory:
    memory = memory or Memory()
    store = ScoreStore(folder)
    with store.writing():
        chosen = chosen_with_needs(names, options, find=metrics.__getitem__)
        score_samples(samples, chosen, store, watcher=memory, resources=resources)
    return memory


def figures(folder: Path, metric: str, figure: str = "") -> dict[str, Measured]:
    """What counts, by sample."""
    return {line.sample: line.score.figures[figure or metric] for line in ScoreStore(folder).lines(metric)}


def told(measured: Measured) -> float | str:
    match measured:
        case Value(value):
            return round(value, 4)
        case Unavailable(because):
            return f"unavailable because {because}"
        case Failed(error):
            return f"error: {error}"


def log() -> list[str]:
    """What was really done, in order."""
    path = Path(os.environ[LOG])
    return path.read_text().splitlines() if path.exists() else []


def scorings() -> list[str]:
    """Samples that were really scored."""
    return [line for line in log() if line not in {"loaded", "tried to load"} and " " not in line]
