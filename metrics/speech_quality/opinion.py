"""What every model of opinion (MOS) shares: what it is not asked about, what is said beside its figures, a self-check.

A model is a `Listener`: sounds in, figures out. `MosScorer` makes a scorer of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from metrics.result import Failed, Measured, Value
from metrics.scoring import FloatPcm, Metric, Piece, Score
from metrics.speech_quality.known_pair import known_pair

SHORTEST_S = 0.2
"""Below it no model has been shown anything: its answer would be made up."""
_SHORT_S = 1.0
SILENCE_DBFS = -60.0
_BLOCKS_PER_S = 50
_BLOCKS_AT_ONCE = 4096
_WRONG_SCALE = 2.0


@dataclass(frozen=True, slots=True)
class Opinion:
    """What a model says of one sound. figures: by the metric's figure names · flags, details: as in `Score`."""

    figures: Mapping[str, float]
    flags: Sequence[str] = ()
    details: Mapping[str, Any] = field(default_factory=dict)


class Listener(Protocol):
    """A loaded model."""

    def listen(self, sounds: Sequence[FloatPcm], rates_hz: Sequence[int]) -> Sequence[Opinion]:
        """One opinion per sound, in order; the same as each alone would get. sounds: float32 (n,) within −1 … 1."""


def not_judged(samples: FloatPcm, rate_hz: int) -> str:
    """Why a model is not asked about this sound; "" where it is.

    Silent is what has no 20 ms block louder than −60 dBFS (standard deviation, so that an offset is not sound). A peak
    of more than twice full scale is no overshoot of a resampler but a wrong scale, integers taken for floats.
    """
    seconds = len(samples) / rate_hz
    if seconds < SHORTEST_S:
        return f"too short: under {SHORTEST_S:.1f} s"  # one reason in a table, however short each is
    if why := wrong_scale(samples):
        return why
    if loudest_dbfs(samples, rate_hz) < SILENCE_DBFS:
        return f"silence: nothing is louder than {SILENCE_DBFS:.0f} dBFS"
    return ""


def wrong_scale(samples: FloatPcm) -> str:
    """Why these are no samples of full scale 1; "" where they may be."""
    peak = peak_of(samples)
    return f"wrong scale: the peak is {peak:.6g}, full scale is 1" if peak > _WRONG_SCALE else ""


def within_full_scale(samples: FloatPcm) -> FloatPcm:
    """The same array where nothing of it overshoots, else a clipped copy."""
    return samples if peak_of(samples) <= 1 else np.clip(samples, -1.0, 1.0)


def peak_of(samples: FloatPcm) -> float:
    return max(float(samples.max()), -float(samples.min()))


def loudest_dbfs(samples: FloatPcm, rate_hz: int) -> float:
    """Level of the loudest 20 ms block by its standard deviation; -inf for digital silence."""
    block = max(1, rate_hz // _BLOCKS_PER_S)
    whole = len(samples) // block * block
    loudest = float(samples.std()) if not whole else 0.0
    for start in range(0, whole, block * _BLOCKS_AT_ONCE):  # an hour at once would be copied
        stretch = samples[start : min(start + block * _BLOCKS_AT_ONCE, whole)]
        loudest = max(loudest, float(stretch.reshape(-1, block).std(axis=1).max()))
    return 20 * math.log10(loudest) if loudest > 0 else -math.inf


@dataclass(frozen=True, slots=True)
class MosScorer:
    """The scorer of a metric whose figures come from a `Listener`.

    headline, margin: the self-check asks that this figure of clean speech lies at least so far above that of the same
    speech under noise as loud as itself.
    """

    metric: Metric
    listener: Listener
    headline: str
    margin: float

    def check(self) -> str:
        clean, noisy = known_pair()
        of_clean, of_noisy = self.listener.listen([clean.samples, noisy.samples], [clean.rate_hz, noisy.rate_hz])
        high, low = of_clean.figures[self.headline], of_noisy.figures[self.headline]
        if high - low >= self.margin:  # false for nan, too
            return ""
        return (
            f"clean speech gets {high:.2f}, the same under noise at 0 dB {low:.2f}; "
            f"they must be at least {self.margin:g} apart"
        )

    def score(self, pieces: Sequence[Piece]) -> list[Score]:
        refusals = [not_judged(piece.samples, piece.rate_hz) for piece in pieces]
        asked = [piece for piece, refusal in zip(pieces, refusals, strict=True) if not refusal]
        sounds = [within_full_scale(piece.samples) for piece in asked]
        opinions = iter(self.listener.listen(sounds, [piece.rate_hz for piece in asked]) if asked else ())
        return [
            self.metric.nothing(refusal) if refusal else self._score(piece, next(opinions))
            for piece, refusal in zip(pieces, refusals, strict=True)
        ]

    def _score(self, piece: Piece, opinion: Opinion) -> Score:
        flags = [f"short: {piece.duration_s:.2f} s"] if piece.duration_s < _SHORT_S else []
        figures = {figure.name: _measured(opinion.figures[figure.name]) for figure in self.metric.figures}
        return Score(figures, [*flags, *opinion.flags], dict(opinion.details))


def _measured(value: float) -> Measured:
    return Value(float(value)) if math.isfinite(value) else Failed(f"the model gave {value}")
