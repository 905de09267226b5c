"""`duologue compare`: two runs side by side."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("a", type=click.Path(path_type=Path))
@click.argument("b", type=click.Path(path_type=Path))
@click.option("--metric", "metrics", multiple=True, metavar="NAME", help="Only this measure; may be given again.")
@click.option(
    "--allow", "allowed", multiple=True, metavar="FIELD", help="Compare although FIELD differs; each row gets a mark."
)
@click.option("--json", "as_json", is_flag=True, help="Print the comparison as JSON on standard output.")
def compare(a: Path, b: Path, metrics: tuple[str, ...], allowed: tuple[str, ...], as_json: bool) -> int:
    """Compare the run folder B with A: differences at p50, p95 and p99 with 95 % intervals, and a verdict in words.

    Runs whose protocol class, turn detection, definitions, audio, speech ends or pacing differ are refused.

    \b
    Example:
      duologue compare runs/2026-11-29T10-15-00-old runs/2026-11-29T11-02-00-new
    """

    from harness.compare.compare import compare_runs, usual_metrics
    from harness.compare.screen import print_comparison
    from harness.compare.side import read_side
    from harness.compare.slo import ATTEMPTS, known_metric
    from harness.report.table import Screen
    from sessions.errors import SetupError
    from sessions.runs import encoded

    names = list(dict.fromkeys(known_metric(name, "--metric") for name in metrics))
    if counted := [name for name in names if name in ATTEMPTS]:
        raise SetupError(f"--metric {counted[0]}: attempts are always compared", "Leave it out")
    sides = read_side(a), read_side(b)
    compared = compare_runs(*sides, names or usual_metrics(sides), allowed)
    if as_json:
        click.echo(encoded(compared).decode())
    else:
        print_comparison(compared, Screen())
    return 0
