"""Scores in words: what stands in the cells of the terminal's table and of the page's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from harness.report.wording import DASH, counts, digits_for, number, plural, reasons, span
from harness.score.aggregate import OTHER_REASONS, UNUSABLE_FILES
from harness.score.summary import MetricScores, Scores
from metrics.scoring import Aggregate

_NO_UNIT = frozenset({"count", "ratio"})
_FILES_AT_MOST: Final = 5
"""Files that cannot be used are so many named."""


@dataclass(frozen=True, slots=True)
class Row:
    """One figure. label: what it is · unit: "" where none is to be read · value, spread, range, used: cells · missing:
    why values are missing, "" where none are · no_spread: why there is no interval, "" where there is one · behind: a
    row that belongs to the one above."""

    label: str
    unit: str
    value: str
    spread: str
    range: str
    used: str
    missing: str
    no_spread: str
    behind: bool = False


def score_rows(scores: Scores, name: str) -> Iterator[Row]:
    """Each figure of a metric, with those of the languages under it."""
    for one in scores.metrics[name].aggregates:
        yield _row(one, scores.unavailable)


def told_rows(scores: Scores, name: str) -> Iterator[Row]:
    """Those of them that say anything; `empty_lines` has the others."""
    found = scores.metrics[name]
    empty = {one.figure for one in found.aggregates if is_empty(one, found)}
    yield from (_row(one, scores.unavailable) for one in found.aggregates if one.figure not in empty)


def _row(one: Aggregate, everywhere: Mapping[str, int]) -> Row:
    digits = digits_for(one.value, one.minimum, one.maximum)
    has_range = one.minimum is not None and one.maximum is not None
    return Row(
        label=one.language or one.title,
        unit="" if one.language or one.unit in _NO_UNIT else one.unit,
        value=number(one.value, digits),
        spread=span(*one.ci95, digits) if one.ci95 else DASH,
        range=span(one.minimum or 0.0, one.maximum or 0.0, digits) if has_range else DASH,
        used=str(one.used),
        missing=missing(one, everywhere),
        no_spread=one.no_ci95 if one.value is not None and one.ci95 is None else "",
        behind=bool(one.language),
    )


def empty_lines(scores: Scores) -> Iterator[str]:
    """The figures that no sample has, of metrics that have others: what would be a row of dashes, each with its main
    reason."""
    told = []
    for found in scores.metrics.values():
        told += [f"{one.title} ({_main_reason(one, scores)})" for one in found.aggregates if is_empty(one, found)]
    if told:
        yield f"Without a value: {'; '.join(told)}."


def is_empty(one: Aggregate, found: MetricScores) -> bool:
    """Whether it says nothing while other figures of its metric do."""
    return not one.used and not one.failed and not one.language and any(other.used for other in found.aggregates)


def _main_reason(one: Aggregate, scores: Scores) -> str:
    own = {reason: count for reason, count in one.unavailable.items() if reason not in scores.unavailable}
    ordered = sorted((own or one.unavailable).items(), key=lambda item: (-item[1], item[0]))
    return ordered[0][0] if ordered else "no samples"


def missing(one: Aggregate, everywhere: Mapping[str, int]) -> str:
    """ "unavailable: silence (2); failed 1 of 9: no memory (1)". everywhere: reasons that no metric can help, told once
    for all."""
    own = {reason: count for reason, count in one.unavailable.items() if reason not in everywhere}
    told = [f"unavailable: {reasons(own)}"] if own else []
    if one.failed:
        told.append(f"failed {one.failed} of {one.used + one.skipped + one.failed}: {reasons(_errors(one))}")
    return "; ".join(told)


def _errors(one: Aggregate) -> dict[str, int]:
    """Files that cannot be used fail every figure alike: `unusable_line` names them once."""
    below = f"{UNUSABLE_FILES}, see below"
    return {below if error == UNUSABLE_FILES else error: count for error, count in one.errors.items()}


def unusable_line(scores: Scores) -> Iterator[str]:
    """Files that hold no usable sound, each once, with the mend; nothing where there are none."""
    files = [file for file in scores.unusable if file != OTHER_REASONS]
    more = sum(scores.unusable.values()) - len(files[:_FILES_AT_MOST])
    if files:
        yield f"Failed: {'; '.join(files[:_FILES_AT_MOST])}{f'; and {more} more' if more else ''}."


def samples_line(scores: Scores) -> str:
    """How many there are, how many have anything to be scored, and what is known of them."""
    lost = sum(scores.unavailable.values())
    told = [plural(scores.samples, "sample")]
    if lost:
        told.append(f"{lost} of them with nothing to score: {reasons(scores.unavailable)}")
    return ". ".join([", ".join(told), *scores.coverage, *scores.remarks]) + "."


def lines_below(scores: Scores) -> Iterator[str]:
    """What a reader must know beside the figures."""
    yield samples_line(scores)
    yield from unusable_line(scores)
    yield from empty_lines(scores)
    for name, found in scores.metrics.items():
        if found.flags:
            yield f"Remarks of {name}: {counts(found.flags)}."
    yield from settings_lines(scores)
    for name, why in scores.left_out.items():
        yield f"Not scored: {name}, because {why}"


def settings_lines(scores: Scores) -> Iterator[str]:
    """With what it was scored, each metric once, where a setting says anything. What several metrics rest on may have
    been another for each: then it is said of which."""
    made = [(needed, one, name) for name, found in scores.metrics.items() for needed, one in found.needs.items()]
    made += [(name, found.made, name) for name, found in scores.metrics.items()]
    lines: dict[str, dict[str, list[str]]] = {}
    for name, one, of in made:
        told = ", ".join(f"{key}={value}" for key, value in one.options.items() if value)
        if told:
            lines.setdefault(name, {}).setdefault(f"{name}/{one.version.rpartition('/')[2]}: {told}", []).append(of)
    for ways in lines.values():
        for told, of_these in ways.items():
            whose = f" (of {', '.join(of_these)})" if len(ways) > 1 else ""
            yield f"{told}{whose}."
