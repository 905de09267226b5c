"""CPU time: of a frame sent, of a packet received, and of `duologue --help`.

uvloop spins for the last half millisecond before a timer, which is no cost of a frame. So the loop here is asyncio's,
which never spins (uvloop is cheaper still), and what a process costs with few streams is taken off.

    python -m benchmarks.cost            about 2 minutes
"""

from __future__ import annotations

import resource
import subprocess
import sys

import click

from benchmarks.capacity import hold
from benchmarks.streams import Window

FEW, MANY = 25, 200
ARMS = {"ours": "ours-asyncio", "plain script": "deadlines"}
HELPS = 5
GOAL_HELP_S = 0.25


def costs_us(arm: str, seconds: float) -> tuple[float, float] | None:
    """CPU time of a frame and of a packet, in microseconds. None where an arm did not come to an end."""
    found = [hold(arm, path, streams, seconds) for path in ("sink", "duplex") for streams in (FEW, MANY)]
    if any(window is None for window in found):
        return None
    few, many, few_duplex, many_duplex = (window for window in found if window is not None)
    frame_us = _more_us(few, many) / (many.left - few.left)
    packets_us = _more_us(few_duplex, many_duplex) - frame_us * (many_duplex.left - few_duplex.left)
    return frame_us, packets_us / (many_duplex.parsed - few_duplex.parsed)


def _more_us(few: Window, many: Window) -> float:
    return (many.cpu_s - few.cpu_s) * 1e6


def help_cpu_s() -> float:
    """The least CPU time of some starts, user and system."""
    times = []
    for _ in range(HELPS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-m", "harness", "--help"], stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        times.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    return min(times)


@click.command()
@click.option("--seconds", type=click.FloatRange(1), default=3.0, show_default=True, help="Length of a window.")
def main(seconds: float) -> None:
    """Print CPU microseconds and their ratios. Exit code 1 when `--help` costs more than its goal."""
    click.echo(f"{'CPU us':<14}{'a frame sent':>14}{'a packet received':>20}")
    found = {}
    for name, arm in ARMS.items():
        costs = costs_us(arm, seconds)
        if costs is None:
            click.echo(f"{name:<14}  did not come to an end")
            continue
        found[name] = costs
        click.echo(f"{name:<14}{costs[0]:>14.1f}{costs[1]:>20.1f}")
    if len(found) == len(ARMS):
        ours, plain = found.values()
        click.echo(f"{'ratio':<14}{ours[0] / plain[0]:>14.2f}{ours[1] / plain[1]:>20.2f}")
    used_s = help_cpu_s()
    click.echo(f"duologue --help: {used_s:.3f} s of CPU (goal under {GOAL_HELP_S} s)")
    sys.exit(0 if used_s < GOAL_HELP_S else 1)


if __name__ == "__main__":
    main()
