"""An analysis on the terminal."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from harness.analyze.measuring import VOICE_TO_VOICE
from harness.analyze.result import Analysis, AudioTurn, DetectorStatement, LaneResult, SampleResult, ShortSounds
from harness.report.footnotes import Footnotes
from harness.report.turn_taking_wording import (
    Row,
    curve_line,
    cut_off_sentence,
    figure_row,
    kinds_line,
    rate_row,
    share,
)
from harness.report.wording import DASH, number, one_line, plural, reasons, row_digits, span, words_for
from harness.speech_end_error import Figures
from metrics.result import Value
from metrics.turn_taking.totals import AFTER_INTERRUPTION, Figure
from sessions.clock import NS_PER_S

TURNS_AT_MOST = 24
SAMPLES_AT_MOST = 12
_TOLD_BELOW = ("spurious_speech", "interrupted_heard_ms", "interrupted_generated_ms")
"""No audio can give these, which is told once."""
_BY_FAMILY = (
    "first packet",
    "first text",
    "voice-to-voice behind buffers and from the last frame",
    "silence padding",
    "commit to first packet",
    "server VAD delay",
    "gaps",
    "underruns",
    "gapless prebuffer",
    "real-time factor",
    "heard versus generated audio",
    "further replies unasked",
    "false starts",
    "why a reply failed",
    "connection phases",
    "this machine's lateness",
)


def print_analysis(analysis: Analysis, console: Console) -> None:
    """Print it. Needs 80 columns; without a terminal it is plain text."""
    for line in sample_lines(analysis):
        console.print(Text(line), highlight=False)
    if not analysis.turns:
        return
    footnotes = Footnotes()
    console.print(Padding(_figures(analysis, footnotes), (1, 0)), highlight=False)
    for note in footnotes.lines():
        console.print(Text(note, style="dim"), highlight=False)
    if len(analysis.samples) == 1:
        console.print(_turns(analysis.samples[0]), highlight=False)
        for turn in analysis.samples[0].turns[:TURNS_AT_MOST]:
            for flag in turn.flags:
                console.print(Text(f"turn {turn.turn + 1}: {flag}", style="dim"), highlight=False)
        console.print()
    for line in (*_closing(analysis), *detector_lines(analysis.detector), not_from_audio_line()):
        console.print(Text(line), highlight=False)


def sample_lines(analysis: Analysis) -> Iterator[str]:
    """What was listened to, what was found wrong with it, what could not be used."""
    shown = analysis.samples[:SAMPLES_AT_MOST]
    for sample in shown:
        yield (
            f"{one_line(sample.name)}: {sample.duration_ms / 1000:.1f} s; "
            f"user {_lane(sample.user)}; agent {_lane(sample.agent)}; {plural(len(sample.turns), 'turn')}"
        )
        if len(analysis.samples) == 1:
            yield _shares(sample)
        yield from (f"  note: {one_line(note)}" for note in sample.notes)
    rest = analysis.samples[SAMPLES_AT_MOST:]
    if rest:
        noted = sum(bool(sample.notes) for sample in rest)
        yield f"and {plural(len(rest), 'more sample')}, {noted} of them with notes (--json, --out)"
    yield from (f"left out: {one_line(failed.name)}: {one_line(failed.problem)}" for failed in analysis.failed)


def _lane(lane: LaneResult) -> str:
    return f"channel {lane.channel}, {plural(len(lane.stretches_ns), 'stretch', 'stretches')}"


def _shares(sample: SampleResult) -> str:
    one, whole = sample.shares, sample.duration_ms
    parts = (("the user", one.user_ms), ("the agent", one.agent_ms), ("both", one.both_ms), ("neither", one.neither_ms))
    told = ", ".join(f"{who} {ms / 1000:.1f} s ({100 * ms / whole:.0f} %)" for who, ms in parts)
    return f"  speaking: {told}; longest silence between {one.longest_silence_ms / 1000:.1f} s"


def _figures(analysis: Analysis, footnotes: Footnotes) -> Table:
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="dim")
    table.add_column("turn-taking", no_wrap=True)
    for title in ("share or p50", "95 % or range", "turns", "detector"):
        table.add_column(title, justify="right", no_wrap=True)
    errors = analysis.detector.of_measure
    for row in (*_voice_to_voice(analysis.voice_to_voice), *_turn_taking(analysis)):
        cells = (row.share, row.spread, f"{row.cases}{_mark(row, footnotes)}", _error(errors.get(row.name)))
        table.add_row(f"  {row.label}" if row.behind else row.label, *cells)
    return table


def _turn_taking(analysis: Analysis) -> Iterator[Row]:
    told = analysis.turn_taking
    yield from (rate_row(name, rate) for name, rate in told.rates.items() if name not in _TOLD_BELOW)
    figures = dict(told.figures)
    after = figures.pop(AFTER_INTERRUPTION, None)
    for name, figure in figures.items():
        if name not in _TOLD_BELOW:
            yield figure_row(name, figure)
        if name == "barge_in_stop_ms" and after is not None:
            yield figure_row(AFTER_INTERRUPTION, after)


def _voice_to_voice(figure: Figure) -> Iterator[Row]:
    label, spread = words_for(VOICE_TO_VOICE), figure.distribution
    digits, middle, between = row_digits("ms", spread), DASH, DASH
    if spread.p50 is not None and spread.minimum is not None and spread.maximum is not None:
        middle, between = f"{number(spread.p50, digits)} ms", f"{span(spread.minimum, spread.maximum, digits)} ms"
    missing = reasons(figure.unavailable)
    yield Row(VOICE_TO_VOICE, label.label, label.meaning, middle, between, str(spread.n), missing)
    if spread.p95 is not None:
        interval = spread.ci95.get("p95")
        shown = f"{span(*interval, digits)} ms" if interval else DASH
        yield Row("p95", "its p95", "", f"{number(spread.p95, digits)} ms", shown, "", "", behind=True)


def _mark(row: Row, footnotes: Footnotes) -> str:
    return footnotes.mark(f"unavailable: {row.missing}") if row.missing else ""


def _error(error: Figures | None) -> str:
    if error is None or error.bias_ms is None:
        return ""
    sign = "+" if error.bias_ms > 0 else ""
    return f"{sign}{number(error.bias_ms, 0)}, {number(error.p50_ms, 0)}, {number(error.p95_ms, 0)}"


def _turns(sample: SampleResult) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="dim")
    for title in ("turn", "from", "to", "kind", "voice-to-voice", "stop", "overlap"):
        table.add_column(title, justify="left" if title == "kind" else "right", no_wrap=True)
    for turn in sample.turns[:TURNS_AT_MOST]:
        kind = turn.kind + (" (label)" if turn.kind_by == "label" else "")
        names = (VOICE_TO_VOICE, "barge_in_stop_ms", "overlap_ms")
        times = (f"{t_ns / NS_PER_S:.2f} s" for t_ns in (turn.onset_ns, turn.end_ns))
        cells = (_ms(turn, name) for name in names)
        table.add_row(str(turn.turn + 1), *times, kind, *cells)
    if len(sample.turns) > TURNS_AT_MOST:
        table.add_row("…", "", "", plural(len(sample.turns) - TURNS_AT_MOST, "more turn"))
    return table


def _ms(turn: AudioTurn, name: str) -> str:
    measured = turn.measures.get(name)
    return f"{number(measured.value, 0)} ms" if isinstance(measured, Value) else DASH


def _closing(analysis: Analysis) -> Iterator[str]:
    if analysis.turn_taking.pauses:
        yield cut_off_sentence(analysis.turn_taking.pauses)
        yield curve_line(analysis.turn_taking.pauses)
    if analysis.turn_taking.turns:
        yield kinds_line(analysis.turn_taking)
    yield short_line(analysis.short_sounds)


def short_line(short: ShortSounds) -> str:
    """The row of the short sounds."""
    if not short.count:
        return "Short sounds (under 1 s, kind unknown): none."
    told = [f"Short sounds (under 1 s, kind unknown): {short.count}"]
    if short.over_agent:
        of = f"{short.stopped.hits} of {short.stopped.of}"
        told.append(f"{short.over_agent} over the agent, which fell silent within 2 s in {of} ({share(short.stopped)})")
    if short.count - short.over_agent:
        of = f"{short.followed.hits} of {short.followed.of}"
        told.append(f"{short.count - short.over_agent} in its quiet, where it spoke within 2 s in {of}")
    return "; ".join(told) + ". Give their kinds with --labels."


def detector_lines(detector: DetectorStatement) -> Iterator[str]:
    """The detector's own error in a sentence."""
    shown = detector.conditions.get(detector.stated) if detector.stated else detector.pooled
    if shown is None:
        yield f"Edges of speech by {detector.name}: its own error was not measured."
        return
    on = (
        f"{detector.marked_audio}, {detector.stated} only" if detector.stated else f"{detector.marked_audio}, all of it"
    )
    edges = ", ".join(
        f"{name} bias {number(one.bias_ms, 0)}, p50 {number(one.p50_ms, 0)}, p95 {number(one.p95_ms, 0)} ms"
        for name, one in (("onset", shown.onset), ("offset", shown.offset))
    )
    yield f"Edges of speech by {detector.name}: {edges} (built-in {on})."
    yield "detector: its own error in ms: bias (positive: too long), p50, p95 of the magnitude. No bias is subtracted."


def not_from_audio_line() -> str:
    """What needs an event log, by name."""
    return f"Not to be had without an event log: {', '.join(_BY_FAMILY)}."
