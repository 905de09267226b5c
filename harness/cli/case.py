"""`duologue case`: one turn in an archive, for a bug report."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.argument("turn")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="The archive [RUN/cases/….zip].")
def case(run: Path, turn: str, out: Path | None) -> int:
    """Pack one turn of the run folder RUN into a .zip for a bug report to a vendor, and print where it is.

    TURN is dialogue and turn as the report names them, turns from 1: d0003/2 (or d0003:2). In the archive: both lanes
    with two seconds of context as FLAC, all audio of the reply, the messages both ways in words, what was expected
    against what was seen, versions, the plan up to this turn. Secrets are masked, also such as a server told; look
    through messages.jsonl before you send it: what was said is in it.

    \b
    Example:
      duologue case runs/2026-11-29T10-15-00-demo d0003/2
    """
    from harness.case.pack import pack_case
    from sessions.runs import RunFolder

    click.echo(pack_case(RunFolder.open(run), turn, out))
    return 0
