"""`voice`: whether a dialogue keeps its voice, and whether it is the one that it should be.

Similarity is the cosine of two embeddings. A turn is compared with the first turn, with the mean of all the other turns
of its dialogue, and with the reference where one is named.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from metrics.result import Measured, Unavailable, Value
from metrics.scoring import Figure, Metric, Options, Sample, Score
from metrics.voice.calibration import Line, line_for

DRIFT_TURNS = 4
"""Fewer turns have no trend."""
_FORMULA = "cosine of GE2E embeddings (arXiv:1710.10467)"

METRIC = Metric(
    name="voice",
    version="2",
    purpose="voice identity: likeness to the first turn, to the other turns and to a reference, drift, wrong voice",
    figures=(
        Figure("to_first", "", "higher", "Voice as in the first turn", f"{_FORMULA}, with the dialogue's first"),
        Figure("to_others", "", "higher", "Voice as in the other turns", f"{_FORMULA}, with the mean of the others"),
        Figure("to_reference", "", "higher", "Voice as in the reference", f"{_FORMULA}, with reference_audio"),
        Figure("drift", "per turn", "none", "Drift of the voice", "slope of to_first over turns after the first"),
        Figure("wrong_voice", "%", "lower", "Wrong voice", "turns whose likeness is below the line (0.70 to 0.80)"),
    ),
    derive="metrics.voice.identity:derive",
    needs=("voice_embedding",),
    of_groups=True,
    reads=(),
    extra="score",
)

Vector = NDArray[np.float64]


@dataclass(slots=True)
class _Turn:
    """seconds, reference_s: of speech."""

    sample: Sample
    own: Vector
    seconds: float
    reference: Vector | None = None
    reference_s: float = 0.0
    no_reference: str = "no reference voice is named"


def derive(samples: Sequence[Sample], outputs: Sequence[Mapping[str, Score]], options: Options) -> Sequence[Score]:
    """Those turns of one group that have a voice, in order."""
    turns = [_turn(sample, output["voice_embedding"]) for sample, output in zip(samples, outputs, strict=True)]
    trend = _drift(turns)
    elsewhere = Unavailable("told once, at the last turn of the dialogue") if isinstance(trend, Value) else trend
    return [_score(turn, turns, trend if turn is turns[-1] else elsewhere) for turn in turns]


def _turn(sample: Sample, score: Score) -> _Turn:
    voiced = score.figures["voiced"]
    assert isinstance(voiced, Value)
    turn = _Turn(sample, _unit(np.asarray(score.details["embedding"], dtype=np.float64)), voiced.value)
    if "reference" in score.details:
        turn.reference_s = float(score.details.get("reference_s", 0.0))
        turn.reference = _unit(np.asarray(score.details["reference"], dtype=np.float64))
    turn.no_reference = score.details.get("no_reference", turn.no_reference)
    return turn


def _score(turn: _Turn, turns: list[_Turn], drift: Measured) -> Score:
    figures: dict[str, Measured] = {
        "to_first": _to_first(turn, turns[0]),
        "to_others": _to_others(turn, turns),
        "to_reference": Unavailable(turn.no_reference)
        if turn.reference is None
        else Value(float(turn.own @ turn.reference)),
        "drift": drift,
    }
    others = [other.seconds for other in turns if other is not turn]
    compared = (("to_reference", 1, turn.reference_s), ("to_others", len(others), sum(others) / max(len(others), 1)))
    for name, number, seconds in compared:
        if isinstance(likeness := figures[name], Value):
            line = line_for(number, min(turn.seconds, seconds))
            wrong = likeness.value < line.below
            flags = [_wrong(name, likeness.value, line)] if wrong else []
            return Score({**figures, "wrong_voice": Value(100.0 if wrong else 0.0)}, flags)
    return Score({**figures, "wrong_voice": Unavailable("neither a reference nor other turns to compare with")})


def _to_first(turn: _Turn, first: _Turn) -> Measured:
    if not turn.sample.group:
        return Unavailable("belongs to no dialogue")
    if turn is first:
        return Unavailable("it is the turn that the others are compared with")
    return Value(float(turn.own @ first.own))


def _to_others(turn: _Turn, turns: list[_Turn]) -> Measured:
    if not turn.sample.group:
        return Unavailable("belongs to no dialogue")
    others = [other.own for other in turns if other is not turn]
    if not others:
        return Unavailable("no other turn of the dialogue has a voice to compare with")
    return Value(float(turn.own @ _unit(np.sum(others, axis=0))))


def _drift(turns: list[_Turn]) -> Measured:
    """The least-squares slope of likeness to the first turn against the turn's number in its dialogue, where turns
    without a voice count too."""
    first, *later = turns
    if not first.sample.group:
        return Unavailable("belongs to no dialogue")
    if len(turns) < DRIFT_TURNS:
        return Unavailable("fewer than four turns with a voice")
    numbers = np.array([turn.sample.order for turn in later], dtype=np.float64)
    likeness = np.array([float(turn.own @ first.own) for turn in later])
    centred = numbers - numbers.mean()
    return Value(float(centred @ (likeness - likeness.mean()) / (centred @ centred)))


def _wrong(compared_with: str, likeness: float, line: Line) -> str:
    with_whom = "the reference" if compared_with == "to_reference" else "the other turns"
    return (
        f"wrong-voice: {likeness:.2f} to {with_whom}, below {line.below:.2f} (of turns in the same voice "
        f"{line.same_below} % are, of those in another {line.other_above} % are not)"
    )


def _unit(vector: Vector) -> Vector:
    return vector / max(float(np.linalg.norm(vector)), 1e-12)
