"""The checks of this machine's clock before and after a run, kept in its folder."""

from __future__ import annotations

import contextlib
import signal

import click

from harness.calibrate.bound import Check, Part, add_part
from harness.calibrate.quick import quick, wanted
from sessions.runs import Load, RunFolder

MOST_AT_ONCE = 16
"""Dialogues in a check; under an open loop nobody knows how many a run will hold."""


class ClockChecks:
    """Call `before` and `after` outside any event loop, in the main thread. Nothing is kept where `before` did not end.

    asked: False makes no checks; so does the environment (harness/calibrate/quick.py) · quiet: says nothing.
    """

    def __init__(self, run: RunFolder, *, asked: bool, quiet: bool) -> None:
        self._run, self._quiet = run, quiet
        self._asked = asked and wanted()
        self._before: Check | None = None

    def before(self) -> None:
        """The first check. Raises `KeyboardInterrupt` when it is stopped."""
        if self._asked:
            self._before = self._check("before")

    def after(self, *, interrupted: bool) -> None:
        """The second one, unless the user is already waiting for the end; keeps both. Raises `SetupError`."""
        if self._before is None:
            return
        after = None
        if not interrupted:
            with contextlib.suppress(KeyboardInterrupt):  # the run itself is done: only the check is left out
                after = self._check("after")
        add_part(self._run.path, Part(self._before, after))

    def _check(self, when: str) -> Check:
        # As Ctrl-C does: a metronome that was started is stopped, and the run stays whole.
        previous = signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            if not self._quiet:
                with contextlib.suppress(OSError):  # nobody reads it
                    click.echo(f"checking this machine's clock {when} the run ...", err=True)
            return quick(self._run.plan.protocol, _at_once(self._run.plan.load))
        finally:
            signal.signal(signal.SIGTERM, previous)


def _at_once(load: Load) -> int:
    return MOST_AT_ONCE if load.rate_per_s else min(load.sessions, MOST_AT_ONCE)
