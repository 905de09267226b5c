"""Two performances of the same turns side by side: a recorded one and one that replayed it, turn by turn."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.replay.source import run_of
from harness.report.wording import DASH, clean, digits_for, number, one_line, plural
from harness.results.derive import derive
from harness.results.raw_record import raw_record
from metrics.result import TurnResult, Value
from metrics.turns import measure_conversation
from sessions.clock import NS_PER_MS
from sessions.errors import SetupError
from sessions.runs import RunFolder, disk_errors, indented, write_atomic

BESIDE = "beside.json"
BESIDE_VERSION = 1
MEASURES = ("first_packet_ms", "voice_to_voice_ms")
"""Those with columns of their own on screen; the file has all."""


class BesideTurn(msgspec.Struct, frozen=True):
    """One turn of a performance. start_ms: its first sample, after the session was ready · measures: those that have a
    value · answered: the reply's words."""

    dialogue: str
    turn_class: str
    outcome: str
    start_ms: float | None
    measures: dict[str, float]
    answered: str


class BesideRow(msgspec.Struct, frozen=True):
    """turn: from 1 · a: recorded · b: replayed; null where it never came to that turn."""

    turn: int
    a: BesideTurn | None
    b: BesideTurn | None


class Beside(msgspec.Struct, frozen=True):
    """a: the recorded run, or one dialogue of it · b: the run beside it · how: it was said again, "performed" or
    "scripted"; "measured": a measurement of its own."""

    a: str
    b: str
    target_a: str
    target_b: str
    how: str
    rows: list[BesideRow]
    version: int = BESIDE_VERSION


def counted(run: RunFolder) -> list[str]:
    """The dialogues of a run that count, in the order of its plan."""
    return [line.id for line in sorted(run.journal(), key=lambda line: line.number) if not line.warmup]


def recorded_place(place: Path) -> tuple[RunFolder, list[str]]:
    """A run and its dialogues that count; of RUN/dialogues/ID that one. Raises `SetupError` where there are none."""
    if not (place / "plan.json").is_file():
        return run_of(place), [place.resolve().name]
    run = RunFolder.open(place)
    ids = counted(run)
    if not ids:
        raise SetupError(f"the run {place} has no finished dialogue that counts", "Choose one that has")
    return run, ids


def beside(a: RunFolder, b: RunFolder, pairs: Sequence[tuple[str, str]], how: str, named: str = "") -> Beside:
    """The pairs of dialogues (recorded, replayed) turn by turn. named: what the recorded one is called, if not its
    run. Raises `SetupError` where a record cannot be read."""
    rows = []
    for old, new in pairs:
        before, after = _turns(a, old), _turns(b, new)
        rows += [BesideRow(turn + 1, before.get(turn), after.get(turn)) for turn in sorted({*before, *after})]
    return Beside(
        a=named or str(a.path),
        b=str(b.path),
        target_a=a.plan.target,
        target_b=b.plan.target,
        how=how,
        rows=rows,
    )


def keep(run: RunFolder, compared: Beside) -> Path:
    """Write it into the run that replayed."""
    place = run.path / BESIDE
    with disk_errors(run.path):
        write_atomic(place, indented(compared))
    return place


def _turns(run: RunFolder, dialogue_id: str) -> dict[int, BesideTurn]:
    events, received = raw_record(run, dialogue_id)
    conversation = derive(events, received).conversation
    starts = {turn.index: turn.start_ns for turn in conversation.turns}
    ready_ns = conversation.ready_ns or 0
    return {
        turn.turn: BesideTurn(
            dialogue=dialogue_id,
            turn_class=turn.turn_class,
            outcome=turn.outcome,
            start_ms=(starts[turn.turn] - ready_ns) / NS_PER_MS if turn.turn in starts else None,
            measures=_values(turn),
            answered=turn.heard_text,
        )
        for turn in measure_conversation(conversation, limit_lateness_ms=run.plan.limits.lateness_ms)
    }


def _values(turn: TurnResult) -> dict[str, float]:
    """All that have a value, those of turn-taking too."""
    measures = {**turn.measures, **turn.turn_taking}
    return {name: measured.value for name, measured in measures.items() if isinstance(measured, Value)}


# ---- on the terminal ---------------------------------------------------------------------------------------------


def print_beside(compared: Beside, console: Console) -> None:
    """Print it. Needs 80 columns."""
    console.print()
    for name, run, target in (("A", compared.a, compared.target_a), ("B", compared.b, compared.target_b)):
        console.print(Text.assemble((f"{name}  {one_line(run)}", "bold"), (f"  {clean(target)}", "dim")))
    console.print()
    console.print(_table(compared.rows), highlight=False)
    console.print()
    differing = [row for row in compared.rows if _words(row.a) != _words(row.b)]
    for row in differing:
        console.print(Text(f"{_name(row)}", style="dim"), highlight=False)
        for side, turn in (("A", row.a), ("B", row.b)):
            console.print(Text(f"  {side}  {one_line(_words(turn)) or DASH}"), highlight=False)
    same = len(compared.rows) - len(differing)
    console.print(Text(f"{plural(same, 'turn')} with the same words.", style="dim"), highlight=False)


def _table(rows: Sequence[BesideRow]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("\nms", no_wrap=True)
    for title in ("first\npacket A", "\nB", f"\nB {DASH} A", "voice-to-\nvoice A", "\nB", f"\nB {DASH} A"):
        table.add_column(title, justify="right", no_wrap=True)
    table.add_column("\noutcome")
    for row in rows:
        cells = [cell for name in MEASURES for cell in _cells(row, name)]
        a, b = _outcome(row.a), _outcome(row.b)
        table.add_row(_name(row), *cells, a if a == b else f"{a} → {b}")
    return table


def _name(row: BesideRow) -> str:
    dialogue = row.a.dialogue if row.a is not None else row.b.dialogue if row.b is not None else ""
    return f"{dialogue} turn {row.turn}"


def _cells(row: BesideRow, name: str) -> list[str]:
    a, b = (None if turn is None else turn.measures.get(name) for turn in (row.a, row.b))
    difference = None if a is None or b is None else b - a
    digits = digits_for(*(value for value in (a, b) if value is not None)) if a is not None or b is not None else 0
    return [
        DASH if a is None else number(a, digits),
        DASH if b is None else number(b, digits),
        DASH if difference is None else number(difference, max(digits, 1)),
    ]


def _outcome(turn: BesideTurn | None) -> str:
    if turn is None:
        return "not reached"
    return turn.outcome if turn.turn_class == "completed" else f"{turn.turn_class}: {turn.outcome}"


def _words(turn: BesideTurn | None) -> str:
    return "" if turn is None else turn.answered
