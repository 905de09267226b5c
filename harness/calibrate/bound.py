"""The bound under a run's table: a few checks against a known truth before and after it, and what they come to."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from harness.calibrate.spread import Spread, spread
from harness.report.wording import number, one_line, plural
from sessions.runs import disk_errors, indented, read_json, write_atomic

FILE = "calibration.json"
VERSION = 1
_WORSE_TIMES, _WORSE_MS = 2.0, 1.0
"""After a run the median error is much worse when it is twice that before it, and a millisecond more."""


class Check(msgspec.Struct, frozen=True):
    """The short form of a calibration, once.

    errors_ms: per turn that was on time, the one of reported − true of its first packet and of its voice-to-voice that
    is larger in size · invalid: turns in which this machine was late · stall_max_ms: largest heartbeat lag of 5 ms or
    more, else 0 · problem: why there was no check, "" where there was one · dialogues: held at once.
    """

    wall_time: str
    errors_ms: list[float] = []
    invalid: int = 0
    stall_max_ms: float = 0.0
    problem: str = ""
    dialogues: int = 1


class Part(msgspec.Struct, frozen=True):
    """One stretch of a run: it has several when it was resumed. after: None where it was interrupted.

    run: in a merged run, which of its parts this is of.
    """

    before: Check
    after: Check | None = None
    run: str = ""


class RunCalibration(msgspec.Struct, frozen=True):
    """`calibration.json` of a run folder."""

    parts: list[Part]
    version: int = VERSION


class Bound(msgspec.Struct, frozen=True):
    """How far a run's latencies may be off, in milliseconds: all checks, and those before and after.

    within_ms: what 95 in 100 checks stayed within, below 20 checks what all did; None without checks · invalid: checks
    in which this machine was late · warnings: whole sentences for people · dialogues: most that were held at once.
    """

    within_ms: float | None
    all: Spread
    before: Spread
    after: Spread
    invalid: int
    warnings: list[str]
    dialogues: int = 1


def read_parts(folder: Path) -> list[Part]:
    """What a run folder holds, in order; nothing where it was not calibrated. Raises `BadFile`."""
    file = folder / FILE
    if not file.exists():
        return []
    return read_json(file, RunCalibration, VERSION).parts


def add_part(folder: Path, *parts: Part) -> None:
    """Keep more parts beside those that are there. Raises `SetupError` where they cannot be written."""
    kept = RunCalibration([*read_parts(folder), *parts])
    with disk_errors(folder / FILE):
        write_atomic(folder / FILE, indented(kept))


def bound_of(parts: Sequence[Part], limit_lateness_ms: float) -> Bound | None:
    """What the checks of a run come to, None where there are none. limit_lateness_ms: above it a machine stalled.

    A merged run is as good as the worst of its parts, whose spread it gets; nothing is known of it where nothing is
    known of one of them.
    """
    if not parts:
        return None
    names = list(dict.fromkeys(part.run for part in parts))
    bounds = {name: _bound_of([part for part in parts if part.run == name], limit_lateness_ms) for name in names}
    if len(bounds) == 1:
        return bounds[names[0]]
    worst = max(bounds.values(), key=lambda bound: math.inf if bound.within_ms is None else bound.within_ms)
    return msgspec.structs.replace(
        worst,
        invalid=sum(bound.invalid for bound in bounds.values()),
        warnings=[f"{name}: {warning}" for name, bound in bounds.items() for warning in bound.warnings],
        dialogues=max(bound.dialogues for bound in bounds.values()),
    )


def _bound_of(parts: Sequence[Part], limit_lateness_ms: float) -> Bound:
    before = [part.before for part in parts]
    after = [part.after for part in parts if part.after is not None]
    checks = [*before, *after]
    everything = _spread(checks)
    return Bound(
        within_ms=everything.maximum if everything.p95 is None else everything.p95,
        all=everything,
        before=_spread(before),
        after=_spread(after),
        invalid=sum(check.invalid for check in checks),
        warnings=list(_warnings(before, after, limit_lateness_ms)),
        dialogues=max(check.dialogues for check in checks),
    )


def _spread(checks: Sequence[Check]) -> Spread:
    return spread([error_ms for check in checks for error_ms in check.errors_ms])


def _warnings(before: Sequence[Check], after: Sequence[Check], limit_ms: float) -> Iterator[str]:
    checks = [*before, *after]
    for problem in dict.fromkeys(check.problem for check in checks if check.problem):
        yield f"The clock was not checked: {one_line(problem)}"
    stall_ms = max(check.stall_max_ms for check in checks)
    if stall_ms > limit_ms:
        yield f"This machine stalled for {number(stall_ms)} ms in a check; what else runs on it spoils figures."
    invalid = sum(check.invalid for check in checks)
    if invalid:
        total = invalid + sum(len(check.errors_ms) for check in checks)
        yield f"This machine was late in {invalid} of {plural(total, 'check')}: it is busy with something else."
    early, late = _spread(before).p50, _spread(after).p50
    if early is not None and late is not None and late >= _WORSE_TIMES * early and late >= early + _WORSE_MS:
        yield (
            f"This machine grew worse: checks were off by {number(early)} ms before the run and by {number(late)} ms "
            "after it (medians)."
        )


def bound_line(bound: Bound | None) -> str:
    """One sentence under a table."""
    if bound is None:
        return "The clock was not checked beside this run."
    if bound.within_ms is None or bound.all.p50 is None:
        return "No check of the clock was on time, so nothing is known about how far figures are off."
    known = bound.all
    share = "95 %" if known.p95 is not None else "all"
    when = "before and after" if bound.before.n and bound.after.n else "before" if bound.before.n else "after"
    at_once = f", {bound.dialogues} dialogues at once" if bound.dialogues > 1 else ""
    return (
        f"Latencies are within ±{number(bound.within_ms, 2)} ms of the truth "
        f"({share} of {plural(known.n, 'check')} {when}{at_once}; median {number(known.p50, 2)} ms)."
    )
