"""The path's share that a run reports, beside what a proxy on that path logged: through 0, 30 + 30 and 60 ms.

A metronome is measured directly; the reflector stands behind the proxy. Reflector, proxy and client are processes of
their own on one host. Whatever is reported beyond the proxy's own hold is loopback and what wakes late.

    python -m benchmarks.network         about a minute
"""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from harness.network.log import read
from harness.network.path import path_times
from harness.runs.own_server import own_server
from metrics.stats import percentile
from sessions.clock import NS_PER_MS
from tests.support.fault_proxy import Passed
from tests.support.proxied import passages

PATHS = ((0.0, 0.0), (30.0, 30.0), (60.0, 0.0))
"""Milliseconds added up and down."""
GOAL_MS = 2.0


@contextlib.contextmanager
def proxied(url: str, up_ms: float, down_ms: float, log: Path) -> Iterator[str]:
    """The fault proxy before `url`; its log is written when it stops."""
    delays = ["--delay-up-ms", str(up_ms), "--delay-down-ms", str(down_ms)]
    command = [sys.executable, "-m", "tests.support.fault_proxy", url, *delays, "--log", str(log)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield process.stdout.readline().decode().strip()
    finally:
        process.send_signal(signal.SIGINT)
        process.wait(20)
        process.stdout.close()


def measured(target: str, reflector: str, repeat: int, out: Path) -> float:
    """Measure `target` beside `reflector`; the path's median as summary.json has it."""
    command = [sys.executable, "-m", "harness", "measure", target, "--script", "facts", "--repeat", str(repeat)]
    command += ["--reflector", reflector, "--no-calibration", "--out", str(out)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    path = msgspec.json.decode((out / "summary.json").read_bytes())["network"]["path"]
    return float(path["during"]["distribution"]["p50"])


def compare(up_ms: float, down_ms: float, repeat: int, place: Path) -> tuple[float, list[float], list[float]]:
    """The reported median; per exchange of the run, what the proxy logged as its hold, and reported − logged. In ms."""
    log, out = place / "proxy.jsonl", place / "run"
    with (
        own_server(["--metronome", "steady"], place / "metronome.log") as target,
        own_server(["--reflector"], place / "reflector.log") as reflector,
        proxied(reflector, up_ms, down_ms, log) as address,
    ):
        reported_ms = measured(target, address, repeat, out)
    (stretch,) = read(out)
    began_ns = stretch.run_began_ns
    assert began_ns is not None
    pieces = [msgspec.json.decode(line, type=Passed) for line in log.read_bytes().splitlines()]
    seen = [one for one in passages(pieces, stretch.exchanges) if one.exchange.sent_ns >= began_ns]
    logged_ms = [one.added_ns / NS_PER_MS for one in seen]
    pairs = zip(path_times([stretch]).during_ms, logged_ms, strict=False)  # the log is read for the first 15 s
    return reported_ms, logged_ms, [path_ms - held_ms for path_ms, held_ms in pairs]


@click.command()
@click.option("--repeat", type=click.IntRange(1), default=1, show_default=True, help="Dialogues for each path.")
def main(repeat: int) -> None:
    """Print reported and logged medians. Exit code 1 when they are more than 2 ms apart."""
    click.echo(f"{'path, ms':<12}{'reported p50':>14}{'logged p50':>12}{'difference':>12}{'each p50':>10}{'p95':>7}  n")
    passed = True
    for up_ms, down_ms in PATHS:
        with tempfile.TemporaryDirectory(prefix="duologue-network-") as scratch:
            reported_ms, logged_ms, apart_ms = compare(up_ms, down_ms, repeat, Path(scratch))
        logged = percentile(logged_ms, 50)
        within = abs(reported_ms - logged) <= GOAL_MS
        passed = passed and within
        each = f"{percentile(apart_ms, 50):>10.2f}{percentile(apart_ms, 95):>7.2f}  {len(apart_ms)}"
        row = f"{f'{up_ms:g} + {down_ms:g}':<12}{reported_ms:>14.2f}{logged:>12.2f}{reported_ms - logged:>12.2f}{each}"
        click.echo(f"{row}  {'PASS' if within else 'FAIL'}")
    click.echo(f"{'PASS' if passed else 'FAIL'}: the reported path is within {GOAL_MS:g} ms of the proxy's own log")
    sys.exit(0 if passed else 1)


if __name__ == "__main__":
    main()
