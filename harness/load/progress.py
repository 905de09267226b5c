"""Progress of many dialogues at once: one line for all of them."""

from __future__ import annotations

import contextlib
import sys
from collections import Counter, deque

import click

from harness.dialogue.record import Record
from harness.dialogue.tracker import Tracker
from harness.report.wording import one_line
from harness.runs.planning import Slot
from harness.runs.run import Watcher
from metrics.stats import percentile
from sessions.clock import NS_PER_MS, NS_PER_S, Clock, process_cpu_ns

LAST_TURNS = 500
"""The turns that "now" means."""


class LoadProgress(Watcher):
    """On standard error: renewed each second on a terminal, a new line each ten seconds elsewhere."""

    def __init__(self, clock: Clock, *, done: int = 0, quiet: bool = False) -> None:
        """done: dialogues of the plan that an earlier start performed."""
        self._clock = clock
        self._quiet = quiet
        self._live = sys.stderr.isatty()
        self._every_ns = NS_PER_S if self._live else 10 * NS_PER_S
        self._began_ns = self._shown_ns = 0
        self._cpu_ns = 0
        self._width = 0
        self._total = 0
        self._active = 0
        self._already_done = done
        self._done = 0
        self._failed: Counter[str] = Counter()
        self._first_ms: deque[float] = deque(maxlen=LAST_TURNS)
        self._late_max_ns = 0

    def dialogue_begins(self, slot: Slot, total: int) -> None:
        if not self._began_ns:
            self._began_ns = self._shown_ns = self._clock.now_ns()
            self._cpu_ns = process_cpu_ns()
        self._total = total
        self._active += 1
        self._renew()

    def turn_over(self, slot: Slot, turn: int, tracker: Tracker) -> None:
        self._late_max_ns = max(self._late_max_ns, tracker.late_max_ns)
        instants = [r.first_audio_ns for r in tracker.of_turn(turn) if r.first_audio_ns is not None]
        if instants:
            self._first_ms.append((min(instants) - tracker.turns[-1].speech_end_ns) / NS_PER_MS)
        self._renew()

    def dialogue_over(self, slot: Slot, record: Record) -> None:
        self._active -= 1
        self._done += 1
        self._failed.update(record.gave_up)
        self._renew()

    def close(self) -> None:
        """Show the last state, and end the line."""
        if not self._began_ns:
            return
        self._show()
        if self._live and not self._quiet:
            click.echo(err=True)

    def _renew(self) -> None:
        now_ns = self._clock.now_ns()
        if now_ns - self._shown_ns >= self._every_ns:
            self._shown_ns = now_ns
            self._show()

    def _show(self) -> None:
        if self._quiet:
            return
        text = one_line(self.line())
        with contextlib.suppress(OSError):  # nobody reads it: the measurement goes on
            if self._live:
                click.echo(f"\r{text:<{self._width}}", nl=False, err=True)
                self._width = len(text)
            else:
                click.echo(text, err=True)

    def line(self) -> str:
        """Sessions, failed turns by kind, first packet now, the worst send, this process's CPU, what is left."""
        parts = [f"{self._active} active", f"{self._already_done + self._done}/{self._total} dialogues done"]
        if self._failed:
            parts.append("turns failed: " + ", ".join(f"{n} {kind}" for kind, n in self._failed.most_common()))
        if self._first_ms:
            p50, p95 = (percentile(self._first_ms, q) for q in (50, 95))
            parts.append(f"first packet p50 {p50:.0f} p95 {p95:.0f} ms")
        parts.append(f"sends at most {self._late_max_ns / NS_PER_MS:.1f} ms late")
        past_ns = self._clock.now_ns() - self._began_ns
        if past_ns:
            parts.append(f"CPU {100 * (process_cpu_ns() - self._cpu_ns) / past_ns:.0f} %")
        left = self._total - self._already_done - self._done
        if self._done and left:
            parts.append(f"{past_ns / NS_PER_S / self._done * left:.0f} s left")
        return ", ".join(parts)
