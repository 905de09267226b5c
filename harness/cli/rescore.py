"""`duologue rescore`: every measure of a run anew, from its record alone."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON on standard output.")
def rescore(run: Path, as_json: bool) -> int:
    """Compute every measure of the run folder RUN anew, from its dialogues' logs and received bytes alone.

    Nothing that was derived before is read: recordings are rendered again, then summary.json, turns.csv and report.html
    are written. With the same program every file comes out byte for byte as it was; with a newer one the command says
    which files changed, and the summary carries the definitions that made it. `duologue report` does the same but keeps
    recordings that are there.

    Exit code: 0 done, 2 not a run folder, or a damaged one (`duologue check RUN` says where).

    \b
    Example:
      duologue rescore runs/2026-11-29T10-15-00-demo
    """
    from harness.replay.rescore import rescore as rescore_run
    from harness.report.table import tell
    from harness.report.wording import plural
    from sessions.runs import RunFolder

    folder = RunFolder.open(run)
    with folder.locked():
        folder.must_hold_a_dialogue()
        done = rescore_run(folder)
    tell(done.finished.summary, as_json=as_json)
    click.echo(f"{plural(len(done.same), 'file')} as before, byte for byte", err=as_json)
    for what, names in (("changed", done.changed), ("new", done.made), ("no longer made", done.gone)):
        if names:
            click.echo(f"{what}: {', '.join(names)}", err=as_json)
    click.echo(f"report: {done.finished.report_path}", err=as_json)
    return 0
