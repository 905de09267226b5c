"""`duologue export`: a run for other programs."""

from __future__ import annotations

from pathlib import Path

import click

FORMATS = ("csv", "parquet", "audacity", "elan", "latex")


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--format", "name", type=click.Choice(FORMATS), required=True, help="What to write.")
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="PATH", help="The file, or the folder of labels [RUN/export/…]."
)
def export(run: Path, name: str, out: Path | None) -> int:
    """Write the run folder RUN for other programs, and print where.

    \b
    csv       one row per turn, as turns.csv
    parquet   the same with types, null where unavailable (extra `export`)
    audacity  label tracks per dialogue: user, agent, events, latencies …
    elan      an .eaf per dialogue with the same as tiers, its recording as WAV
    latex     the table of the run (booktabs)

    \b
    Example:
      duologue export runs/2026-11-29T10-15-00-demo --format parquet
    """
    from harness.export.formats import export_run
    from sessions.runs import RunFolder

    click.echo(export_run(RunFolder.open(run), name, out))
    return 0
