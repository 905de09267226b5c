"""Two runs side by side: rows of differences, a plain verdict for each, and what a reader must know beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from harness.compare.fit import judged_fit, remarks
from harness.compare.side import Performed, Side, values_of
from harness.compare.slo import share_of
from harness.report.wording import ROWS, digits_for, number, plural, words_for
from metrics.comparison import Comparison, Difference, compare_clustered, compare_paired, rate_difference
from metrics.table import metric

COMPARISON_VERSION = 1
_FASTER = ("first_packet", "first_text", "voice_to_voice", "commit_to_first_packet", "server_vad_delay")
"""Measures of which one says "faster", by the beginning of their names; others are lower or higher."""
_CHANCE = "each row is judged by itself: of 20 rows without a difference, one on average shows one by chance"


class ComparedSide(msgspec.Struct, frozen=True):
    """One run of the two.

    dialogues: those that count · completed, invalid, failed: its attempts · lost: turns of which nothing is known ·
    left: what an interrupted run has not performed.
    """

    run: str
    target: str
    created: str
    dialogues: int
    completed: int
    invalid: int
    failed: int
    lost: int = 0
    left: str = ""


class Row(msgspec.Struct, frozen=True):
    """One measure. marks: fields that differ and were allowed; the row is to be read with them."""

    metric: str
    unit: str
    direction: str
    comparison: Comparison
    verdict: str
    marks: list[str]


class Compared(msgspec.Struct, frozen=True):
    """pairing: how, and why · allowed: field → what differs there, allowed by name · remarks: what else differs.

    bounds: how far the latencies of each may be off, in sentences.
    """

    a: ComparedSide
    b: ComparedSide
    pairing: str
    rows: list[Row]
    allowed: dict[str, str]
    remarks: list[str]
    warnings: list[str]
    bounds: list[str] = []
    version: int = COMPARISON_VERSION


def compare_runs(a: Side, b: Side, metrics: Sequence[str], allowed: Sequence[str] = ()) -> Compared:
    """Compare B with A. metrics: full names, each a row.

    Raises `SetupError` where the runs cannot be compared, with the fields named, unless `allowed` names them.
    """
    known = {mismatch.field: str(mismatch) for mismatch in judged_fit(a.plan, b.plan, allowed)}
    pairs = partners(a, b)
    rows = []
    for name in metrics:
        comparison = compare_metric(a, b, name)
        measure = metric(name)
        verdict = verdict_of(name, comparison)
        rows.append(Row(name, measure.unit, measure.direction, comparison, verdict, list(known)))
    return Compared(
        a=_side(a),
        b=_side(b),
        pairing=(
            f"paired: both performed the same {plural(len(a.dialogues), 'dialogue')} in the same order; "
            "turns without a value on both sides are left out"
            if pairs is not None
            else "clustered: the two did not perform the same dialogues in the same order"
        ),
        rows=rows,
        allowed=known,
        remarks=[*remarks(a.plan, b.plan), *([_CHANCE] if any(map(_has_interval, rows)) else [])],
        warnings=_warnings(a, b),
        bounds=_bounds(a, b, "speech_end" not in known),
    )


def usual_metrics(sides: Sequence[Side]) -> list[str]:
    """The rows of a comparison for which nobody named any: those that everybody asks for and a side has."""
    return [
        name for name in ROWS if not words_for(name).behind and any(any(side.values(name).values()) for side in sides)
    ]


def partners(a: Side, b: Side) -> list[tuple[Performed, Performed]] | None:
    """The dialogues in pairs; None where the two did not perform the same audio in the same order."""
    order_a, order_b = ([_audio(side, dialogue) for dialogue in side.dialogues] for side in (a, b))
    return list(zip(a.dialogues, b.dialogues, strict=True)) if order_a == order_b else None


def _audio(side: Side, dialogue: Performed) -> tuple[str, ...]:
    clips = {script.name: tuple(turn.audio for turn in script.turns) for script in side.plan.scripts}
    return clips[dialogue.script]


def compare_metric(a: Side, b: Side, name: str) -> Comparison:
    """One measure of both: paired where the dialogues have partners, else clustered."""
    pairs = partners(a, b)
    if pairs is None:
        return compare_clustered(a.values(name), b.values(name))
    return compare_paired({f"{number:06}": _of_pair(*pair, name) for number, pair in enumerate(pairs)})


def _of_pair(a: Performed, b: Performed, name: str) -> list[tuple[float, float]]:
    values_a, values_b = values_of(a, name), values_of(b, name)
    return [(value, values_b[turn]) for turn, value in sorted(values_a.items()) if turn in values_b]


def verdict_of(name: str, comparison: Comparison) -> str:
    """In words: "B is 42 ms faster at p50, 95 % CI 31 to 55; no difference shown at p95"."""
    told: list[str] = []
    same = [one.figure for one in comparison.differences if one.shown is False]
    for one in comparison.differences:
        if one.difference is not None and one.figure not in same:
            told.append(_told(name, one, one.difference))
    if same:
        told.append(f"no difference shown at {' and '.join(same)}")
    return "; ".join(told) or f"nothing to compare: {comparison.differences[0].reason}"


def _told(name: str, one: Difference, difference: float) -> str:
    if one.ci95 is None:
        return f"{f'B is {_by(name, one, difference)}' if difference else 'no difference'} at {one.figure}, no interval"
    low, high = sorted(abs(end) for end in one.ci95)
    digits = _digits(difference, *one.ci95)
    interval = f"{number(low, digits)} to {number(high, digits)}"
    return f"B is {_by(name, one, difference)} at {one.figure}, 95 % CI {interval}"


def _by(name: str, one: Difference, difference: float) -> str:
    """ "42 ms faster"; with the digits that the interval has."""
    digits = _digits(difference, *(one.ci95 or ()))
    unit = metric(name).unit
    size = number(abs(difference), digits)
    if not float(size):
        size = f"{abs(difference):.2g}"
    if unit == "ms":
        size += " ms"
    if name.startswith(_FASTER):
        return f"{size} {'faster' if difference < 0 else 'slower'}"
    return f"{size} {'lower' if difference < 0 else 'higher'}"


def _digits(*values: float) -> int:
    """Two significant figures of the smallest; below 1, two decimals."""
    smallest = min(map(abs, values))
    return max(0, digits_for(smallest) - (smallest >= 1))


def _has_interval(row: Row) -> bool:
    return any(difference.ci95 is not None for difference in row.comparison.differences)


def _side(side: Side) -> ComparedSide:
    attempts = side.attempts
    return ComparedSide(
        run=str(side.path),
        target=side.plan.target,
        created=side.plan.created,
        dialogues=len(side.dialogues),
        completed=attempts.completed,
        invalid=attempts.invalid,
        failed=attempts.failed,
        lost=attempts.lost,
        left=side.left,
    )


def _bounds(a: Side, b: Side, same_ends: bool) -> list[str]:
    """Told once where it is the same for both. same_ends: of each clip, as `fit` found it."""
    told = [(name, line) for name, side in _both(a, b) for line in (*side.clock_bounds(), *side.speech_end_bounds())]
    lines = [line for _, line in told]
    shared = [line for line in dict.fromkeys(lines) if lines.count(line) == 2]
    own = [f"{name}: {line}" for name, line in told if line not in shared]
    ends = a.speech_end_bounds()
    cancels = " The ends are the same in A and B, so it is in no difference." if same_ends else ""
    return [*own, *(f"{line}{cancels if line in ends else ''}" for line in shared)]


def _warnings(a: Side, b: Side) -> list[str]:
    """Where the two fail, or are invalid, at rates that differ: their completed turns are not alike."""
    because = {
        "failed": "latencies are of completed turns only, so the two are not of the same turns",
        "invalid": "this machine was late in one of them more often",
    }
    lost = " or lost" if a.lost_turns or b.lost_turns else ""
    told = []
    for what, why in because.items():
        shares = {name: share_of(what, side.attempts) for name, side in _both(a, b)}
        told.append(_unequal(what + lost * (what == "failed"), shares, why))
    return [line for line in told if line]


def _both(a: Side, b: Side) -> tuple[tuple[str, Side], tuple[str, Side]]:
    return ("A", a), ("B", b)


def _unequal(what: str, shares: Mapping[str, tuple[int, int]], why: str) -> str:
    (hits_a, of_a), (hits_b, of_b) = shares["A"], shares["B"]
    if not of_a or not of_b:
        return ""
    low, high = rate_difference(hits_a, of_a, hits_b, of_b)
    if low <= 0 <= high:
        return ""
    return (
        f"the shares of {what} turns differ: A {hits_a} of {of_a}, B {hits_b} of {of_b} "
        f"(B − A {number(100 * low)} to {number(100 * high)} points, 95 % CI): {why}"
    )
