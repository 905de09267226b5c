"""A comparison on the terminal: table of differences, verdicts in words, conditions. Plain text without a terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from harness.compare.compare import Compared, ComparedSide, Row
from harness.report.footnotes import Footnotes
from harness.report.wording import DASH, clean, digits_for, number, one_line, plural, span, words_for
from metrics.comparison import Difference


def print_comparison(compared: Compared, console: Console) -> None:
    """Print it. Needs 80 columns."""
    console.print()
    for name, side in (("A", compared.a), ("B", compared.b)):
        console.print(Text.assemble((f"{name}  {one_line(side.run)}", "bold"), (f"  {_where(side)}", "dim")))
        console.print(Text(f"   {_attempts(side)}", style="dim"))
    footnotes = Footnotes()
    console.print(Padding(_table(compared, footnotes), (1, 0)), highlight=False)
    for line in (*footnotes.lines(), *compared.bounds):
        console.print(Text(one_line(line), style="dim"), highlight=False)
    console.print()
    for row in compared.rows:
        console.print(Text.assemble((f"{words_for(row.metric).label}: ", "bold"), f"{row.verdict}."), highlight=False)
    console.print()
    for line, style in _below(compared):
        console.print(Text(one_line(line), style=style), highlight=False)
    console.print()


def _where(side: ComparedSide) -> str:
    return f"{clean(side.target)}  {side.created[:19].replace('T', ' ')}"


def _attempts(side: ComparedSide) -> str:
    total = side.completed + side.invalid + side.failed
    lost = f"; {plural(side.lost, 'more turn')} lost" if side.lost else ""
    left = f"; interrupted, {side.left} left" if side.left else ""
    return (
        f"{plural(total, 'turn')} in {plural(side.dialogues, 'dialogue')}: "
        f"{side.completed} completed, {side.invalid} invalid, {side.failed} failed{lost}{left}"
    )


def _below(compared: Compared) -> Iterator[tuple[str, str]]:
    for line in compared.warnings:
        yield f"Warning: {line}.", "yellow"
    yield f"{compared.pairing[0].upper()}{compared.pairing[1:]}.", ""
    for line in compared.remarks:
        yield f"{line[0].upper()}{line[1:]}.", ""


def _table(compared: Compared, footnotes: Footnotes) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("", no_wrap=True)
    table.add_column("", no_wrap=True)
    for title in ("A", "B", f"B {DASH} A", "95 % interval", "n"):
        table.add_column(title, justify="right", no_wrap=True)
    for row in compared.rows:
        marks = " ".join(footnotes.mark(f"not under equal conditions: {compared.allowed[name]}") for name in row.marks)
        label = f"{_label(row)}{f' {marks}' if marks else ''}"
        shown = [one for one in row.comparison.differences if one.difference is not None]
        for one in shown:
            table.add_row(label, *_cells(row, one, footnotes))
            label = ""
        if not shown:
            table.add_row(label, *[DASH] * 5, _count(row))
        for one in row.comparison.differences if shown else ():
            # The number at hand is in column n; without it equal reasons share one note.
            note = f"{one.figure} {one.reason.partition(', has ')[0]}"
            if one.difference is None and note not in footnotes.unmarked:
                footnotes.unmarked.append(note)
    return table


def _label(row: Row) -> str:
    unit = " (ms)" if row.unit == "ms" else ""
    return f"{words_for(row.metric).label}{unit}"


def _cells(row: Row, one: Difference, footnotes: Footnotes) -> list[str]:
    digits = digits_for(one.a, one.b)
    interval = (
        f"{DASH}{footnotes.mark(f'no interval: {one.reason}')}" if one.ci95 is None else span(*one.ci95, digits=digits)
    )
    return [
        one.figure,
        number(one.a, digits),
        number(one.b, digits),
        number(one.difference, digits),
        interval,
        _count(row) if one.figure == "p50" else "",
    ]


def _count(row: Row) -> str:
    n_a, n_b = row.comparison.n_a, row.comparison.n_b
    return str(n_a) if row.comparison.pairing == "paired" else f"{n_a}, {n_b}"
