"""Progress of many dialogues at once: one line for all of them."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable

import click

from harness.dialogue.record import Record
from harness.dialogue.tracker import Tracker
from harness.load.live import Live
from harness.report.wording import one_line
from harness.runs.planning import Slot
from harness.runs.run import Watcher
from metrics.stats import percentile
from sessions.clock import NS_PER_MS, NS_PER_S, Clock, process_cpu_ns


class LoadProgress(Watcher):
    """On standard error: renewed each second on a terminal, a new line each ten seconds elsewhere."""

    def __init__(
        self,
        clock: Clock,
        *,
        done: int = 0,
        time_left_s: float | None = None,
        quiet: bool = False,
        cpu_ns: Callable[[], int] = process_cpu_ns,
    ) -> None:
        """done: dialogues of the plan that an earlier start performed · time_left_s: of a run that lasts for a time."""
        self.live = Live(clock, done=done, time_left_s=time_left_s, cpu_ns=cpu_ns)
        self._clock = clock
        self._quiet = quiet
        self._on_terminal = sys.stderr.isatty()
        self._every_ns = NS_PER_S if self._on_terminal else 10 * NS_PER_S
        self._shown_ns = 0
        self._width = 0

    def dialogue_begins(self, slot: Slot, total: int | None) -> None:
        if not self.live.begun:
            self._shown_ns = self._clock.now_ns()
        self.live.dialogue_begins(slot, total)
        self._renew()

    def turn_over(self, slot: Slot, turn: int, tracker: Tracker) -> None:
        self.live.turn_over(slot, turn, tracker)
        self._renew()

    def dialogue_over(self, slot: Slot, record: Record) -> None:
        self.live.dialogue_over(slot, record)
        self._renew()

    def close(self) -> None:
        """Show the last state, and end the line."""
        if not self.live.begun:
            return
        self._show()
        if self._on_terminal and not self._quiet:
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
            if self._on_terminal:
                click.echo(f"\r{text:<{self._width}}", nl=False, err=True)
                self._width = len(text)
            else:
                click.echo(text, err=True)

    def line(self) -> str:
        """Sessions, failed turns by kind, first packet and sends now, CPU, what is left."""
        live = self.live
        done = live.already_done + live.ended
        of = "" if live.total is None else f"/{live.total}"
        parts = [f"{live.active} active", f"{done}{of} dialogues done"]
        if live.failed:
            parts.append("turns failed: " + ", ".join(f"{n} {kind}" for kind, n in live.failed.most_common()))
        if live.first_packet_ms:
            p50, p95 = (percentile(live.first_packet_ms, q) for q in (50, 95))
            parts.append(f"first packet p50 {p50:.0f} p95 {p95:.0f} ms")
        parts.append(f"sends at most {live.late_max_ns / NS_PER_MS:.1f} ms late")
        if live.lateness_ms:
            parts[-1] += f" (p95 now {percentile(live.lateness_ms, 95):.1f})"
        if past_s := live.past_s():
            parts.append(f"CPU {100 * live.cpu_s() / past_s:.0f} %")
        if left_s := live.left_s():
            parts.append(f"{_told(left_s)} left")
        return ", ".join(parts)


def _told(left_s: float) -> str:
    return f"{left_s:.0f} s" if left_s < 600 else f"{left_s / 60:.0f} min"
