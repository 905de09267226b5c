"""A run on the terminal: latency table, attempts, conditions, what was said and answered.

It is plain text where there is no terminal, so a log file stays readable.
"""

from __future__ import annotations

from collections.abc import Iterator

import click
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from harness.calibrate.bound import bound_line
from harness.report.devices_wording import device_lines
from harness.report.footnotes import Footnotes
from harness.report.load_wording import load_lines
from harness.report.network_wording import network_lines
from harness.report.share_wording import share_lines
from harness.report.summary import Attempts, Group, MeasureSummary, SpokenDialogue, SpokenTurn, Summary
from harness.report.turn_taking_table import print_turn_taking
from harness.report.wording import (
    DASH,
    ROWS,
    clean,
    counts,
    describe_class,
    number,
    one_line,
    plural,
    reasons,
    row_digits,
    span,
    speech_end_bound,
    words_for,
)
from metrics.stats import Distribution
from sessions.runs import encoded

_LEFT_OUT_WHEN_EMPTY = frozenset({"first_text_ms", "server_vad_delay_ms"})
_HEADLINE = "voice_to_voice_ms"
SPOKEN_TURNS_AT_MOST = 24
NEEDED_COLUMNS = 80


class Screen(Console):
    """Standard output for tables: never narrower than they need, and a reader who left is no error of the run."""

    def __init__(self) -> None:
        super().__init__()
        self.width = max(self.width, NEEDED_COLUMNS)

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def tell(summary: Summary, *, as_json: bool) -> None:
    """On standard output: the table, or all of it for machines."""
    if as_json:
        click.echo(encoded(summary).decode())
    else:
        print_table(summary, Screen())


def print_table(summary: Summary, console: Console) -> None:
    """Print the run. Needs 80 columns; without a terminal it is plain text."""
    console.print()
    console.print(_title(summary), highlight=False)
    if summary.headline.turns:
        footnotes = Footnotes()
        console.print(Padding(_latencies(summary, footnotes), (1, 0)), highlight=False)
        footnotes.unmarked += [speech_end_bound(*item) for item in summary.speech_end_bounds.items()]
        footnotes.unmarked.append(bound_line(summary.clock))
        for line in footnotes.lines():
            console.print(Text(line, style="dim"), highlight=False)
    else:
        console.print(Text("\nNo turn was completed, so there is no latency to tell.", style="bold"), highlight=False)
    console.print()
    for line in (*network_lines(summary), *device_lines(summary)):
        console.print(Text(line), highlight=False)
    if summary.turn_taking is not None and summary.turn_taking.is_duplex:
        print_turn_taking(summary.turn_taking, summary.session, console)
    console.print()
    for line in (*attempt_lines(summary), *condition_lines(summary)):
        console.print(Text(line), highlight=False)
    _print_spoken(summary, console)
    console.print()


def attempt_lines(summary: Summary) -> Iterator[str]:
    """How many attempts there were, and what became of them."""
    attempts, measured = summary.attempts, summary.dialogues.measured
    yield (
        f"{plural(attempts.total, 'turn')} in {plural(measured, 'dialogue')}: "
        f"{attempts.completed} completed, {attempts.invalid} invalid, {attempts.failed} failed{_in_brackets(attempts)}."
    )
    if summary.dialogues.lost:
        lost = plural(attempts.lost, "more turn"), plural(summary.dialogues.lost, "dialogue")
        yield f"Lost: {lost[0]} in {lost[1]}, of which nothing is known."
    if attempts.outcomes["completed"].keys() - {"answered"}:
        yield f"Completed: {counts(attempts.outcomes['completed'])}."
    if attempts.invalid:
        limit_ms = summary.conditions.lateness_limit_ms
        yield f"Invalid: this machine was more than {limit_ms:g} ms late, so their figures are not used."
    yield from load_lines(summary.load, summary.start_delay_ms)
    yield from share_lines(summary)
    if attempts.never_attempted and summary.microphone is not None:
        left_out = plural(attempts.never_attempted, "turn")
        yield f"{left_out} left out: the person ended the conversation before the answer was over."
    elif attempts.never_attempted:
        yield f"{plural(attempts.never_attempted, 'turn')} never attempted: the dialogue had ended before."
    if summary.false_starts.count:
        yield (
            f"False starts: {summary.false_starts.count} in {plural(summary.false_starts.turns, 'turn')}, "
            f"{number(summary.false_starts.heard_ms)} ms of them heard."
        )
    if summary.flags:
        yield f"Remarks: {counts(summary.flags)}."
    yield from (f"{remark[0].upper()}{remark[1:]}." for remark in summary.remarks)
    if summary.clock is not None:
        yield from summary.clock.warnings


def condition_lines(summary: Summary) -> Iterator[str]:
    """What a reader must know to compare these figures with others."""
    conditions = summary.conditions
    yield f"{describe_class(conditions)}."
    if conditions.perturb:
        yield f"The user's sounds were perturbed: {conditions.perturb}."
    methods = ", ".join(conditions.speech_end_methods) or "none"
    yield f"Speech end by {methods}; audible by gate/{summary.definitions.get('gate', '?')}; {_floor(summary)}"


def _floor(summary: Summary) -> str:
    floor = summary.machine_floor
    if "wake_late_p50_ms" not in floor or "wake_late_p99_ms" not in floor:
        return "this machine's timing floor was not taken."
    p50, p99 = (number(floor[name]) for name in ("wake_late_p50_ms", "wake_late_p99_ms"))
    return f"this machine's timers wake {p50} ms late (p99 {p99} ms)."


