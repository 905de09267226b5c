"""Scores on the terminal: the table of figures, and bars while they are made."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Collection, Iterable, Iterator

import click
import msgspec
from rich.console import Console
from rich.padding import Padding
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from harness.report.footnotes import Footnotes
from harness.report.wording import DASH, one_line
from harness.score.summary import Scores
from harness.score.table import metric, parts_of
from harness.score.wording import Row, lines_below, told_rows
from metrics.scoring import Metric, ScoreLine


def only(scores: Scores, names: Collection[str]) -> Scores:
    """Those of these metrics; the others are told to be there."""
    others = [name for name in scores.metrics if name not in names]
    if not others:
        return scores
    told = f"Scored before: {', '.join(others)}; summary.json has them too"
    shown = {name: found for name, found in scores.metrics.items() if name in names}
    return msgspec.structs.replace(scores, metrics=shown, remarks=[*scores.remarks, told])


def print_scores(scores: Scores, console: Console) -> None:
    """Needs 80 columns; without a terminal it is plain text."""
    footnotes = Footnotes()
    console.print()
    if scores.metrics:
        console.print(Padding(_table(scores, footnotes), (0, 0, 1, 0)), highlight=False)
    for line in footnotes.lines():
        console.print(Text(one_line(line), style="dim"), highlight=False)
    if footnotes.lines():
        console.print()
    for line in lines_below(scores):
        console.print(Text(one_line(line)), highlight=False)
    console.print()


def _table(scores: Scores, footnotes: Footnotes) -> Table:
    rows = [row for name in scores.metrics for row in told_rows(scores, name)]
    with_intervals = any(row.spread != DASH for row in rows)
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("score", overflow="fold")
    table.add_column("", no_wrap=True, style="dim")
    for title in ("mean", *(("95 % interval",) if with_intervals else ()), f"min {DASH} max", "n"):
        table.add_column(title, justify="right", no_wrap=True)
    for row in rows:
        mark = footnotes.mark(row.missing) if row.missing else ""
        spread = row.spread
        if with_intervals and row.no_spread:
            spread += footnotes.mark(f"no 95 % interval: {row.no_spread}")
        cells = [row.value, *([spread] if with_intervals else []), row.range, f"{row.used}{mark}"]
        table.add_row(f"  {row.label}" if row.behind else row.label, row.unit, *cells)
    if not with_intervals:
        footnotes.unmarked += _without_intervals(rows)
    return table


def _without_intervals(rows: Iterable[Row]) -> list[str]:
    """Why there are none, where no row has one: the most common reason for all, each other one with whose it is."""
    labels: dict[str, list[str]] = {}
    for row in rows:
        if row.no_spread:
            labels.setdefault(row.no_spread, []).append(row.label)
    common, *others = sorted(labels, key=lambda reason: -len(labels[reason])) or [""]
    told = [f"no 95 % interval: {common}"] if common else []
    return told + [f"no 95 % interval of {', '.join(labels[reason])}: {reason}" for reason in others]


def print_metrics(rows: Iterable[tuple[Metric, str]], console: Console) -> None:
    """rows: each metric, and why it cannot be had here, "" where it can."""
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for title in ("metric", "version", "what it is; what it needs"):
        table.add_column(title, no_wrap=title != "what it is; what it needs", overflow="fold")
    for one, why in rows:
        told = Text(one_line(one.purpose))
        options = [option.name for option in one.options]
        options += [f"{part.name}.{option.name}" for part in parts_of(one) for option in part.options]
        if options:
            told.append(f"\noptions: {', '.join(options)}", style="dim")
        if why:
            told.append(f"\nnot here: {one_line(why)}", style="dim")
        table.add_row(one.name, one.version.rpartition("/")[2], told)
    console.print(table, highlight=False)


class Bars:
    """Watches the engine: a bar per metric on a terminal; elsewhere what it remarks, alone."""

    def __init__(self, display: Progress | None) -> None:
        self._display = display
        self._tasks: dict[str, TaskID] = {}

    def metric_begins(self, name: str, total: int | None) -> None:
        if self._display is not None:
            shown = "transcript" if name == "asr" else name.replace("_", " ")
            self._tasks[name] = self._display.add_task(shown, total=total, visible=bool(metric(name).make))

    def scored(self, name: str, line: ScoreLine) -> None:
        self.kept(name)

    def kept(self, name: str) -> None:
        if self._display is not None and name in self._tasks:
            self._display.advance(self._tasks[name])

    def remark(self, text: str) -> None:
        if self._display is not None:
            self._display.console.print(one_line(text), markup=False, highlight=False, soft_wrap=True)
        else:
            with contextlib.suppress(OSError):  # nobody reads it
                click.echo(one_line(text), err=True)


@contextlib.contextmanager
def bars() -> Iterator[Bars]:
    """On standard error."""
    if not sys.stderr.isatty():
        yield Bars(None)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as display:
        yield Bars(display)
