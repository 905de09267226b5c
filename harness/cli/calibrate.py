"""`duologue calibrate`: how far the figures of this client lie from the truth, on this machine."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import click

_EXAMPLES = """
\b
Examples:
  duologue calibrate
  duologue calibrate --quick
  duologue calibrate --json --out this-machine.json

docs/accuracy.md tells how the truth is known, what each figure means and the rule of the verdict.
"""


@click.command(epilog=_EXAMPLES)
@click.option("--quick", is_flag=True, help="A look in 15 s, with fewer turns.")
@click.option("--json", "as_json", is_flag=True, help="Print all of it as JSON on standard output.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE", help="Keep the JSON in a file.")
def calibrate(quick: bool, as_json: bool, out: Path | None) -> int:
    """Measure a server whose every write is known, and print how far the figures are from that truth.

    The metronome runs beside this process on loopback and logs when it wrote, on the same clock. It is measured over a
    grid of reply delays, packet sizes, silences, stalls and bursts, with 1, 4 and 16 dialogues at once, over each
    transport that a client uses. Under it stands the machine's own floor, and which differences can be told here. Takes
    less than 2 minutes. Nothing else should run meanwhile, as in a measurement.

    Exit code: 0 calibrated, 2 set-up error.
    """
    import tempfile

    from harness.calibrate.machine import calibrate as calibrate_machine
    from harness.calibrate.table import print_calibration
    from harness.report.table import Screen
    from sessions.runs import disk_errors, indented, write_atomic

    if out is not None:
        with disk_errors(out), tempfile.TemporaryFile(dir=out.parent):
            pass  # a place that cannot be written is told of before two minutes have gone by
    progress = _Progress(quiet=as_json and not sys.stderr.isatty())
    try:
        found = calibrate_machine(quick, progress.show)
    finally:
        progress.close()
    as_text = indented(found).decode()
    if out is not None:
        with disk_errors(out):
            write_atomic(out, as_text + "\n")
    if as_json:
        click.echo(as_text)
    else:
        print_calibration(found, Screen())
    return 0


class _Progress:
    """On standard error: one live line on a terminal; elsewhere a line for each part, not for each turn."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet, self._live = quiet, sys.stderr.isatty()
        self._width = 0
        self._part = ""

    def show(self, text: str) -> None:
        part = text.partition(":")[0]
        if self._quiet or (not self._live and part == self._part):
            return
        self._part = part
        with contextlib.suppress(OSError):  # nobody reads it: the calibration goes on
            if self._live:
                click.echo(f"\r{text:<{self._width}}", nl=False, err=True)
                self._width = max(self._width, len(text))
            else:
                click.echo(text, err=True)

    def close(self) -> None:
        if self._live and self._width and not self._quiet:
            click.echo(err=True)
