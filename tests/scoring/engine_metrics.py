"""Small metrics that the engine's tests run in real worker processes, well-behaved ones and others.

What a scorer is to do with a sound stands in the sample's text: "kill", "kill once", "hang", "raise", "nan", "short".
Every sound that is really scored is noted in the file that the variable `LOG` names.
"""

from __future__ import annotations

import os
import resource
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from metrics.result import Failed, Unavailable, Value
from metrics.scoring import Figure, Metric, Option, Options, Piece, Sample, Score, Scorer
from sessions.errors import BadFile, MetricUnavailable, MissingExtra, SetupError

HERE = "tests.scoring.engine_metrics"
LOG = "LOG_OF_WHAT_WAS_SCORED"


def note(what: str) -> None:
    """One line, whole, whoever else writes."""
    descriptor = os.open(os.environ[LOG], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(descriptor, f"{what}\n".encode())
    os.close(descriptor)


class Loudest:
    """The largest sample, and how its batch was."""

    def check(self) -> str:
        return ""

    def score(self, pieces: Sequence[Piece]) -> list[Score]:
        lengths = [len(piece.samples) for piece in pieces]
        for piece in pieces:
            self._act(piece)
        if any(piece.sample.text == "short" for piece in pieces):
            return []
        return [self._one(piece, lengths) for piece in pieces]

    def _act(self, piece: Piece) -> None:
        note(f"{piece.sample.id}")
        text = piece.sample.text or ""
        flag = Path(os.environ[LOG] + ".flag")
        if text == "kill" or (text == "kill once" and not flag.exists()):
            flag.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        if text == "hang":
            threading.Event().wait()
        if text == "raise":
            raise RuntimeError("this sound is not liked\nsecond line")
        if text == "exit":
            os.write(2, b"first words\nthe last words\n")
            os._exit(3)

    def _one(self, piece: Piece, lengths: list[int]) -> Score:
        value = float(np.abs(piece.samples).max())
        os.write(1, b"libraries print; nobody is to take that for an answer")
        if piece.sample.text == "nan":
            value = float("nan")
        details = {"lengths": lengths, "rate_hz": piece.rate_hz, "samples": np.int64(len(piece.samples))}
        return Score({"loudest": Value(value)}, details=details)


def loudest(options: Options) -> Scorer:
    note("loaded")
    return Loudest()


LOUDEST = Metric(
    "loudest",
    "1",
    "the largest sample",
    (Figure("loudest", "", "none", "Loudest", "max |x|"),),
    make=f"{HERE}:loudest",
    identify=f"{HERE}:identity",
    options=(Option("form", "plain", "of no effect", ("plain", "other")),),
)
OWN_RATE = replace(LOUDEST, name="own_rate", rate_hz=None)
BATCHED = replace(LOUDEST, name="batched", batch=4, pads=True)
DEAF_TO_TEXT = replace(LOUDEST, name="deaf_to_text", reads=("language",), languages=("en",))


def identity(options: Options) -> dict[str, str]:
    return {"weights": "none"}


class Hungry(Loudest):
    """Asks for more memory than it may have."""

    def score(self, pieces: Sequence[Piece]) -> list[Score]:
        if any(piece.sample.text == "hungry" for piece in pieces):
            np.ones(1 << 30, np.uint8)
        return super().score(pieces)


def hungry(options: Options) -> Scorer:
    resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
    return Hungry()


HUNGRY = replace(LOUDEST, name="hungry", make=f"{HERE}:hungry", batch=4)


def not_installed(options: Options) -> dict[str, str]:
    raise MissingExtra("nowhere", "score")


def broken_identity(options: Options) -> dict[str, str]:
    raise RuntimeError("no such thing")


def not_loading(options: Options) -> Scorer:
    note("tried to load")
    raise RuntimeError("the checkpoint is cut off")


def refusing(options: Options) -> Scorer:
    note("tried to load")
    raise BadFile("weights.pt", "it is no checkpoint")


def dying(options: Options) -> Scorer:
    note("tried to load")
    os.kill(os.getpid(), signal.SIGSEGV)
    raise AssertionError


def missing_when_loading(options: Options) -> Scorer:
    raise MissingExtra("nowhere", "score")


class Doubtful(Loudest):
    def check(self) -> str:
        return "clean speech scores 1.0, noise 1.0"


def doubtful(options: Options) -> Scorer:
    note(f"pid {os.getpid()}")
    return Doubtful()


class Sick(Loudest):
    """As on a GPU: after one fault the process has no other."""

    sick = False

    def score(self, pieces: Sequence[Piece]) -> list[Score]:
        self.sick |= any(piece.sample.text == "sicken" for piece in pieces)
        if any(piece.sample.text == "refuse" for piece in pieces):
            raise MetricUnavailable("the service does not like this sound")
        if self.sick:
            raise RuntimeError("device-side assert triggered")
        return super().score(pieces)


def sick(options: Options) -> Scorer:
    note("loaded")
    return Sick()


def noted_identity(options: Options) -> dict[str, str]:
    note(f"pid {os.getpid()}")
    raise RuntimeError("no such thing")


def misled(options: Options) -> dict[str, str]:
    raise SetupError("that is no recogniser", "Choose another")


SICK = replace(LOUDEST, name="sick", make=f"{HERE}:sick", on_device=True, batch=4)
NOT_INSTALLED = replace(LOUDEST, name="not_installed", identify=f"{HERE}:not_installed")
NOT_IDENTIFIED = replace(LOUDEST, name="not_identified", identify=f"{HERE}:broken_identity")
NOT_LOADING = replace(LOUDEST, name="not_loading", make=f"{HERE}:not_loading")
REFUSING = replace(LOUDEST, name="refusing", make=f"{HERE}:refusing")
DYING = replace(LOUDEST, name="dying", make=f"{HERE}:dying")
MISSING_LATER = replace(LOUDEST, name="missing_later", make=f"{HERE}:missing_when_loading")
DOUBTFUL = replace(LOUDEST, name="doubtful", make=f"{HERE}:doubtful")


class Elsewhere(Loudest):
    def _one(self, piece: Piece, lengths: list[int]) -> Score:
        where = {"python": os.environ.get("THIS_PYTHON", ""), "path": [str(path) for path in sys.path]}
        return Score({"loudest": Value(1.0)}, details=where)


def elsewhere(options: Options) -> Scorer:
    return Elsewhere()


ELSEWHERE = replace(LOUDEST, name="elsewhere", make=f"{HERE}:elsewhere", environment="elsewhere")
REFUSED_ELSEWHERE = replace(
    ELSEWHERE, name="refused_elsewhere", identify=f"{HERE}:noted_identity", environment="elsewhere"
)
MISLED = replace(LOUDEST, name="misled", identify=f"{HERE}:misled")


def twice(samples: Sequence[Sample], inputs: Sequence[Mapping[str, Score]], options: Options) -> list[Score]:
    (sample,), (given,) = samples, inputs
    note(f"twice {sample.id}")
    if sample.reference == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if sample.reference == "raise":
        raise ValueError("nothing to double")
    found = given["loudest"].figures["loudest"]
    assert isinstance(found, Value)
    return [Score({"twice": Value(2 * found.value)})]


def above_first(samples: Sequence[Sample], inputs: Sequence[Mapping[str, Score]], options: Options) -> list[Score]:
    note(f"group of {len(samples)}: {' '.join(sample.id for sample in samples)}")
    values = [given["twice"].figures["twice"] for given in inputs]
    return [
        Score({"above_first": Value(value.value - values[0].value)})
        if isinstance(value, Value) and isinstance(values[0], Value)
        else Score({"above_first": Failed("no value")})
        for value in values
    ]


TWICE = Metric(
    "twice",
    "1",
    "twice the largest sample",
    (Figure("twice", "", "none", "Twice", "2 max |x|"),),
    derive=f"{HERE}:twice",
    needs=("loudest",),
)
ABOVE_FIRST = Metric(
    "above_first",
    "1",
    "against the first of its group",
    (Figure("above_first", "", "none", "Above the first", "x − x₀"),),
    derive=f"{HERE}:above_first",
    needs=("twice",),
    of_groups=True,
)


class Silent(Loudest):
    def score(self, pieces: Sequence[Piece]) -> list[Score]:
        return [Score({"loudest": Unavailable("it is silent")}) for _ in pieces]


def silent(options: Options) -> Scorer:
    return Silent()


SILENT = replace(LOUDEST, make=f"{HERE}:silent")

ALL = {
    metric.name: metric
    for metric in (
        LOUDEST, OWN_RATE, BATCHED, DEAF_TO_TEXT, HUNGRY, NOT_INSTALLED, NOT_IDENTIFIED, NOT_LOADING, REFUSING, DYING,
        MISSING_LATER, DOUBTFUL, ELSEWHERE, TWICE, ABOVE_FIRST, SICK, REFUSED_ELSEWHERE, MISLED,
    )
}  # fmt: skip
