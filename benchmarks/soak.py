"""Half an hour at a hundred streams: is memory flat, a task or descriptor left behind, every dialogue accounted for?

The product's own run, as `duologue measure --sessions 100 --think exp:1s --duration 30m` holds it, in this process,
against a metronome in a process of its own. Every 10 s this process's resident memory, tasks and open descriptors are
taken. The records go to disk, are counted after the run and thrown away.

    python -m benchmarks.soak                30 minutes, then about 3 to count; 3 GB of scratch space
    python -m benchmarks.soak --minutes 1    a try: growth is shown, not judged
"""

from __future__ import annotations

import asyncio
import os
import resource
import sys
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
import soundfile

from harness.dialogue.record import Record
from harness.load.descriptors import room_for
from harness.load.progress import LoadProgress
from harness.results.derive import derive
from harness.runs.loop import loop_name, run_timed
from harness.runs.own_server import own_server
from harness.runs.planning import Ask, Slot, make_plan, slot_of, store_clips
from harness.runs.run import Access, perform_run
from metrics.turns import measure_conversation
from sessions.clock import NS_PER_S, MonotonicClock, TimerWheel
from sessions.events import read_log
from sessions.runs import Load, RunFolder
from sessions.scripts import script_from_audio
from sessions.secrets import Secrets

SAMPLE_S = 10
TURNS = 3
GROWTH_MB_PER_HOUR = 20.0
"""Above it memory is not flat. Pages that the allocator takes once and keeps come to a few MB in half an hour."""
WARM_UP_S = 300.0
"""Until then caches, buffers and the allocator's pages fill; at most a third of the time."""
JUDGED_S = 600.0
"""Growth over less than this tells nothing: one page more or less is megabytes an hour."""
LOOPS_SPARE = 1
"""uvloop opens /dev/null with its first connection and keeps it until it is closed."""
BEHAVIOUR = """\
version: 1
description: 300 ms after the request, half a second of sound as it is needed.
reply: {delay_ms: 300, duration_ms: 500, packet_ms: 80, pace: realtime}
"""


@dataclass(frozen=True, slots=True)
class Sample:
    """at_s: since the run began · rss_mb: resident memory of this process."""

    at_s: float
    rss_mb: float
    tasks: int
    descriptors: int


@dataclass(slots=True)
class Held:
    """A run that was held. left_tasks: names of what still ran when it had returned."""

    samples: list[Sample]
    begun: int = 0
    ended: int = 0
    left_tasks: tuple[str, ...] = ()
    descriptors_before: int = 0
    descriptors_after: int = 0


class _Counting(LoadProgress):
    """The product's own live view, and a count of what it was told."""

    def __init__(self, clock: TimerWheel, held: Held, time_left_s: float) -> None:
        super().__init__(clock, time_left_s=time_left_s)
        self._held = held

    def dialogue_begins(self, slot: Slot, total: int | None) -> None:
        self._held.begun += 1
        super().dialogue_begins(slot, total)

    def dialogue_over(self, slot: Slot, record: Record) -> None:
        self._held.ended += 1
        super().dialogue_over(slot, record)


async def soak(run: RunFolder, url: str, held: Held) -> None:
    """Perform the run and take samples meanwhile."""
    clock = TimerWheel(MonotonicClock())
    began_ns = clock.now_ns()
    progress = _Counting(clock, held, run.plan.load.duration_s)

    async def take_samples() -> None:
        while True:
            held.samples.append(_sample((clock.now_ns() - began_ns) / NS_PER_S))
            await clock.sleep_until_ns(began_ns + len(held.samples) * SAMPLE_S * NS_PER_S)

    held.descriptors_before = _descriptors()
    before = asyncio.all_tasks()
    sampler = asyncio.create_task(take_samples())
    try:
        await perform_run(run, Access(url, {}, "", Secrets()), clock, progress)
    finally:
        sampler.cancel()
        await asyncio.gather(sampler, return_exceptions=True)
        progress.close()
    held.left_tasks = tuple(task.get_name() for task in asyncio.all_tasks() - before)
    held.descriptors_after = _descriptors()


def _sample(at_s: float) -> Sample:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return Sample(at_s, pages * resource.getpagesize() / 2**20, len(asyncio.all_tasks()), _descriptors())


def _descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 — names only, and quickly


