"""One run held to its objectives and to a baseline: one check for each, and the verdict."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import msgspec

from harness.compare.compare import compare_metric
from harness.compare.fit import judged_fit
from harness.compare.side import Side
from harness.compare.slo import (
    ATTEMPTS,
    Slo,
    amount,
    amounts_apart,
    bound_of,
    known_figure,
    known_metric,
    lost_of,
    share_of,
)
from harness.report.wording import plural
from metrics.comparison import rate_difference
from metrics.stats import NEEDED_SAMPLES
from metrics.table import metric
from sessions.errors import SetupError

GATE_VERSION = 1
_EXPRESSION = re.compile(
    r"\s*(?P<metric>[\w-]+)(?:\s+(?P<figure>[a-z]\w*))?\s+(?P<bound>[-+.\d]\S*?)\s*(?P<unit>ms|s|%)?\s*", re.IGNORECASE
)
_EXAMPLES = "Write it as 'voice_to_voice p50 5%', 'voice_to_voice p95 40ms' or 'failed 1%'"
Judged = tuple[bool | None, float | None, str]
"""held, value, why."""


class Check(msgspec.Struct, frozen=True):
    """One thing that was asked. held: None where it cannot be told, which is no pass · marks: what differs, allowed.

    value: of an SLO the figure, in the bound's unit; of a regression how much worse, likewise.
    """

    kind: Literal["slo", "regression"]
    text: str
    held: bool | None
    value: float | None
    why: str
    marks: list[str] = []


class Gate(msgspec.Struct, frozen=True):
    """A run and what became of every check. passed: each of them held · remarks: what to know beside it."""

    run: str
    baseline: str
    passed: bool
    checks: list[Check]
    remarks: list[str]
    version: int = GATE_VERSION


@dataclass(frozen=True, slots=True)
class Regression:
    """How much worse than the baseline a figure may be.

    figure: "p50", "p95" or "p99"; of attempts "share" · allowed: in `unit`, the metric's own or "%" of the baseline's
    figure; of attempts percentage "points".
    """

    text: str
    metric: str
    figure: str
    allowed: float
    unit: str

    def judge(self, run: Side, baseline: Side) -> Judged:
        """Whether `run` is worse than `baseline` by no more. The figure decides; its interval stands beside it."""
        return self._of_attempts(run, baseline) if self.metric in ATTEMPTS else self._of_values(run, baseline)

    def _of_values(self, run: Side, baseline: Side) -> Judged:
        comparison, measure = compare_metric(baseline, run, self.metric), metric(self.metric)
        one = next(one for one in comparison.differences if one.figure == self.figure)
        if one.a is None or one.b is None:
            return None, None, f"{self.figure} cannot be told: {one.reason}"
        if self.unit == "%" and one.a <= 0:
            return (
                None,
                None,
                f"the baseline's {self.figure} is {amount(one.a, measure.unit)}, of which there is no share",
            )
        scale = (-1 if measure.direction == "higher" else 1) * (100 / one.a if self.unit == "%" else 1)
        interval = f"no interval: {one.reason}"
        if one.ci95 is not None:
            low, high = sorted(end * scale for end in one.ci95)
            interval = f"95 % CI of what it is worse: {amount(low, '')} to {amount(high, self.unit)}"
        told = (amount(figure, measure.unit) for figure in (one.b, one.a))
        basis = f"{self.figure} = {next(told)}, baseline {next(told)}, {comparison.pairing}"
        return self._compared((one.b - one.a) * scale, basis, interval)

    def _of_attempts(self, run: Side, baseline: Side) -> Judged:
        (hits, of), (hits_before, of_before) = (share_of(self.metric, side.attempts) for side in (run, baseline))
        if not of or not of_before:
            return None, None, f"{self.metric} cannot be told: there is no attempt that counts"
        low, high = (100 * end for end in rate_difference(hits_before, of_before, hits, of))
        told, before = (lost_of(self.metric, side.attempts) for side in (run, baseline))
        basis = f"{self.metric} = {hits} of {plural(of, 'turn')}{told}, baseline {hits_before} of {of_before}{before}"
        interval = f"95 % CI of what it is worse: {amount(low, '')} to {amount(high, self.unit)}"
        return self._compared(100 * (hits / of - hits_before / of_before), basis, interval)

    def _compared(self, worse: float, basis: str, interval: str) -> Judged:
        held = worse <= self.allowed
        size, allowed = amounts_apart(abs(worse), self.allowed, self.unit)
        change = f"{'better' if worse < 0 else 'worse'} by {size}" if worse else "no change"
        return held, worse, f"{basis}: {change}, {'within' if held else 'beyond'} the {allowed} allowed ({interval})"


def parse_regression(text: str) -> Regression:
    """Read "METRIC FIGURE AMOUNT". Raises `SetupError`: one line that names the part that does not fit."""
    found = _EXPRESSION.fullmatch(text)
    if found is None:
        raise SetupError(f"cannot read the regression {text!r}", _EXAMPLES)
    where = f"regression {text!r}"
    name = known_metric(found["metric"], where)
    allowed, unit = bound_of(name, found["bound"], (found["unit"] or "").lower(), where)
    if allowed < 0:
        raise SetupError(f"{where}: what is allowed cannot be below 0", _EXAMPLES)
    if name in ATTEMPTS:
        if found["figure"] or unit != "%":
            raise SetupError(f"{where}: {name} is bounded in %", _EXAMPLES)
        return Regression(text.strip(), name, "share", allowed, "points")
    if metric(name).direction == "none":
        raise SetupError(f"{where}: {name} has no better and no worse", "Choose another measure")
    figure = known_figure(found["figure"] or "", where)
    if figure.removeprefix("p") not in map(str, NEEDED_SAMPLES):
        raise SetupError(f"{where}: {figure} is not compared between runs", "Choose p50, p95 or p99")
    return Regression(text.strip(), name, figure, allowed, unit)


def hold(
    run: Side,
    slos: Sequence[Slo],
    baseline: Side | None = None,
    regressions: Sequence[Regression] = (),
    allowed: Sequence[str] = (),
) -> Gate:
    """Judge every check. regressions need the baseline. Raises `SetupError` where the two runs cannot be compared."""
    checks = []
    for slo in slos:
        verdict = slo.judge({} if slo.metric in ATTEMPTS else run.values(slo.metric), run.attempts)
        checks.append(Check("slo", slo.text, verdict.held, verdict.value, verdict.why))
    if baseline is not None:
        marks = [str(mismatch) for mismatch in judged_fit(baseline.plan, run.plan, allowed)]
        for regression in regressions:
            checks.append(Check("regression", regression.text, *regression.judge(run, baseline), marks))
    return Gate(
        run=str(run.path),
        baseline=str(baseline.path) if baseline else "",
        passed=all(check.held for check in checks),
        checks=checks,
        remarks=_remarks(run, [slo.metric for slo in slos] + [regression.metric for regression in regressions]),
    )


def _remarks(run: Side, named: Sequence[str]) -> list[str]:
    """A run whose failures nobody bounds passes the more easily the more it fails; so does a part of a run."""
    failed, lost = run.attempts.failed, run.attempts.lost
    told = [f"{plural(failed, 'failed turn')}"] * bool(failed) + [f"{plural(lost, 'lost turn')}"] * bool(lost)
    remarks = []
    if told and "failed" not in named:
        remarks.append(f"{' and '.join(told)} in no latency, and nothing here bounds them: --slo 'failed <= 1%'")
    if run.left:
        remarks.append(f"the run was interrupted, {run.left} left: duologue measure --resume {run.path}")
    return remarks
