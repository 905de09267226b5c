"""What a metric of speech is: how it is named and told, what it takes, and what it gives for one sample.

There are two kinds. One listens: `make` loads its model, in a process of its own, and the scorer is handed sounds. The
other derives: a pure function of a sample (or of a whole group of them) and of what other metrics gave for it, as word
error rate is of a transcript. Neither aggregates; `summarise` does, over the lines that were kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

import msgspec

from metrics.result import Failed, Measured, Unavailable
from metrics.scoring.sample import Piece

Direction = Literal["higher", "lower", "none"]
Options = Mapping[str, str]
"""By name, as given or by default. All that a score depends on, beside sample, version and identity."""


class Score(msgspec.Struct, frozen=True):
    """What a metric gives for one sample.

    figures: by the figure's name; every figure of the metric is there · flags: remarks for people, each a kind and,
    after a colon, its detail ("out-of-domain: zh") · details: whatever else is kept, for derived metrics and for
    people; JSON types only.
    """

    figures: dict[str, Measured]
    flags: list[str] = []
    details: dict[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of a metric. title: as on screen · direction: which way is better · formula: with its source."""

    name: str
    unit: str
    direction: Direction
    title: str
    formula: str


@dataclass(frozen=True, slots=True)
class Option:
    """A setting of a metric that changes its scores."""

    name: str
    default: str
    help: str
    choices: tuple[str, ...] = ()


class Scorer(Protocol):
    """Loaded, in the process that runs it."""

    def check(self) -> str:
        """Score a built-in pair whose order is known. "" if it came out right, else why this metric is unavailable."""

    def score(self, pieces: Sequence[Piece]) -> Sequence[Score]:
        """One score per piece, in order; the same as each alone would get. Raises what went wrong with the batch."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric of speech, described without loading anything heavy. References are "module:object".

    make: Options -> Scorer, for a metric that listens
    derive: (Sequence[Sample], Sequence[Mapping[str, Score]], Options) -> Sequence[Score], for one that does not; by
        name it is handed the scores of the metrics that it `needs`. It gets one sample at a time, or a whole
        group in order where it is `of_groups`. A sample of which one of those scores has no value has none of this
        metric either, and the same reason; unless it is `without_values`, and handed those scores too
    identify: Options -> dict[str, str], what its scores depend on beside its version: hashes of weights, versions of
        packages. It imports nothing heavy, and raises `MissingExtra` or `MissingWeights` where something is not there
    summarise: Iterable[ScoreLine] -> list[Aggregate]; "" for the mean of each figure
    rate_hz: of the sound that it is handed; None for the file's own · own_rate_with: (option, value) with which it is
        handed the sound at the file's own rate after all; ask `rate_for`
    reads: the fields of a sample that its scores depend on, beside the sound (or the scores that it needs); None: all.
        A scorer is handed a sample with these alone, so that a new text costs no scoring anew of what never reads it
    languages: those that its model was made for, () for any; others are flagged out-of-domain
    patience: Options -> float, seconds that each sound may take beside what its length explains, where somebody else is
        waited for (a service with a rate limit); "" for none
    on_device: whether its model runs on the device that was asked for, where it is no CPU; else on a CPU in any case
    batch: the most sounds that are worth scoring at once on a CPU; pads: whether a batch is padded, so that sounds of
        like length belong together
    environment: the name of an environment of its own, where its packages clash with others; "" for ours
    """

    name: str
    version: str
    purpose: str
    figures: tuple[Figure, ...]
    make: str = ""
    derive: str = ""
    needs: tuple[str, ...] = ()
    of_groups: bool = False
    without_values: bool = False
    identify: str = ""
    patience: str = ""
    summarise: str = ""
    options: tuple[Option, ...] = ()
    rate_hz: int | None = 16_000
    own_rate_with: tuple[str, str] = ("", "")
    reads: tuple[str, ...] | None = None
    languages: tuple[str, ...] = ()
    extra: str = ""
    environment: str = ""
    on_device: bool = False
    batch: int = 1
    pads: bool = False
    hidden: bool = field(default=False)
    """Of use to other metrics only: in no table."""

    def rate_for(self, options: Options) -> int | None:
        """The rate of the sound that a scorer with these options is handed; None for the file's own."""
        option, value = self.own_rate_with
        return None if option and options.get(option) == value else self.rate_hz

    def nothing(self, why: str | Unavailable | Failed) -> Score:
        """A score without any value. why: of a string, because of what it is unavailable. A metric that has no figures
        still has to say it."""
        told = Unavailable(why) if isinstance(why, str) else why
        return Score(dict.fromkeys([figure.name for figure in self.figures] or ["score"], told))


def passed_on(name: str, why: Unavailable | Failed) -> Unavailable | Failed:
    """Why something cannot be derived: what it needs of the metric `name` has no value, for that reason."""
    if isinstance(why, Failed):
        return Failed(f"{name} failed: {why.error}")
    return Unavailable(f"{name}: {why.because}")
