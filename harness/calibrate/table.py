"""A calibration on the terminal: the machine's floor, reported − true, what can be told."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from harness.calibrate.machine import Calibration, Level, Resolution
from harness.calibrate.spread import Spread
from harness.report.wording import DASH, MINUS, number, plural

_FLOOR = {
    "clock_read": "reading the clock takes",
    "clock_step": "two readings in a row are apart by",
    "timer_slack": "the kernel may put off a timer by",
    "wake_late": "timers wake late by",
    "heartbeat_lag": "the 5 ms heartbeat is late by",
    "loopback_round_trip": "bare loopback round trip",
}
_KEYS = ("p50", "p99", "max")
_ROWS = (
    ("first packet", "first_packet_ms"),
    ("voice-to-voice", "voice_to_voice_ms"),
    ("gap between packets", "gaps_ms"),
    ("underruns per reply", "underruns"),
)


def print_calibration(found: Calibration, console: Console) -> None:
    """Print all of it. Needs 80 columns; the last line is the verdict in short."""
    load = f"load {found.machine['load_1min']:g}, " if "load_1min" in found.machine else ""
    about = f"{plural(int(found.machine['cores']), 'core')}, {load}{found.software['platform']}"
    console.print(Text.assemble("\n", ("This machine", "bold"), (f"  {about}", "dim")))
    console.print(Padding(_floor(found.floor), (1, 0)), highlight=False)
    for level in found.levels:
        console.print(Text(_title(level), style="bold"))
        console.print(_errors(level), highlight=False)
        console.print()
    about = f"bias: mean of reported {MINUS} true; p50, p99 and max of its size (p99 from 100 up)."
    console.print(Text(about, style="dim"))
    console.print()
    for line in verdict_lines(found):
        console.print(Text(line), highlight=False)


def _columns(first: str, *others: str, width: int) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column(first, no_wrap=True, min_width=width)
    for title in others:
        table.add_column(title, justify="right", no_wrap=True, min_width=7)
    return table


def _floor(floor: dict[str, float]) -> Table:
    table = _columns("its own floor, in ms", "p50", "p99", "max", width=36)
    for name, label in _FLOOR.items():
        single = floor.get(f"{name}_ms")
        figures = (single, None, None) if single is not None else [floor.get(f"{name}_{key}_ms") for key in _KEYS]
        if any(value is not None for value in figures):
            table.add_row(label, *("" if value is None else _short(value) for value in figures))
    return table


def _errors(level: Level) -> Table:
    table = _columns(f"reported {MINUS} true, in ms", "n", "bias", "p50", "p99", "max", width=26)
    for label, name in _ROWS:
        errors: Spread = getattr(level, name)
        figures = (errors.bias, errors.p50, errors.p99, errors.maximum)
        table.add_row(label, str(errors.n), *(DASH if value is None else number(value, 3) for value in figures))
    return table


def _title(level: Level) -> str:
    invalid = f", {level.invalid} of {level.turns} turns invalid" if level.invalid else ""
    stall = f", stalled for {level.stall_max_ms:.0f} ms" if level.stall_max_ms else ""
    return f"{level.transport}, {_at_once(level.dialogues)}{invalid}{stall}"


def _short(value: float) -> str:
    """Reading a clock takes less than a microsecond."""
    return f"{value:.3f}" if abs(value) >= 0.001 or value == 0 else f"{value:.6f}"


def _at_once(dialogues: int) -> str:
    return "1 dialogue at a time" if dialogues == 1 else f"{dialogues} dialogues at once"


def verdict_lines(found: Calibration) -> Iterator[str]:
    """What can be told on this machine; the last line says it in short."""
    for each in found.verdict:
        yield f"{each.transport}, {_at_once(each.dialogues)}:"
        yield f"  {_what_can_be_told(each)}."
    alone = found.verdict[0]
    if alone.latency_ms is None:
        yield "This machine was late in every turn: stop what else runs on it, try again."
    else:
        yield (
            f"This machine tells latencies to ±{alone.latency_ms:.1f} ms, "
            f"differences from {alone.difference_ms:.1f} ms (1 dialogue)."
        )


def _what_can_be_told(found: Resolution) -> str:
    if found.latency_ms is None:
        return "nothing can be told, for no turn was on time"
    gaps = "" if found.gap_ms is None else f" and gaps under {found.gap_ms:.1f} ms"
    return f"±{found.latency_ms:.1f} ms; differences under {found.difference_ms:.1f} ms{gaps} cannot be told"