def _title(summary: Summary) -> Text:
    return Text.assemble((clean(summary.target), "bold"), (f"  {summary.created[:19].replace('T', ' ')}", "dim"))


def _in_brackets(attempts: Attempts) -> str:
    return f" ({counts(attempts.outcomes['failed'])})" if attempts.failed else ""


def _latencies(summary: Summary, footnotes: Footnotes) -> Table:
    """The rows that everybody asks for, with those of first and later turns under the headline."""
    with_intervals = any("p50" in m.distribution.ci95 for m in summary.headline.measures.values())
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("in ms", no_wrap=True)
    for title in ("p50", *(("95 % interval",) if with_intervals else ()), "p95", f"min {DASH} max", "n"):
        table.add_column(title, justify="right", no_wrap=True)
    for name in ROWS:
        measure = summary.headline.measures[name]
        if measure.n == 0 and name in _LEFT_OUT_WHEN_EMPTY:
            continue
        style = "bold" if name == _HEADLINE else ""
        table.add_row(_label(name), *_cells(measure, with_intervals, footnotes), style=style)
        if name == _HEADLINE:
            for label, group in (("first turns", summary.first_turns), ("later turns", summary.later_turns)):
                _add_group(table, label, group, with_intervals, footnotes)
    if not with_intervals:
        reason = summary.headline.measures[_HEADLINE].distribution.reasons.get("ci95", "no values")
        footnotes.unmarked.append(f"no 95 % interval: {reason}")
    return table


def _label(name: str) -> str:
    own = {"silence_padding_ms": "", "gap_max_ms": "", "underruns_b0": "per reply", "real_time_factor": ""}
    words = words_for(name)
    label = f"{words.label} {own.get(name, '')}".rstrip()
    return f"  {label}" if words.behind else label


def _add_group(table: Table, label: str, group: Group, with_intervals: bool, footnotes: Footnotes) -> None:
    measure = group.measures[_HEADLINE]
    if measure.n:
        table.add_row(f"  {label}", *_cells(measure, with_intervals, footnotes))


def _cells(measure: MeasureSummary, with_intervals: bool, footnotes: Footnotes) -> list[str]:
    distribution = measure.distribution
    if distribution.minimum is None or distribution.maximum is None:
        why = reasons({**measure.unavailable, **measure.errors}) or "no completed turn"
        dash = f"{DASH}{footnotes.mark(f'unavailable: {why}')}"
        return [dash, *([DASH] if with_intervals else []), DASH, DASH, "0"]
    digits = row_digits(measure.unit, distribution)
    cells = [number(distribution.p50, digits)]
    if with_intervals:
        low_high = distribution.ci95.get("p50")
        cells.append(span(*low_high, digits) if low_high else _dash(distribution, "ci95", footnotes))
    p95 = distribution.p95
    cells.append(number(p95, digits) if p95 is not None else _dash(distribution, "p95", footnotes))
    return [*cells, span(distribution.minimum, distribution.maximum, digits), _count(measure, footnotes)]


def _count(measure: MeasureSummary, footnotes: Footnotes) -> str:
    missing = {**measure.unavailable, **measure.errors}
    return f"{measure.n}{footnotes.mark(f'unavailable: {reasons(missing)}') if missing else ''}"


def _dash(distribution: Distribution, figure: str, footnotes: Footnotes) -> str:
    # The number at hand is in column n; without it equal reasons share one footnote.
    reason = distribution.reasons.get(figure, "not given").partition(", has ")[0]
    name = "95 % interval" if figure == "ci95" else figure
    return f"{DASH}{footnotes.mark(f'{name} {reason}')}"


def _print_spoken(summary: Summary, console: Console) -> None:
    left = SPOKEN_TURNS_AT_MOST
    measured = [dialogue for dialogue in summary.spoken if dialogue.completed and not dialogue.warmup]
    for position, dialogue in enumerate(measured):
        if left < len(dialogue.turns) and position:
            console.print(Text(f"\n… and {len(measured) - position} more in the report", style="dim"))
            return
        left -= len(dialogue.turns)
        console.print()
        console.print(_spoken(dialogue), highlight=False)


def _spoken(dialogue: SpokenDialogue) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.title = Text(f"dialogue {dialogue.number + 1}  {one_line(dialogue.script)}", style="bold")
    table.title_justify = "left"
    table.add_column(no_wrap=True, style="dim")
    table.add_column(justify="right", no_wrap=True, min_width=7)
    table.add_column(overflow="fold")
    for turn in dialogue.turns:
        said = DASH if turn.kind == "speech" else f"({turn.kind})"
        if turn.understood and not turn.said:  # a person's words, as far as anybody knows them
            said = f"{one_line(turn.understood)} (as the server understood it)"
        table.add_row("user", "", Text(one_line(turn.said) or said))
        table.add_row("agent", _verdict(turn), Text(one_line(turn.answered) or DASH))
        if turn.turn_class != "completed":
            table.add_row("", "", Text(one_line(f"{turn.outcome}: {turn.detail}".removesuffix(": ")), style="dim"))
    if not dialogue.turns:
        table.add_row("", "", Text(one_line("; ".join(dialogue.faults)) or "no turn came about"))
    return table


def _verdict(turn: SpokenTurn) -> Text:
    if turn.turn_class != "completed":
        return Text(turn.turn_class, style="yellow" if turn.turn_class == "invalid" else "red")
    if turn.voice_to_voice_ms is None:
        return Text(turn.outcome)
    return Text(f"{number(turn.voice_to_voice_ms)} ms", style="bold")