def make_run(place: Path, url: str, streams: int, seconds: float) -> RunFolder:
    """The plan: dialogues of three turns of two seconds of tone."""
    clip = place / "clip.wav"
    tone = 8000 * np.sin(2 * np.pi * 220 * np.arange(48_000) / 24_000)
    soundfile.write(clip, np.round(tone).astype(np.int16), 24_000)
    script = script_from_audio([str(clip)] * TURNS)
    load = Load(sessions=streams, ramp_s=min(30.0, seconds / 6), think="exp:1s", duration_s=seconds)
    run = RunFolder.create(place / "run", make_plan(Ask(url, [script], load=load), Secrets(), {}))
    store_clips(run, [script])
    return run


def growth_mb_per_hour(samples: list[Sample], seconds: float) -> float:
    """Slope of the least-squares line through resident memory after the warm-up, while all streams are held."""
    kept = [one for one in samples if min(WARM_UP_S, seconds / 3) <= one.at_s <= seconds]
    return float(np.polyfit([one.at_s for one in kept], [one.rss_mb for one in kept], 1)[0]) * 3600


def count(run: RunFolder) -> tuple[int, Counter[str]]:
    """Dialogues of the journal; their turns by class, those that were never begun as `never attempted`."""
    classes: Counter[str] = Counter()
    lines = run.journal()
    for line in lines:
        folder = run.dialogue(line.id)
        derived = derive(read_log(folder / "events.jsonl"), (folder / "received.bin").read_bytes())
        turns = measure_conversation(derived.conversation, limit_lateness_ms=run.plan.limits.lateness_ms)
        classes.update(turn.turn_class for turn in turns)
        classes["never attempted"] += len(slot_of(run.plan, line.number).script.turns) - len(turns)
    return len({line.number for line in lines}), classes


def verdict(held: Held, journal: int, classes: Counter[str], seconds: float) -> bool:
    """Print what was found. Whether all of it holds."""
    rss = [one.rss_mb for one in held.samples]
    growth = growth_mb_per_hour(held.samples, seconds)
    judged = seconds >= JUDGED_S
    flat = growth <= GROWTH_MB_PER_HOUR or not judged
    click.echo(f"memory: {rss[0]:.1f} MB at first, {rss[-1]:.1f} MB at last, at most {max(rss):.1f} MB")
    bound = f"bound {GROWTH_MB_PER_HOUR:g}" if judged else f"judged from {JUDGED_S / 60:g} minutes up"
    click.echo(f"  growth after the warm-up: {growth:+.1f} MB an hour ({bound}){_mark(flat)}")
    click.echo(f"tasks: at most {max(one.tasks for one in held.samples)}, left behind {len(held.left_tasks)}")
    click.echo(
        f"descriptors: {held.descriptors_before} before, at most {max(one.descriptors for one in held.samples)}, "
        f"{held.descriptors_after} after"
    )
    clean = not held.left_tasks and held.descriptors_after <= held.descriptors_before + LOOPS_SPARE
    click.echo(f"dialogues: {held.begun} begun, {held.ended} ended, {journal} in the journal")
    told = ", ".join(f"{classes[name]} {name}" for name in ("completed", "invalid", "failed", "never attempted"))
    click.echo(f"turns: {TURNS * held.begun} planned = {told}")
    accounted = held.begun == held.ended == journal and TURNS * held.begun == classes.total()
    if not clean:
        click.echo(f"  left behind: {', '.join(held.left_tasks) or 'descriptors'}   MISSED")
    if not accounted:
        click.echo("  not all accounted for   MISSED")
    return flat and clean and accounted


def _mark(good: bool) -> str:
    return "" if good else "   MISSED"


@click.command()
@click.option("--minutes", type=click.FloatRange(0.5, 24 * 60), default=30.0, show_default=True)
@click.option("--streams", type=click.IntRange(1, 5000), default=100, show_default=True)
def main(minutes: float, streams: int) -> None:
    """Print what was found and PASS or MISSED; exit code 1 where anything is missed."""
    seconds = minutes * 60
    room_for(streams)
    with tempfile.TemporaryDirectory(prefix="duologue-soak-") as scratch:
        place = Path(scratch)
        (place / "metronome.yaml").write_text(BEHAVIOUR)
        held = Held([])
        with own_server(["--metronome", str(place / "metronome.yaml")], place / "server.log") as url:
            click.echo(f"{streams} streams for {minutes:g} minutes, event loop {loop_name()} ...", err=True)
            run = make_run(place, url, streams, seconds)
            run_timed(soak(run, url, held))
        click.echo("counting what was recorded ...", err=True)
        journal, classes = count(run)
        good = verdict(held, journal, classes, seconds)
    click.echo("PASS" if good else "MISSED")
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
