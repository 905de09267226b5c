"""A measurement from beginning to end, for every command that makes one: plan, perform, finish, tell."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import click

from clients.transports.websocket import address_of
from harness import exits
from harness.load.progress import LoadProgress
from harness.load.prometheus import address, listen, serving
from harness.network.reflecting import reflecting
from harness.runs.clock_checks import ClockChecks
from harness.runs.floor import timing_floor
from harness.runs.loop import run_timed, until_stopped
from harness.runs.places import default_place, made_default_place, must_be_free
from harness.runs.planning import Ask, make_plan, planned, store_clips
from harness.runs.progress import Progress
from harness.runs.remaining import remaining
from harness.runs.run import Access, perform_run
from harness.workers.crew import Crew
from sessions.clock import Clock, MonotonicClock, TimerWheel, process_cpu_ns
from sessions.runs import Load, RunFolder
from sessions.secrets import Secrets


def begin_run(ask: Ask, secrets: Secrets, out: Path | None, kind: str) -> RunFolder:
    """Make the run folder with its plan and the user's audio."""
    address_of(ask.target)  # before anything is made, or this machine's floor is taken
    must_be_free(out or default_place(kind))
    floor = run_timed(timing_floor(TimerWheel(MonotonicClock())))
    plan = make_plan(ask, secrets, floor)
    run = RunFolder.create(out or made_default_place(kind), plan)
    store_clips(run, ask.scripts)
    return run


def measure_run(
    run: RunFolder,
    access: Access,
    *,
    command: str = "measure",
    as_json: bool = False,
    check_clock: bool = True,
    prometheus: str = "",
) -> int:
    """Perform what is left of `run`, derive everything, print the table. The command's exit code.

    command: the one that goes on with this run, when it is interrupted · check_clock: before and after it, where
    anything is left to perform · prometheus: where its metrics are served meanwhile, [HOST:]PORT, "" for nowhere.
    """
    go_on = f"Go on with: duologue {command} --resume {run.path}"
    with run.locked():
        quiet = as_json and not sys.stderr.isatty()
        interrupted = perform(run, access, quiet=quiet, check_clock=check_clock, prometheus=prometheus)
        if interrupted and not run.journal():
            click.echo(f"interrupted before any dialogue was done. {go_on}", err=True)
            return exits.INTERRUPTED
        return tell_run(run, go_on, interrupted=interrupted, as_json=as_json)


def perform(run: RunFolder, access: Access, *, quiet: bool, check_clock: bool, prometheus: str = "") -> bool:
    """Perform what is left of `run`, which is locked; whether the user interrupted it."""
    clock = TimerWheel(MonotonicClock())
    crew = Crew(run, access, clock) if run.plan.workers > 1 else None
    many = crew is not None or run.plan.load != Load() or bool(prometheus)
    endpoint = listen(prometheus) if prometheus else None
    left = remaining(run)
    time_left_s = left.time_s if run.plan.load.duration_s and planned(run.plan) is None else None
    progress = (
        LoadProgress(
            clock,
            done=len(run.journal()),
            time_left_s=time_left_s,
            quiet=quiet,
            cpu_ns=crew.cpu_ns if crew else process_cpu_ns,
        )
        if many
        else Progress(quiet=quiet)
    )
    interrupted = False
    checks = ClockChecks(run, asked=check_clock and bool(left), quiet=quiet)
    try:
        checks.before()
        work = crew.perform(progress) if crew else perform_run(run, access, clock, progress)
        if endpoint is not None and isinstance(progress, LoadProgress):
            work = _served(endpoint, progress, work, quiet=quiet)
        run_timed(until_stopped(_reflected(run, access, clock, work)))
    except (KeyboardInterrupt, asyncio.CancelledError):
        interrupted = True
    finally:
        progress.close()
        if endpoint is not None:
            endpoint.close()
    if not interrupted or run.journal():
        checks.after(interrupted=interrupted)
    return interrupted


async def _reflected(run: RunFolder, access: Access, clock: Clock, work: Coroutine[Any, Any, None]) -> None:
    """Perform the run, which is `work`, beside exchanges with its reflector where it has one."""
    async with reflecting(run.path, run.plan.reflector, clock, access.secrets, _say):
        await work


async def _served(
    endpoint: socket.socket, progress: LoadProgress, work: Coroutine[Any, Any, None], *, quiet: bool
) -> None:
    """Perform `work` while the metrics of the run can be read."""
    if not quiet:
        _say(f"metrics: {address(endpoint)}")
    async with serving(endpoint, progress.live):
        await work


def _say(line: str) -> None:
    with contextlib.suppress(OSError):  # nobody reads it
        click.echo(line, err=True)


def tell_run(run: RunFolder, go_on: str = "", *, interrupted: bool = False, as_json: bool = False) -> int:
    """Derive everything, print the table. The exit code of the command. go_on: how what is left can be performed."""
    from harness.report.table import tell
    from harness.report.wording import plural
    from harness.results.finish import finish_run

    finished = finish_run(run)
    tell(finished.summary, as_json=as_json)
    if interrupted:
        click.echo(f"interrupted, {remaining(run)} left. {go_on}", err=True)
    elif finished.summary.dialogues.lost:
        _say(f"{plural(finished.summary.dialogues.lost, 'dialogue')} lost. {go_on}".rstrip())
    click.echo(f"report: {finished.report_path}", err=as_json)
    if interrupted:
        return exits.INTERRUPTED
    completed = any(turn.turn_class == "completed" for d in finished.dialogues if not d.warmup for turn in d.turns)
    return 0 if completed else exits.NOTHING_MEASURED
