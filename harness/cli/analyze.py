"""`duologue analyze`: turn-taking from recordings, without an event log."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from harness.analyze.analysis import Asked
    from harness.analyze.inputs import Sample
    from harness.analyze.result import Analysis


@click.command(short_help="Turn-taking from recordings alone.")
@click.argument("recording", required=False, type=click.Path(path_type=Path))
@click.option("--user", type=click.Path(path_type=Path), metavar="FILE", help="The user's side, where it is a file.")
@click.option("--agent", type=click.Path(path_type=Path), metavar="FILE", help="The agent's side.")
@click.option("--lane", default="", metavar="LANE", help="The user's: left, right, 0, 1 …  [default: left]")
@click.option("--other", default="", metavar="LANE", help="The agent's.  [default: the other one of two]")
@click.option(
    "--labels", type=click.Path(path_type=Path), metavar="FILE", help="Kinds of the user's sounds: Audacity or CSV."
)
@click.option(
    "--method", type=click.Choice(["silero", "energy-1"]), default="silero", show_default=True, help="Finds speech."
)
@click.option(
    "--pause",
    type=click.IntRange(200, 60_000),
    default=700,
    show_default=True,
    metavar="MS",
    help="The user's shorter pauses are within a turn.",
)
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="Write analysis.json and label tracks.")
@click.option("--force", is_flag=True, help="Write over an analysis that is there.")
@click.option("--json", "as_json", is_flag=True, help="Print the analysis as JSON.")
@click.option("--detector-error", is_flag=True, help="Measure the detectors on built-in marked audio instead.")
def analyze(
    recording: Path | None,
    user: Path | None,
    agent: Path | None,
    lane: str,
    other: str,
    labels: Path | None,
    method: str,
    pause: int,
    out: Path | None,
    force: bool,
    as_json: bool,
    detector_error: bool,
) -> int:
    """Measure turn-taking in RECORDING: a file with a lane for user and agent each, or a folder of samples.

    A folder's samples are folders with input.wav and output.wav, A.wav and B.wav, or user.wav and agent.wav. The
    detector's own error stands beside the figures, and what needs an event log is named (docs/analyze.md).

    \b
    duologue analyze call.wav
    duologue analyze --user user.wav --agent agent.wav --out analyzed
    duologue analyze Full-Duplex-Bench/v1_5/user_interruption --json
    """
    if detector_error:
        return _print_errors(as_json)
    from harness import exits
    from harness.analyze.analysis import Asked
    from harness.analyze.result import encode
    from harness.analyze.written import check_free, write
    from harness.from_recording.lanes import check_lane

    for name in filter(None, (lane, other)):
        check_lane(name)
    if out is not None:
        check_free(out, force=force)
    samples = _samples(recording, user, agent, lane, other)
    analysis = _with_progress(Asked(samples, labels, method, pause))
    written = None if out is None else write(analysis, out)
    if as_json:
        click.echo(encode(analysis), nl=False)
    else:
        _print(analysis, written)
    return 0 if analysis.turns else exits.NOTHING_MEASURED


def _samples(recording: Path | None, user: Path | None, agent: Path | None, lane: str, other: str) -> list[Sample]:
    from harness.analyze.inputs import Sample, find_samples, half_a_sample
    from sessions.errors import SetupError

    if user is not None or agent is not None:
        if user is None or agent is None or recording is not None:
            raise SetupError("--user and --agent are the two sides of one sample", "Give both, and no RECORDING")
        if user.absolute() == agent.absolute() and not (lane or other):
            raise SetupError(f"--user and --agent are both {user}", f"Give two files, or: duologue analyze {user}")
        return [Sample(user.stem if user.stem != "user" else user.parent.name or "user", user, agent, lane, other)]
    if recording is None:
        raise SetupError("nothing to analyze", "Give a recording, a folder, or --user and --agent")
    if not recording.is_dir():
        return [Sample(recording.stem, recording, recording, lane, other)]
    samples = find_samples(recording, lane, other)
    for note in half_a_sample(samples, recording):
        click.echo(f"note: {note}", err=True)
    return samples


def _with_progress(asked: Asked) -> Analysis:
    """On a terminal, how far it is among many samples."""
    import sys

    from harness.analyze.analysis import analyze as analyze_all

    if len(asked.samples) == 1 or not sys.stderr.isatty():
        return analyze_all(asked)
    with click.progressbar(length=len(asked.samples), label="listening", file=sys.stderr) as bar:
        return analyze_all(asked, seen=lambda _: bar.update(1))


def _print(analysis: Analysis, written: Path | None) -> None:
    from harness.analyze.screen import print_analysis
    from harness.report.table import Screen
    from harness.report.wording import plural

    print_analysis(analysis, Screen())
    found = f"{plural(analysis.turns, 'turn')} in {plural(len(analysis.samples), 'sample')}"
    if not analysis.turns:
        click.echo("Nothing was measured: no turn of a user was found.")
    if written is None:
        click.echo(f"{found}; nothing was written: --out DIR keeps it")
    else:
        click.echo(f"written: {written} ({found})")


def _print_errors(as_json: bool) -> int:
    from harness.analyze.detector import encode_table, measure_detectors, table_lines

    table = measure_detectors()
    click.echo(encode_table(table) if as_json else "\n".join(table_lines(table)), nl=not as_json)
    return 0
