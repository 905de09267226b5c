"""`heard_again`: replies of a dialogue that were heard as just what was heard of the turn before.

A recogniser may hand out its last answer again where it hears nothing. Where both replies have the same text, it is
what was said.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final

from metrics.result import Failed, Unavailable, Value
from metrics.scoring import Figure, Metric, Options, Sample, Score
from metrics.text.heard import heard
from metrics.transcript import Transcript

METRIC: Final = Metric(
    name="heard_again",
    version="1",
    purpose="transcripts that are the same as the turn before's, which a recogniser may have made up",
    figures=(
        Figure(
            "heard_again", "%", "lower", "heard again", "turns with the transcript of the turn before, but another text"
        ),
    ),
    derive="metrics.text.heard_again:derive",
    needs=("asr",),
    of_groups=True,
    reads=("text",),
)

_Turn = tuple[Sample, Transcript | Unavailable | Failed]


def derive(samples: Sequence[Sample], outputs: Sequence[Mapping[str, Score]], options: Options) -> Sequence[Score]:
    """One group, in order."""
    turns = [(sample, heard(scores)) for sample, scores in zip(samples, outputs, strict=True)]
    first = METRIC.nothing(Unavailable("no turn comes before it"))
    return [first, *(_score(before, now) for before, now in pairwise(turns))]


def _score(before: _Turn, now: _Turn) -> Score:
    (sample_before, heard_before), (sample, heard_now) = before, now
    if not isinstance(heard_now, Transcript):
        return METRIC.nothing(heard_now)
    said = sample.text is not None and sample.text == sample_before.text
    if said or not heard_now.text or not isinstance(heard_before, Transcript) or heard_now.text != heard_before.text:
        return Score({"heard_again": Value(0.0)})
    return Score({"heard_again": Value(100.0)}, ["same transcript as the turn before"])
