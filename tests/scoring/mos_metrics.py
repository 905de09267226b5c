"""Scorers that stand for models of opinion where only what they are handed is of interest. Run by worker processes."""

from __future__ import annotations

from collections.abc import Sequence

from metrics.result import Value
from metrics.scoring import Options, Piece, Score


class RateHeard:
    """Gives the rate of the sound that it is handed as the figure `utmos`."""

    def check(self) -> str:
        return ""

    def score(self, pieces: Sequence[Piece]) -> list[Score]:
        return [Score({"utmos": Value(float(piece.rate_hz))}) for piece in pieces]


def make_rate_heard(options: Options) -> RateHeard:
    return RateHeard()
