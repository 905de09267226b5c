"""What a person sees while conversing, on standard error: a level meter on a terminal, and a line per answer."""

from __future__ import annotations

import contextlib
import sys
from typing import Final

import click

from harness.report.wording import one_line
from sessions.clock import NS_PER_MS, Clock

_EVERY_NS: Final = 80 * NS_PER_MS
_BAR: Final = 30
_LOWEST_DBFS: Final = -66.0
_CLEAR: Final = "\r\x1b[K"


class TerminalScreen:
    """Writes little and seldom: it shares a thread with the frames. quiet: says nothing."""

    def __init__(self, clock: Clock, *, quiet: bool, ends: str) -> None:
        """ends: how the person ends a turn, in words."""
        self._clock, self._quiet, self._ends = clock, quiet, ends
        self._live = sys.stderr.isatty() and not quiet
        self._peak = _LOWEST_DBFS
        self._next_ns = 0
        self._shown = False

    def ready(self) -> None:
        self._say(f"speak now; {self._ends}; Ctrl-C ends the conversation")

    def level(self, dbfs: float, speaking: bool, agent_sounds: bool) -> None:
        self._peak = max(self._peak, dbfs)
        if not self._live or self._clock.now_ns() < self._next_ns:
            return
        self._next_ns = self._clock.now_ns() + _EVERY_NS
        self._write(_CLEAR + meter(self._peak, speaking, agent_sounds))
        self._peak, self._shown = _LOWEST_DBFS, True

    def turn(self, index: int, said_s: float, latency_ms: float) -> None:
        what = f"answered after {latency_ms:.0f} ms" if latency_ms >= 0 else f"answered {-latency_ms:.0f} ms too early"
        self._say(f"turn {index + 1}: you spoke for {said_s:.1f} s, {what}")

    def warn(self, what: str) -> None:
        self._say(f"warning: {what}")

    def close(self) -> None:
        """What follows begins on a line of its own."""
        if self._shown:
            self._write(_CLEAR)
            self._shown = False

    def _say(self, line: str) -> None:
        if not self._quiet:
            self.close()
            self._write(one_line(line) + "\n")

    def _write(self, text: str) -> None:
        with contextlib.suppress(OSError):  # nobody reads it
            click.echo(text, nl=False, err=True)


def meter(dbfs: float, speaking: bool, agent_sounds: bool) -> str:
    """One line of at most 60 columns."""
    filled = round(min(1.0, max(0.0, (dbfs - _LOWEST_DBFS) / -_LOWEST_DBFS)) * _BAR)
    who = "you speak" if speaking else "the agent speaks" if agent_sounds else ""
    if speaking and agent_sounds:
        who = "both speak"
    return f"[{'#' * filled}{'.' * (_BAR - filled)}] {max(dbfs, -99):4.0f} dBFS  {who}".rstrip()
