"""The block on turn-taking, on the terminal."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.report.footnotes import Footnotes
from harness.report.turn_taking_wording import Row, curve_line, cut_off_sentence, figure_row, kinds_line, rows
from metrics.turn_taking.totals import Figure, TurnTaking


def print_turn_taking(told: TurnTaking, session: Mapping[str, Figure], console: Console) -> None:
    """Rates and figures of the turns, the curve over pause length in a sentence. session: of class D."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("turn-taking", no_wrap=True)
    for title in ("share or p50", "95 % or range", "turns"):
        table.add_column(title, justify="right", no_wrap=True)
    footnotes = Footnotes()
    for row in (*rows(told), *(figure_row(name, figure) for name, figure in session.items())):
        table.add_row(f"  {row.label}" if row.behind else row.label, row.share, row.spread, _cases(row, footnotes))
    console.print()
    console.print(table, highlight=False)
    for line in footnotes.lines():
        console.print(Text(line, style="dim"), highlight=False)
    if told.pauses:
        console.print(Text(f"{cut_off_sentence(told.pauses)}\n{curve_line(told.pauses)}"), highlight=False)
    console.print(Text(kinds_line(told)), highlight=False)


def _cases(row: Row, footnotes: Footnotes) -> str:
    return f"{row.cases}{footnotes.mark(f'unavailable: {row.missing}')}" if row.missing else row.cases
