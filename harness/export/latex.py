"""The run's table for a paper: booktabs, one row per figure, what a reader must know in the caption.

Needs \\usepackage{booktabs}; the text is UTF-8.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from harness.report.summary import MeasureSummary, Summary
from harness.report.turn_taking_wording import Row, rows
from harness.report.wording import DASH, MINUS, ROWS, clean, describe_class, number, plural, row_digits, words_for
from harness.results.dialogue_result import DialogueResult
from harness.results.finish import summary_of
from sessions.runs import RunFolder, write_atomic

_ESCAPED = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "%": r"\%",
    "#": r"\#",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    DASH: "--",
    MINUS: "$-$",
}
_UNITS = {"ms": " (ms)", "count": " (per reply)"}


def write(run: RunFolder, dialogues: list[DialogueResult], out: Path) -> None:
    """One file, to be \\input."""
    write_atomic(out, table(summary_of(run, dialogues)))


def escape(text: str) -> str:
    """Plain text, whoever wrote it, as LaTeX shows it; line breaks become spaces."""
    return "".join(_ESCAPED.get(character, character) for character in " ".join(clean(text).split()))


def table(summary: Summary) -> str:
    """The latencies, and turn-taking where the scripts have any."""
    lines = [
        r"% Needs \usepackage{booktabs}.",
        r"\begin{table}",
        r"  \centering",
        rf"  \caption{{{_caption(summary)}}}",
        r"  \label{tab:duologue}",
        r"  \begin{tabular}{lrrrrr}",
        r"    \toprule",
        rf"    & p50 & 95\,\% interval & p95 & min{escape(DASH)}max & $n$ \\",
        r"    \midrule",
        *(f"    {line}" for line in _latencies(summary)),
        *(f"    {line}" for line in _turn_taking(summary)),
        r"    \bottomrule",
        r"  \end{tabular}",
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _caption(summary: Summary) -> str:
    attempts = summary.attempts
    parts = [
        f"{summary.target}: {describe_class(summary.conditions)}",
        f"{plural(attempts.total, 'turn')} in {plural(summary.dialogues.measured, 'dialogue')}, "
        f"{attempts.completed} completed, {attempts.invalid} invalid, {attempts.failed} failed; completed turns only",
    ]
    if summary.conditions.perturb:
        parts.append(f"sounds of the user perturbed: {summary.conditions.perturb}")
    if summary.clock is not None and summary.clock.within_ms is not None:
        parts.append(f"latencies within ±{number(summary.clock.within_ms)} ms of the truth")
    return escape(". ".join(parts) + ".")


def _latencies(summary: Summary) -> Iterator[str]:
    for name in ROWS:
        measure = summary.headline.measures[name]
        if measure.n:
            words = words_for(name)
            indent = r"\quad " if words.behind else ""
            yield _row(f"{indent}{escape(words.label + _UNITS.get(measure.unit, ''))}", _cells(measure))


def _cells(measure: MeasureSummary) -> list[str]:
    spread = measure.distribution
    digits = row_digits(measure.unit, spread)
    interval = spread.ci95.get("p50")
    return [
        number(spread.p50, digits),
        _range(interval, digits),
        number(spread.p95, digits),
        _range((spread.minimum, spread.maximum), digits),
        str(measure.n),
    ]


def _range(bounds: tuple[float | None, float | None] | None, digits: int) -> str:
    if bounds is None or None in bounds:
        return DASH
    return DASH.join(number(bound, digits) for bound in bounds)


def _turn_taking(summary: Summary) -> Iterator[str]:
    told = summary.turn_taking
    if told is None or not told.is_duplex:
        return
    yield r"\midrule"
    yield r"turn-taking & share or p50 & 95\,\% or range & & & turns \\"
    yield r"\midrule"
    for row in rows(told):
        yield _row(_named(row), [row.share, row.spread, "", "", row.cases])


def _named(row: Row) -> str:
    return (r"\quad " if row.behind else "") + escape(row.label)


def _row(label: str, cells: list[str]) -> str:
    """label: LaTeX already."""
    return " & ".join([label, *(escape(cell) for cell in cells)]) + r" \\"
