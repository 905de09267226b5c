"""The seam between metrics of speech and the engine that runs them: what is scored, and what a score is."""

from metrics.scoring.line import Aggregate, ScoreLine, key_of
from metrics.scoring.metric import Direction, Figure, Metric, Option, Options, Score, Scorer, passed_on
from metrics.scoring.sample import FloatPcm, Piece, Sample

__all__ = [
    "Aggregate",
    "Direction",
    "Figure",
    "FloatPcm",
    "Metric",
    "Option",
    "Options",
    "Piece",
    "Sample",
    "Score",
    "ScoreLine",
    "Scorer",
    "key_of",
    "passed_on",
]
