"""The scoring engine beside bare forward passes, beside the published way, and within a bound of memory.

All arms run on the same cores with the same weights, by turns, and their scores are compared. Threads of models that
wait do not spin (OMP_WAIT_POLICY=PASSIVE) in any arm.

    python -m benchmarks.scoring forward    bare passes at the best batch size / ours, after loading: goal at least 90 %
    python -m benchmarks.scoring miniset    40 sets of 25 short replies: at least 3 times as fast as set by set
    python -m benchmarks.scoring memory     a file of one hour: at most 2 GB at once, all processes together
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import TypeVar

import click
import msgspec

from benchmarks.scoring import bare, ours
from benchmarks.scoring.measured import STAND_IN, find, options_for
from benchmarks.scoring.memory import run_watched
from benchmarks.scoring.replies import write_long, write_replies
from harness.score.engine import ScoreStore
from metrics.result import Measured
from sessions.clock import NS_PER_S, MonotonicClock

BATCHES = (1, 2, 4, 8, 16)
GOAL_SHARE, GOAL_TIMES, GOAL_BYTES = 0.9, 3.0, 2 * 10**9
_PARTS = 4
"""Of the sounds; the best batch size is looked for on one."""
SAME = 1e-3
"""Scores may differ by so much: sums in another order, padding."""
_FIRST_BATCH_NS = NS_PER_S // 20

T = TypeVar("T")

quick_option = click.option("--quick", is_flag=True, help="Few sounds: whether it works, not how fast.")


@contextmanager
def _place() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="scoring-benchmark-"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _arm(name: str, *arguments: object) -> list[str]:
    return [sys.executable, "-m", f"benchmarks.scoring.{name}", *map(str, arguments)]


def _output(command: list[str]) -> bytes:
    return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout


def _ours(
    place: Path, metrics: list[str], folders: list[Path]
) -> tuple[ours.Report, dict[str, dict[str, dict[str, Measured]]]]:
    """What the engine reported, and its figures by metric and sample. Each time from nothing."""
    scores = place / "scores"
    shutil.rmtree(scores, ignore_errors=True)
    out = _output(_arm("ours", place, scores, ",".join(metrics), *folders))
    store = ScoreStore(scores)
    figures = {metric: {line.sample: dict(line.score.figures) for line in store.lines(metric)} for metric in metrics}
    return msgspec.json.decode(out, type=ours.Report), figures


def _bare(place: Path, metric: str, batch: int, folders: list[Path]) -> bare.Report:
    return msgspec.json.decode(_output(_arm("bare", place, metric, batch, *folders)), type=bare.Report)


def _per_sound(report: ours.Report, metric: str) -> tuple[float, float]:
    """Seconds and CPU seconds, from the first batch to the last: models are loaded then, both arms have warmed up."""
    stamps, cpu = report.stamps_ns[metric], report.cpu_ns[metric]
    first = sum(stamp <= stamps[0] + _FIRST_BATCH_NS for stamp in stamps)
    count = (len(stamps) - first) * NS_PER_S
    return (stamps[-1] - stamps[first - 1]) / count, (cpu[-1] - cpu[first - 1]) / count


@click.group()
def main() -> None:
    """What the scoring engine costs. Exit code 1 where a goal is missed."""
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    os.environ.setdefault("OMP_NUM_THREADS", str(len(os.sched_getaffinity(0))))


@main.command()
@quick_option
@click.option("--metrics", default=f"dnsmos,{STAND_IN}", show_default=True)
@click.option("--sounds", default=96, show_default=True)
@click.option("--rounds", default=3, show_default=True)
def forward(metrics: str, sounds: int, rounds: int, quick: bool) -> None:
    """(a) Bare forward passes at the best batch size beside the engine, one metric at a time."""
    sounds, rounds = (24, 1) if quick else (sounds, rounds)
    missed = False
    with _place() as place:
        folders = write_replies(place / "sounds", _PARTS, sounds // _PARTS, (1.0, 4.0))
        for metric in metrics.split(","):
            options_for([metric], place)
            missed |= not _forward(place, metric, folders, rounds)
    sys.exit(int(missed))


def _forward(place: Path, metric: str, folders: list[Path], rounds: int) -> bool:
    part, sounds = (sum(1 for folder in some for _ in folder.iterdir()) for some in (folders[:1], folders))
    tried = {batch: _bare(place, metric, batch, folders[:1]).seconds for batch in BATCHES}
    best = min(tried, key=lambda batch: tried[batch])
    told = ", ".join(f"{batch}: {1000 * seconds / part:.0f}" for batch, seconds in tried.items())
    click.echo(f"{metric}: {sounds} sounds; bare ms per sound by batch size: {told}")
    shares: list[float] = []
    of_cpu: list[float] = []
    for number in range(rounds):
        if number % 2 == 0:  # who goes first changes from round to round
            plain = _bare(place, metric, best, folders)
        report, figures = _ours(place, [metric], folders)
        if number % 2:
            plain = _bare(place, metric, best, folders)
        apart = bare.differences(plain.figures, figures[metric])
        if apart > SAME:
            raise SystemExit(f"{metric}: scores differ by {apart:.2g}")
        of_bare, (of_ours, ours_cpu) = plain.seconds / sounds, _per_sound(report, metric)
        shares.append(of_bare / of_ours)
        of_cpu.append(plain.cpu_s / sounds / ours_cpu)
        click.echo(
            f"  round {number + 1}: bare {1000 * of_bare:.0f} ms, ours {1000 * of_ours:.0f} ms per sound, "
            f"{100 * shares[-1]:.0f} %; by CPU time {100 * of_cpu[-1]:.0f} %; scores within {apart:.1g}"
        )
    share = median(shares)
    told = f"{100 * share:.0f} % of bare passes (goal {100 * GOAL_SHARE:.0f} %)"
    click.echo(f"  {told}: {_verdict(share >= GOAL_SHARE)}; by CPU time {100 * median(of_cpu):.0f} %")
    return bool(share >= GOAL_SHARE)


def _published(place: Path, metric: str, folders: list[Path]) -> dict[str, dict[str, float]]:
    """Figures by sample, of one process after another."""
    found: dict[str, dict[str, float]] = {}
    for folder in folders:
        found |= msgspec.json.decode(_output(_arm("published", place, metric, folder)))
    return found


def _spent(clock: MonotonicClock, do: Callable[[], T]) -> tuple[tuple[float, float], T]:
    """The seconds that something took, by the clock and of CPU in processes that it started, and what came of it."""
    began_ns, before = clock.now_ns(), resource.getrusage(resource.RUSAGE_CHILDREN)
    made = do()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return ((clock.now_ns() - began_ns) / NS_PER_S, cpu_s), made


@main.command()
@quick_option
@click.option("--metrics", default=STAND_IN, show_default=True, help="Those of a suite: URO-Bench's own is UTMOS.")
@click.option("--sets", default=40, show_default=True)
@click.option("--replies", default=25, show_default=True, help="In each set.")
@click.option("--seconds", type=(float, float), default=(0.5, 1.5), show_default=True, help="How long replies are.")
def miniset(metrics: str, sets: int, replies: int, seconds: tuple[float, float], quick: bool) -> None:
    """(b) A suite of small sets: all at once, beside one process per set and metric."""
    sets, replies = (3, 8) if quick else (sets, replies)
    names, clock = metrics.split(","), MonotonicClock()
    with _place() as place:
        folders = write_replies(place / "sounds", sets, replies, seconds)
        options_for(names, place)
        (ours_s, ours_cpu_s), figures = _spent(clock, lambda: _ours(place, names, folders)[1])
        total_s = total_cpu_s = 0.0
        for name in names:
            (published_s, cpu_s), found = _spent(clock, lambda name=name: _published(place, name, folders))  # type: ignore[misc]
            total_s, total_cpu_s = total_s + published_s, total_cpu_s + cpu_s
            apart = bare.differences(found, figures[name])
            click.echo(f"{name}: published {published_s:.1f} s, {cpu_s:.1f} s of CPU; scores within {apart:.1g}")
            if apart > SAME:
                raise SystemExit(f"{name}: scores differ by {apart:.2g}")
    times = total_s / ours_s
    click.echo(
        f"{sets} sets of {replies}: published {total_s:.1f} s, ours {ours_s:.1f} s with {ours_cpu_s:.1f} s of CPU"
    )
    told = f"{times:.1f} times as fast (goal {GOAL_TIMES:.0f}): {_verdict(times >= GOAL_TIMES)}"
    click.echo(f"  {told}; by CPU time {total_cpu_s / ours_cpu_s:.1f}")
    sys.exit(int(times < GOAL_TIMES))


@main.command()
@quick_option
@click.option("--metrics", default=f"dnsmos,{STAND_IN},distillmos,signal", show_default=True)
@click.option("--seconds", default=3600, show_default=True)
def memory(metrics: str, seconds: int, quick: bool) -> None:
    """(c) One long file of two channels; the most memory at once of all processes together."""
    seconds = 300 if quick else seconds
    names = metrics.split(",")
    with _place() as place:
        folder = place / "sounds"
        folder.mkdir()
        write_long(folder / "long.wav", seconds)
        options_for(names, place)
        _, peak = run_watched(_arm("ours", place, place / "scores", metrics, folder))
        store = ScoreStore(place / "scores")
        for name in names:
            for line in store.lines(name):
                first = find(name).figures[0].name
                click.echo(f"{name}: {line.score.figures[first]} {', '.join(line.score.flags)}")
    click.echo(f"{seconds} s of two channels: {peak / 1e9:.2f} GB at most (goal {GOAL_BYTES / 1e9:.0f} GB): "
               f"{_verdict(peak <= GOAL_BYTES)}")  # fmt: skip
    sys.exit(int(peak > GOAL_BYTES))


def _verdict(reached: bool) -> str:
    return "PASS" if reached else "MISSED"


if __name__ == "__main__":
    main()
