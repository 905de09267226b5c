"""The metrics that are measured, and their weights: real ones where they ship, seeded stand-ins of full size else."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from harness.score.table import metric as known_metric
from metrics.scoring import Metric, Options, Piece, Score, Scorer

STAND_IN = "utmos_stand_in"
"""UTMOS22-strong with weights from a seeded recipe: as large and as slow as the real ones, and without sense."""


@dataclass(frozen=True, slots=True)
class _Unchecked:
    """A scorer whose self-check is left out: no sense can be asked of random weights."""

    scorer: Scorer

    def check(self) -> str:
        return ""

    def score(self, pieces: Sequence[Piece]) -> Sequence[Score]:
        return self.scorer.score(pieces)


def stand_in(options: Options) -> Scorer:
    from metrics.speech_quality.utmos.scorer import make

    return _Unchecked(make(options))


def find(name: str) -> Metric:
    """A metric by name, the stand-in among them."""
    if name == STAND_IN:
        return replace(known_metric("utmos"), name=STAND_IN, make="benchmarks.scoring.measured:stand_in")
    return known_metric(name)


def options_for(names: list[str], folder: Path) -> dict[str, dict[str, str]]:
    """Options by metric. folder: where the stand-in's weights are, or are made."""
    if STAND_IN not in names:
        return {}
    path = folder / "stand-in.pt"
    if not path.exists():
        import torch

        from tests.scoring.utmos_recipe import state

        torch.save(state(), path)
    return {STAND_IN: {"weights": str(path)}}
