"""`duologue merge`: the runs of several hosts as one."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("runs", nargs=-1, required=True, metavar="RUN…", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Folder of the merged run  [default: runs/<now>-merge]")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON on standard output.")
def merge(runs: tuple[Path, ...], out: Path | None, as_json: bool) -> int:
    """Put the shards of one plan, performed by several hosts, together to one run.

    Plans must be equal in all that matters, and no dialogue may be in two of the runs. Records are copied byte for
    byte, and everything else is derived from them as after any run. Dialogues that no run has are named and counted as
    lost.

    \b
    Example:
      duologue merge runs/host-a runs/host-b --out runs/both

    Exit code: 0 merged, 1 no turn was completed, 2 the runs cannot be merged.
    """
    from harness.report.wording import plural
    from harness.runs.measuring import tell_run
    from harness.runs.places import default_place
    from harness.workers.merge import merge as put_together
    from harness.workers.merge import named

    merged = put_together(runs, out or default_place("merge"))
    if merged.missing:
        click.echo(f"{plural(len(merged.missing), 'dialogue')} in no run: {named(merged.missing)}", err=True)
    with merged.run.locked():
        return tell_run(merged.run, as_json=as_json)
