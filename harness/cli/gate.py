"""`duologue gate`: hold a run to its objectives, for CI."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from harness.compare.gate import Gate

EXIT_MISSED = 1


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--slo", "slos", multiple=True, metavar="TEXT", help="'METRIC FIGURE < BOUND'; may be given again.")
@click.option("--baseline", type=click.Path(path_type=Path), help="The run folder to compare with.")
@click.option(
    "--max-regression",
    "regressions",
    multiple=True,
    metavar="TEXT",
    help="How much worse than the baseline: 'METRIC FIGURE 5%'; may be given again.",
)
@click.option("--allow", "allowed", multiple=True, metavar="FIELD", help="Compare although FIELD differs.")
@click.option("--junit", type=click.Path(path_type=Path), metavar="FILE", help="Write the checks as JUnit XML.")
@click.option("--json", "as_json", is_flag=True, help="Print the checks as JSON on standard output.")
def gate(
    run: Path,
    slos: tuple[str, ...],
    baseline: Path | None,
    regressions: tuple[str, ...],
    allowed: tuple[str, ...],
    junit: Path | None,
    as_json: bool,
) -> int:
    """Hold the run folder RUN to objectives and to a baseline: exit 0 where all hold, 1 where one does not, 2 set-up.

    A figure that may not be told from so few turns does not hold.

    \b
    Example:
      duologue gate runs/new --slo 'voice_to_voice p95 < 800ms' \\
          --slo 'failed <= 1%' --baseline runs/old \\
          --max-regression 'voice_to_voice p50 5%' --junit gate.xml
    """

    from harness.compare.gate import hold, parse_regression
    from harness.compare.junit import junit_xml
    from harness.compare.side import read_side
    from harness.compare.slo import parse_slo
    from sessions.errors import SetupError
    from sessions.runs import disk_errors, encoded, write_atomic

    if not slos and not regressions:
        raise SetupError("nothing to hold the run to", "Give --slo 'voice_to_voice p95 < 800ms', or --max-regression")
    if (baseline is None) != (not regressions):
        given, missing = ("--baseline", "--max-regression") if baseline else ("--max-regression", "--baseline")
        raise SetupError(f"{given} without {missing}", f"Give {missing} too")
    parsed, bounded = [parse_slo(text) for text in slos], [parse_regression(text) for text in regressions]
    found = hold(read_side(run), parsed, read_side(baseline) if baseline else None, bounded, allowed)
    if junit is not None:
        with disk_errors(junit):
            write_atomic(junit, junit_xml(found))
    if as_json:
        click.echo(encoded(found).decode())
    else:
        _print(found)
    return 0 if found.passed else EXIT_MISSED


def _print(found: Gate) -> None:
    from harness.report.wording import one_line, plural

    words = {True: "held", False: "MISSED", None: "UNTOLD"}
    for check in found.checks:
        click.echo(f"{words[check.held]:6}  {one_line(check.text)}: {one_line(check.why)}")
        for mark in check.marks:
            click.echo(f"        not under equal conditions: {one_line(mark)}")
    for remark in found.remarks:
        click.echo(one_line(remark))
    missed = sum(not check.held for check in found.checks)
    click.echo("passed" if found.passed else f"failed: {missed} of {plural(len(found.checks), 'check')}")
