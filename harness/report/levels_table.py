"""Levels of a sweep or a search, on the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.calibrate.bound import bound_line
from harness.load.levels import SHOWN, Level, Levels
from harness.report.wording import DASH, clean, number, plural, speech_end_bound, words_for


def print_levels(found: Levels, console: Console) -> None:
    """One row a level (latencies in ms), then the answer of a search. Nothing where no level was performed."""
    if not found.levels:
        return
    console.print()
    console.print(Text(clean(found.target), style="bold"), highlight=False)
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    titles = ["sessions", "done", "invalid", "failed"]
    titles += [title for name in SHOWN for title in (f"{words_for(name).label}\np50", "\np95")]
    for title in titles:
        table.add_column(title, justify="right")
    if found.objectives:
        table.add_column("held")
    for level in sorted(found.levels, key=lambda level: level.sessions):
        cells = [str(n) for n in (level.sessions, level.completed, level.invalid, level.failed)]
        for name in SHOWN:
            figures = level.figures[name]
            cells += [number(figures[one]) if one in figures else DASH for one in ("p50", "p95")]
        if found.objectives:
            cells.append({True: "yes", False: "no", None: "?"}[level.held])
        table.add_row(*cells)
    console.print(table, highlight=False)
    for line in _bounds(found.levels):
        console.print(Text(clean(line), style="dim"), highlight=False)
    for level in sorted(found.levels, key=lambda level: level.sessions):
        told = level.why or [f"{plural(level.lost, 'turn')} lost with a worker that died"] * bool(level.lost)
        if told:
            console.print(Text(f"{plural(level.sessions, 'session')}: {clean('; '.join(told))}"), highlight=False)
    if found.highest is not None:
        asked = clean(" and ".join(found.objectives))
        answer = plural(found.highest, "session") if found.highest else "not even 1 session"
        console.print(Text(f"\nThe most that hold {asked}: {answer}.", style="bold"), highlight=False)
    console.print()


def _bounds(levels: Sequence[Level]) -> Iterator[str]:
    """How far the latencies of each level may be off."""
    told = [
        f"±{number(level.clock.within_ms, 2)} ms with {plural(level.sessions, 'session')}"
        for level in sorted(levels, key=lambda level: level.sessions)
        if level.clock is not None and level.clock.within_ms is not None
    ]
    if told:
        share = "95 % of the checks before and after; all where they are below 20"
        yield f"Latencies are within {', '.join(told)} of the truth ({share})."
    if len(told) < len(levels):
        yield bound_line(None) if not told else "No check of the other levels was on time."
    for level in levels:
        for warning in level.clock.warnings if level.clock else ():
            yield f"{plural(level.sessions, 'session')}: {warning}"
    methods = {method: bound for level in levels for method, bound in level.speech_end_bounds.items()}
    yield from (speech_end_bound(*item) for item in methods.items())
