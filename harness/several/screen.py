"""Trials on the terminal: how far they lie apart, beside what lies inside them."""

from __future__ import annotations

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from harness.report.wording import DASH, clean, digits_for, number, one_line, plural, span, words_for
from harness.several.trials import TrialRow, Trials


def print_trials(found: Trials, console: Console) -> None:
    """Print them. Needs 80 columns."""
    console.print()
    console.print(Text.assemble((clean(found.target), "bold"), (f"  {_when(found)}", "dim")), highlight=False)
    for trial in found.trials:
        told = f"{trial.completed} turns completed, {trial.invalid} invalid, {trial.failed} failed"
        if trial.lost:
            told += f"; {plural(trial.lost, 'dialogue')} lost"
        console.print(Text(f"{trial.run}: {plural(trial.dialogues, 'dialogue')}, {told}", style="dim"), highlight=False)
    console.print(Padding(_table(found), (1, 0)), highlight=False)
    for line in _notes(found):
        console.print(Text(one_line(line), style="dim"), highlight=False)
    console.print()
    for row in found.rows:
        told = f"{row.verdict}."
        console.print(Text.assemble((f"{words_for(row.metric).label}: ", "bold"), told), highlight=False)
    console.print()


def _when(found: Trials) -> str:
    return f"{found.created[:19].replace('T', ' ')}  {len(found.trials)} of {plural(found.asked, 'trial')}"


def _notes(found: Trials) -> list[str]:
    bounds = {line: trial.run for trial in found.trials for line in trial.bounds}
    everywhere = [line for line in bounds if all(line in trial.bounds for trial in found.trials)]
    own = [f"{trial.run}: {line}" for trial in found.trials for line in trial.bounds if line not in everywhere]
    return [
        "p50: the mean of the trials' medians, its interval by Student's t over trials, and how they spread",
        "SD within: of the turns of one trial around its mean; each row is judged by itself",
        *everywhere,
        *own,
    ]


def _table(found: Trials) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("", no_wrap=True)
    for title in ("p50", "95 % interval", "SD", f"min {DASH} max", "SD within"):
        table.add_column(title, justify="right", no_wrap=True)
    for row in found.rows:
        table.add_row(*_cells(row))
    return table


def _cells(row: TrialRow) -> list[str]:
    spread, label = row.spread, words_for(row.metric).label + (" (ms)" if row.unit == "ms" else "")
    if spread.mean is None or spread.ci95 is None or spread.minimum is None or spread.maximum is None:
        return [label, *[DASH] * 5]
    digits = digits_for(spread.sd or spread.mean)  # of what they spread by, or it would not show
    return [
        label,
        number(spread.mean, digits),
        span(*spread.ci95, digits=digits),
        number(spread.sd),
        span(spread.minimum, spread.maximum, digits),
        number(spread.within_sd),
    ]
