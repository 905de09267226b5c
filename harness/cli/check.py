"""`duologue check`: whether a run folder can be believed."""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print what was found as JSON on standard output.")
def check(run: Path, as_json: bool) -> int:
    """Check the run folder RUN: is its record whole, could its instants have been, do its figures follow from it?

    Looks at every finished dialogue: the log from `opened` to `ended` in order of time; no message before the
    connection stood, no frame before it was due, no reply before its request; every byte of received.bin accounted for;
    every planned turn begun or given up; every clip as its name says; and in each turn the spans speech_end, last_sent,
    turn_committed, reply_created, first_packet, first_audible, which must sum to voice-to-voice within 1 ms, as in
    turns.csv. It changes nothing. Each problem is one line: file, line, what is wrong.

    Exit code: 0 sound, 1 something is wrong, 2 not a run folder.

    \b
    Example:
      duologue check runs/2026-11-29T10-15-00-demo
    """

    from harness.check.run import check_run
    from harness.report.wording import one_line, plural
    from sessions.runs import RunFolder, encoded

    checked = check_run(RunFolder.open(run))
    if as_json:
        click.echo(encoded(checked).decode())
    else:
        for problem in checked.problems:
            click.echo(one_line(str(problem)))
        looked = f"{plural(checked.dialogues, 'dialogue')}, {plural(checked.turns, 'turn')}"
        verdict = plural(len(checked.problems), "problem") if checked.problems else "sound"
        click.echo(f"{run}: {looked}, {plural(checked.events, 'event')}: {verdict}", err=bool(checked.problems))
    return 1 if checked.problems else 0
