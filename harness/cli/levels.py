"""`duologue measure --sweep …` and `--slo …`: a run for each number of sessions, under one folder."""

from __future__ import annotations

import contextlib
import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness import exits
from harness.cli.load_options import lasting_of, pauses_of
from sessions.errors import DuologueError, SetupError
from sessions.secrets import Secrets

if TYPE_CHECKING:
    from harness.results.finish import FinishedRun
    from harness.runs.planning import Ask
    from harness.runs.run import Access
    from sessions.runs import Load

SEARCH_MOST = 1024


def measure_levels(secrets: Secrets, ask: Ask, access: Access, options: dict[str, Any], as_json: bool) -> int:
    """Perform the levels, print them side by side. The command's exit code."""
    from harness.compare.slo import parse_slo
    from harness.load.descriptors import room_for
    from harness.load.levels import Ladder
    from harness.runs.places import default_place, must_be_free
    from sessions.runs import Load

    more = {**pauses_of(options), **lasting_of(options)}
    slos = [parse_slo(text) for text in options["slo"]]
    levels = _levels(options["sweep"]) if options["sweep"] else []
    most = options["max_sessions"] or SEARCH_MOST
    room_for(max(levels, default=most))
    place = options["out"] or default_place("sweep" if levels else "search")
    must_be_free(place)

    def hold(sessions: int) -> FinishedRun | None:
        level = _at_level(ask, Load(sessions=sessions, ramp_s=options["ramp"] or 0.0, **more))
        check_clock, prometheus = not options["no_calibration"], options["prometheus"]
        return _hold(secrets, level, access, place, quiet=as_json, check_clock=check_clock, prometheus=prometheus)

    ladder = Ladder(place, secrets.mask_url(ask.target), slos, hold)
    found = ladder.sweep(levels) if levels else ladder.search(most)
    _tell(found, place, as_json)
    if found.stopped:
        return exits.INTERRUPTED
    measured = any(level.completed for level in found.levels)
    return 0 if measured and found.highest != 0 else exits.NOTHING_MEASURED


def only_what_goes_with_levels(options: dict[str, Any]) -> None:
    """Raise `SetupError` for options that a sweep or a search sets itself."""
    for name in ("sessions", "rate", "arrivals", "shard", "trials", *(("max_sessions",) if options["sweep"] else ())):
        if options[name] is not None:
            raise SetupError(f"--{name.replace('_', '-')} does not go with --sweep or --slo", "Leave one out")


def _levels(text: str) -> list[int]:
    try:
        levels = [int(part) for part in text.split(",")]
    except ValueError:
        levels = [0]
    if min(levels) < 1 or len(set(levels)) < len(levels):
        raise SetupError(f"--sweep {text}: not a list of different numbers of sessions", "For example --sweep 1,2,4,8")
    return levels


def _at_level(ask: Ask, load: Load) -> Ask:
    """Every session performs as many rounds as were asked for."""
    return dataclasses.replace(
        ask,
        load=load,
        repeat=ask.repeat * load.sessions,
        warmup=ask.warmup * load.sessions,
        workers=min(ask.workers, load.sessions),
    )


def _hold(
    secrets: Secrets, ask: Ask, access: Access, place: Path, *, quiet: bool, check_clock: bool, prometheus: str
) -> FinishedRun | None:
    """One level's run. None when the user stopped it; what was done stays, and can be resumed."""
    from harness.report.wording import plural
    from harness.results.finish import finish_run
    from harness.runs.measuring import begin_run, perform

    sessions = ask.load.sessions
    if not quiet:
        click.echo(f"{sessions} at once:", err=True)
    run = begin_run(ask, secrets, place / f"sessions-{sessions:04d}", "measure")
    try:
        with run.locked():
            if not perform(run, access, quiet=quiet, check_clock=check_clock, prometheus=prometheus):
                finished = finish_run(run)
                if lost := finished.summary.dialogues.lost:
                    again = f"This level alone goes on with: duologue measure --resume {run.path}"
                    click.echo(f"{plural(lost, 'dialogue')} lost. {again}", err=True)
                return finished
    except DuologueError:
        run.discard()
        with contextlib.suppress(OSError):  # it stays where other levels are in it
            place.rmdir()
        raise
    click.echo(f"interrupted. This level alone goes on with: duologue measure --resume {run.path}", err=True)
    return None


def _tell(found: Any, place: Path, as_json: bool) -> None:
    if as_json:
        click.echo((place / "levels.json").read_text())
        return
    from harness.report.levels_table import print_levels
    from harness.report.table import Screen

    print_levels(found, Screen())
    if found.levels:
        click.echo(f"one report for each level: {place}/sessions-*/report.html")
