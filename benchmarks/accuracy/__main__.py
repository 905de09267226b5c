"""Reported minus true: how far a client's figures lie from what the server really did; ours beside others.

The metronome runs as a process of its own and logs the instant of every write on the host's monotonic clock, and when
the user's last speech sample arrived. Each client holds dialogues with it in its own wire protocol, alone and 50 at
once, in alternation; its figures are judged by its own definitions and by ours (docs/accuracy.md).

    python -m benchmarks.accuracy            about 9 minutes, on a machine with nothing else to do
    python -m benchmarks.accuracy --quick    about 2 minutes
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path

import click
import msgspec

from benchmarks.accuracy.arms import ARMS, OURS, Job, server
from benchmarks.accuracy.floor import floor_ms
from benchmarks.accuracy.material import RATE_HZ, REPLIES, Reported, write_behaviour, write_clips
from benchmarks.accuracy.table import WITH_LATE, tell_block, tell_floor, tell_not_driven
from benchmarks.accuracy.truth import Found, Truth, judge, read_truth
from harness.runs.loop import loop_name
from servers.models.behaviour import load_behaviour
from sessions.errors import SetupError

MANY = 50
GOAL_MS = 1.0


@dataclass(frozen=True, slots=True)
class Size:
    """rounds: of each arm · turns: of a dialogue that count; one more is its warm-up."""

    streams: int
    rounds: int
    turns: int


FULL = (Size(1, 3, 35), Size(MANY, 2, REPLIES))
QUICK = (Size(1, 1, 2 * REPLIES), Size(MANY, 1, REPLIES // 2))

Reports = dict[tuple[int, str], list[Reported]]


@click.command()
@click.option("--quick", is_flag=True, help="A look: one round of each, no p99 at one stream.")
def main(quick: bool) -> None:
    """Print reported − true of each client, and the ratios. Exit code 1 when a goal is missed."""
    sizes = QUICK if quick else FULL
    with tempfile.TemporaryDirectory(prefix="duologue-accuracy-") as scratch:
        place = Path(scratch)
        clips = {rate_hz: place / f"clips-{rate_hz}" for rate_hz in (RATE_HZ, 16_000)}
        for rate_hz, folder in clips.items():
            write_clips(folder, rate_hz)
        behaviour = write_behaviour(place)
        before = _load()
        reports: Reports = {}
        failed: dict[str, str] = {}
        fronts = {arm.front: place / f"{arm.front}.jsonl" for arm in ARMS}
        with contextlib.ExitStack() as servers:
            urls = {front: servers.enter_context(server(front, behaviour, log)) for front, log in fronts.items()}
            for size in sizes:
                _perform(size, Job("", place, clips, size.streams, size.turns + 1, ""), urls, reports, failed)
        truths = {front: read_truth(log, load_behaviour(behaviour)) for front, log in fronts.items()}
    floor = floor_ms()
    click.echo(f"event loop of ours: {loop_name()}; {os.cpu_count()} cores; load {before} before, {_load()} after")
    held = True
    for size in sizes:
        found = _judged(size, reports, truths, failed)
        held &= tell_block(size.streams, found, size.rounds * size.streams * size.turns)
        if size.streams == 1:
            held &= tell_floor(floor, found[OURS], GOAL_MS)
    tell_not_driven(failed)
    sys.exit(0 if held else 1)


def _perform(size: Size, job: Job, urls: dict[str, str], reports: Reports, failed: dict[str, str]) -> None:
    """All rounds of one size, the arms in alternation. A peer that fails is left out from there on; we may not."""
    for number in range(size.rounds):
        for arm in ARMS:
            if arm.name in failed:
                continue
            click.echo(f"{size.streams:>3} at once, round {number + 1} of {size.rounds}: {arm.name}", err=True)
            tag = f"{arm.front}-{size.streams}-{number}"
            ready = replace(job, url=urls[arm.front], tag=tag)
            try:
                reports.setdefault((size.streams, arm.name), []).extend(arm.perform(ready))
            except SetupError as error:
                if arm.name == OURS:
                    raise click.ClickException(str(error)) from error
                failed[arm.name] = str(error)


def _judged(
    size: Size, reports: Reports, truths: dict[str, dict[str, Truth]], failed: dict[str, str]
) -> dict[str, Found]:
    """By client; ours a second time with the turns that it calls invalid, where it called any so."""
    found = {}
    for arm in (arm for arm in ARMS if arm.name not in failed):
        reported = reports[size.streams, arm.name]
        found[arm.name] = judge(reported, truths[arm.front], arm.end, arm.sounding)
        if any(turn.late and turn.turn for turn in reported):  # the first one is the warm-up
            kept = [msgspec.structs.replace(turn, late=False) for turn in reported]
            found[f"{arm.name}{WITH_LATE}"] = judge(kept, truths[arm.front], arm.end, arm.sounding)
    return found


def _load() -> str:
    """What runs on this machine, ours included: the one-minute load average."""
    return f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"


if __name__ == "__main__":
    main()
