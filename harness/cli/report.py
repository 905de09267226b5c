"""`duologue report`: rebuild what is derived from a run's dialogues."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON on standard output.")
def report(run: Path, as_json: bool) -> int:
    """Rebuild recordings, summary.json, turns.csv and report.html of the run folder RUN.

    Everything is computed anew from the dialogues' event logs and received bytes; no server is needed.

    \b
    Example:
      duologue report runs/2026-11-29T10-15-00-demo
    """
    from harness.report.table import tell
    from harness.results.finish import finish_run
    from sessions.runs import RunFolder

    folder = RunFolder.open(run)
    with folder.locked():
        folder.must_hold_a_dialogue()
        finished = finish_run(folder)
    tell(finished.summary, as_json=as_json)
    click.echo(f"report: {finished.report_path}", err=as_json)
    return 0
