"""Progress of a run, on standard error: one live line on a terminal, one line per dialogue elsewhere."""

from __future__ import annotations

import contextlib
import sys

import click

from harness.dialogue.record import Record
from harness.dialogue.tracker import Tracker
from harness.report.wording import one_line
from harness.runs.planning import Slot
from harness.runs.run import Watcher
from sessions.clock import NS_PER_MS


class Progress(Watcher):
    """Writes at turn ends only, when no frame is due."""

    def __init__(self, *, quiet: bool = False, label: str = "") -> None:
        """label: what each line begins with."""
        self._quiet = quiet
        self._label = label
        self._live = sys.stderr.isatty()
        self._total: int | None = 0
        self._width = 0

    def dialogue_begins(self, slot: Slot, total: int | None) -> None:
        self._total = total
        self._show(f"{self._place(slot)}: connecting")

    def turn_over(self, slot: Slot, turn: int, tracker: Tracker) -> None:
        count = len(slot.script.turns)
        self._show(f"{self._place(slot)}: turn {turn + 1}/{count}, {_heard(tracker, turn)}")

    def dialogue_over(self, slot: Slot, record: Record) -> None:
        state = "done" if record.error is None else f"failed: {record.error}"
        self._show(f"{self._place(slot)}: {state}")
        if not self._quiet and self._live:
            click.echo(err=True)

    def close(self) -> None:
        """End the live line, so that what follows starts on its own."""
        if self._live and self._width and not self._quiet:
            click.echo(err=True)
            self._width = 0

    def _place(self, slot: Slot) -> str:
        warm = " (warm-up)" if slot.warmup else ""
        return f"{self._label}dialogue {slot.number + 1}/{self._total} {slot.script.name}{warm}"

    def _show(self, text: str) -> None:
        if self._quiet:
            return
        text = one_line(text)
        with contextlib.suppress(OSError):  # nobody reads it: the measurement goes on
            if self._live:
                click.echo(f"\r{text:<{self._width}}", nl=False, err=True)
                self._width = len(text)
            else:
                click.echo(text, err=True)


def _heard(tracker: Tracker, turn: int) -> str:
    replies = tracker.of_turn(turn)
    first = min((reply.first_audio_ns for reply in replies if reply.first_audio_ns is not None), default=None)
    if first is None:
        return "no audio came"
    end_ns = next(live.speech_end_ns for live in tracker.turns if live.index == turn)
    return f"first packet {(first - end_ns) / NS_PER_MS:.0f} ms after speech end"
