"""Service level objectives: "voice_to_voice p95 < 800ms", "failed <= 1%".

METRIC is a name of `metrics.table`, its `_ms` may be left out; FIGURE is p50, p95, p99, mean, min or max; OP is <, <=,
>, >=; the bound is in the metric's unit, for times in ms or s. With a bound in %, `failed` is the share of the attempts
that count (completed and failed) and `invalid` that of all attempts; without it both are numbers of turns. Turns of
dialogues that were lost count as failed: nobody knows better of them.

A figure that may not be told (metrics/stats.py: no p95 below 20 values, no p99 below 100) is never held to be met.
"""

from __future__ import annotations

import difflib
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from harness.report.wording import MINUS, plural
from metrics.stats import NEEDED_SAMPLES, percentile
from metrics.table import METRICS, metric
from sessions.errors import SetupError

ATTEMPTS = ("failed", "invalid")
"""What is counted over attempts, not over values."""
FIGURES = (*(f"p{percent}" for percent in NEEDED_SAMPLES), "mean", "min", "max")
_OPS: dict[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_EXPRESSION = re.compile(
    r"\s*(?P<metric>[\w-]+)(?:\s+(?P<figure>[a-z]\w*))?\s*(?P<op><=|>=|<|>)\s*(?P<bound>\S+?)\s*(?P<unit>ms|s|%)?\s*",
    re.IGNORECASE,
)
_EXAMPLES = "Write it as 'voice_to_voice p95 < 800ms' or 'failed <= 1%'"


class Counted(Protocol):
    """How many attempts there were, by class, and turns that were lost; `harness.report.summary.Attempts` is one."""

    @property
    def total(self) -> int: ...
    @property
    def completed(self) -> int: ...
    @property
    def invalid(self) -> int: ...
    @property
    def failed(self) -> int: ...
    @property
    def lost(self) -> int: ...


@dataclass(frozen=True, slots=True)
class Verdict:
    """held: None where it cannot be told · value: the figure, in the bound's unit · why: one line, for people."""

    held: bool | None
    value: float | None
    why: str


@dataclass(frozen=True, slots=True)
class Slo:
    """One objective.

    text: as it was written · metric: full name, or one of `ATTEMPTS` · figure: one of `FIGURES`; of attempts "share" or
    "count" · bound: in `unit`, which is the metric's own ("ms"), "%" or "turns".
    """

    text: str
    metric: str
    figure: str
    op: str
    bound: float
    unit: str

    def judge(self, values_by_dialogue: Mapping[str, Sequence[float]], attempts: Counted) -> Verdict:
        """Whether it holds.

        values_by_dialogue: dialogue id → values of `metric` over its completed turns (not looked at where the metric is
        one of `ATTEMPTS`).
        """
        if self.metric in ATTEMPTS:
            return self._of_attempts(attempts)
        values = [value for group in values_by_dialogue.values() for value in group]
        if (reason := why_untold(self.figure, len(values))) is not None:
            return Verdict(None, None, f"{self.figure} cannot be told: {reason}")
        return self._compared(figure_of(values, self.figure), f"over {plural(len(values), 'turn')}")

    def _of_attempts(self, attempts: Counted) -> Verdict:
        number, of = share_of(self.metric, attempts)
        if not of:
            return Verdict(None, None, f"{self.metric} cannot be told: there is no attempt that counts")
        value = 100 * number / of if self.figure == "share" else float(number)
        return self._compared(value, f"{number} of {plural(of, 'turn')}{lost_of(self.metric, attempts)}")

    def _compared(self, value: float, basis: str) -> Verdict:
        held = _OPS[self.op](value, self.bound)
        name = self.metric if self.metric in ATTEMPTS else self.figure
        relation = self.op if held else f"not {self.op}"
        told, bound = amounts_apart(value, self.bound, self.unit)
        return Verdict(held, value, f"{name} = {told} ({basis}), {relation} {bound}")


def parse_slo(text: str) -> Slo:
    """Read one objective. Raises `SetupError`: one line that names the part that does not fit."""
    found = _EXPRESSION.fullmatch(text)
    if found is None:
        raise SetupError(f"cannot read the SLO {text!r}", _EXAMPLES)
    name, figure, op, unit = (found[part] or "" for part in ("metric", "figure", "op", "unit"))
    where = f"SLO {text!r}"
    known = known_metric(name, where)
    bound, unit = bound_of(known, found["bound"], unit.lower(), where)
    if known in ATTEMPTS:
        if figure:
            raise SetupError(f"{where}: {known} has no figure {figure!r}", _EXAMPLES)
        return Slo(text.strip(), known, "share" if unit == "%" else "count", op, bound, unit)
    if unit == "%":
        raise SetupError(f"{where}: {known} is not a share", f"Give the bound in {metric(known).unit}")
    return Slo(text.strip(), known, known_figure(figure, where), op, bound, unit)


def known_metric(name: str, where: str) -> str:
    """The full name that `name` stands for. Raises `SetupError` that tells the nearest."""
    plain = name.lower().replace("-", "_")
    for candidate in (plain, f"{plain}_ms"):
        if candidate in METRICS or candidate in ATTEMPTS:
            return candidate
    short = [*(known.removesuffix("_ms") for known in METRICS), *ATTEMPTS]
    near = difflib.get_close_matches(plain.removesuffix("_ms"), short, n=1)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    raise SetupError(f"{where}: unknown metric {name!r}", f"{hint}Known: {', '.join(short)}")


def known_figure(figure: str, where: str) -> str:
    """`figure`, where it is one of `FIGURES`. Raises `SetupError`."""
    if figure.lower() not in FIGURES:
        what = f"unknown figure {figure!r}" if figure else "the figure is missing"
        raise SetupError(f"{where}: {what}", f"Known: {', '.join(FIGURES)}")
    return figure.lower()


def bound_of(metric_name: str, number: str, unit: str, where: str) -> tuple[float, str]:
    """The bound and its unit: the metric's own, "%" or "turns". Raises `SetupError`."""
    try:
        bound = float(number)
    except ValueError:
        raise SetupError(f"{where}: {number!r} is not a number", "Give a number, with ms, s or % after it") from None
    if not abs(bound) < float("inf"):
        raise SetupError(f"{where}: the bound must be finite", "Give a number, with ms, s or % after it")
    if unit == "%":
        return bound, "%"
    own = "turns" if metric_name in ATTEMPTS else metric(metric_name).unit
    if unit in ("ms", "s"):
        if own != "ms":
            raise SetupError(f"{where}: {metric_name} is not a time", f"Leave out {unit!r}")
        return (bound * 1000 if unit == "s" else bound), "ms"
    return bound, own


def why_untold(figure: str, samples: int) -> str | None:
    """Why a figure may not be told from that many values; None where it may."""
    if not samples:
        return "no completed turn has a value"
    needed = NEEDED_SAMPLES.get(int(figure[1:]), 1) if figure.startswith("p") else 1
    return f"it needs {needed} samples, there are {samples}" if samples < needed else None


def figure_of(values: Sequence[float], figure: str) -> float:
    """One of `FIGURES` of some values."""
    if figure == "mean":
        return sum(values) / len(values)
    if figure in ("min", "max"):
        return min(values) if figure == "min" else max(values)
    return percentile(values, int(figure[1:]))


def share_of(name: str, attempts: Counted) -> tuple[int, int]:
    """(hits, of how many) of one of `ATTEMPTS`: failures of the attempts that count, invalid ones of all."""
    if name == "failed":
        failed = attempts.failed + attempts.lost
        return failed, attempts.completed + failed
    return attempts.invalid, attempts.total


def lost_of(name: str, attempts: Counted) -> str:
    """How many of the hits of `share_of` were lost, in words; "" where none was."""
    return f", {attempts.lost} of them lost" if name == "failed" and attempts.lost else ""


def amount(value: float, unit: str, digits: int = 4) -> str:
    """A figure with its unit, for people, to so many digits."""
    plain = f"{value:.{digits}g}" if abs(value) < 10 ** (digits - 1) else f"{value:.{max(0, digits - 4)}f}"
    plain = plain.replace("-", MINUS)
    if unit in ("count", "ratio", ""):
        return plain
    return f"{plain} {unit.removesuffix('s') if plain == '1' and unit in ('turns', 'points') else unit}"


def amounts_apart(value: float, bound: float, unit: str) -> tuple[str, str]:
    """Both as `amount`, with as many digits as it takes to see which one is larger."""
    told = [(amount(value, unit, digits), amount(bound, unit, digits)) for digits in (4, 6, 9)]
    return next((pair for pair in told if pair[0] != pair[1]), told[-1])
