"""How many real-time streams one process holds: 20 ms frames, 24 kHz PCM16, OpenAI Realtime JSON, p99 lateness <= 5 ms.

Sending only, then full duplex: a stream of audio messages of the same rate comes back and is parsed and stamped. Arms,
each a process of its own, in alternation at every level, against one cheap server in a process of its own:

    ours        the dialogues of `duologue measure --sessions N`
    2 workers   the same streams in two such processes at once, as with --workers 2
    locust      a WebSocket user of PyPI locust, from its own throw-away environment
    sleeps      a plain `websockets` script that sleeps 20 ms after each send (no schedule: its gaps are judged)
    deadlines   the same with absolute deadlines
    bare        the limit: a loop that only writes ready frames to sockets and throws away what comes

Clients and server share the cores of this machine: with two cores, two workers and the server are more than it has.

    python -m benchmarks.capacity            about half an hour; a quiet machine with at least 2 cores
    python -m benchmarks.capacity --quick    about 9 minutes
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from benchmarks.peers.environment import interpreter_for
from benchmarks.streams import STEP_NS, Window
from sessions.clock import NS_PER_S
from sessions.errors import SetupError

ARMS = ("bare", "ours", "2 workers", "deadlines", "sleeps", "locust")
LIMIT_MS = 5.0
LEVELS = (50, 100, 200, 300, 400, 500, 600, 800, 1000, 1250, 1500, 2000, 2500, 3000)
QUICK_LEVELS = (100, 300, 500, 800, 1000, 1250, 1600, 2000)
TRIES = 2
"""A level holds if it holds once: what disturbs a shared machine only takes away."""
GIVES_UP = 2
GOALS = {"sink": 1000, "duplex": 500}
GOAL_SHARE = 0.8
TITLES = {"sink": "sending only", "duplex": "full duplex"}
_ROOT = Path(__file__).resolve().parents[1]
_PATIENCE_S = 20


def hold(arm: str, path: str, streams: int, seconds: float) -> Window | None:
    """One level of one arm against a fresh server. None where the arm did not come to an end."""
    workers = 2 if arm == "2 workers" else 1
    with _server() as address:
        commands = [_command(arm, f"{address}/{path}", streams // workers, seconds)] * workers
        environment = os.environ | {"PYTHONPATH": str(_ROOT)}  # locust's own Python knows nothing of ours
        running = [
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment)
            for command in commands
        ]
        try:
            limit_s = _PATIENCE_S + 2 * streams * STEP_NS / NS_PER_S + 3 * seconds
            said = [one.communicate(timeout=limit_s)[0] for one in running]
        except subprocess.TimeoutExpired:
            return None
        finally:
            for one in running:
                one.kill()
                one.communicate()
    windows = [msgspec.json.decode(text, type=Window) for text in said if text]
    return _together(windows) if len(windows) == workers else None


def _command(arm: str, url: str, streams: int, seconds: float) -> list[str]:
    settings = [url, str(streams), str(seconds)]
    if arm == "locust":
        return [str(interpreter_for("locust")), str(_ROOT / "benchmarks/peers/drive_locust.py"), *settings]
    return [sys.executable, "-m", "benchmarks.streams", "ours" if arm == "2 workers" else arm, *settings]


@contextlib.contextmanager
def _server() -> Iterator[str]:
    server = subprocess.Popen([sys.executable, "-m", "benchmarks.stream_sink"], stdout=subprocess.PIPE)
    assert server.stdout is not None
    try:
        yield server.stdout.readline().decode().strip()
    finally:
        server.terminate()
        server.wait()
        server.stdout.close()


def _together(windows: list[Window]) -> Window:
    """Counts and CPU time of all, lateness of the worst."""
    return Window(
        seconds=windows[0].seconds,
        **{
            name: sum(getattr(window, name) for window in windows)
            for name in ("streams", "sent", "expected", "left", "received", "parsed", "cpu_s")
        },
        **{
            name: max(getattr(window, name) for window in windows)
            for name in ("late_p50_ms", "late_p99_ms", "late_max_ms")
        },
    )


def holds(found: Window | None, duplex: bool) -> bool:
    """p99 in time, no frame left out, and in duplex no packet either."""
    if found is None or found.late_p99_ms > LIMIT_MS or found.sent < 0.99 * found.expected:
        return False
    return not duplex or found.received >= 0.99 * found.expected


def climb(arms: list[str], path: str, levels: tuple[int, ...], seconds: float) -> dict[str, int]:
    """By arm, the highest level that held. An arm goes on until it fails at two levels in a row."""
    highest = dict.fromkeys(arms, 0)
    failed = dict.fromkeys(arms, 0)
    for streams in levels:
        for arm in arms:
            if failed[arm] == GIVES_UP:
                continue
            for _ in range(TRIES):
                found = hold(arm, path, streams, seconds)
                held = holds(found, path == "duplex")
                click.echo(_row(arm, streams, found, held))
                if held:
                    highest[arm], failed[arm] = streams, 0
                    break
            else:
                failed[arm] += 1
    return highest


def _row(arm: str, streams: int, found: Window | None, held: bool) -> str:
    if found is None:
        return f"  {arm:<12}{streams:>7}   did not come to an end"
    if not found.sent:
        return f"  {arm:<12}{streams:>7}   no frame that was due left"
    share = found.sent / found.expected
    return (
        f"  {arm:<12}{streams:>7}{found.late_p50_ms:>10.2f}{found.late_p99_ms:>10.2f}{found.late_max_ms:>10.2f}"
        f"{share:>9.1%}{found.received:>10}{found.cpu_s / found.seconds:>8.0%}   {'held' if held else 'no'}"
    )


@click.command()
@click.option("--quick", is_flag=True, help="Few levels, short windows.")
@click.option("--seconds", type=click.FloatRange(1), help="Length of a window.  [default: 5, quick: 2]")
def main(quick: bool, seconds: float | None) -> None:
    """Print what each arm holds and the ratios. Exit code 1 when a goal is missed."""
    levels = QUICK_LEVELS if quick else LEVELS
    window_s = seconds or (2.0 if quick else 5.0)
    missed = False
    arms = list(ARMS)
    try:
        interpreter_for("locust")
    except SetupError as error:
        click.echo(f"without locust: {error}")
        arms.remove("locust")
    for path, title in TITLES.items():
        click.echo(f"{title}: lateness in ms over {window_s:g} s")
        click.echo(f"  {'arm':<12}{'streams':>7}{'p50':>10}{'p99':>10}{'max':>10}{'sent':>9}{'packets':>10}{'CPU':>8}")
        missed |= _tell(path, climb(arms, path, levels, window_s))
    sys.exit(1 if missed else 0)


def _tell(path: str, highest: dict[str, int]) -> bool:
    """The ratios of one direction; whether a goal is missed."""
    ours, bare = highest["ours"], highest["bare"]
    click.echo(f"{TITLES[path]}: streams held at p99 <= {LIMIT_MS:g} ms")
    for arm, streams in highest.items():
        ratio = f"   ours / {arm} = {ours / streams:.2f}" if streams and arm not in ("ours", "2 workers") else ""
        click.echo(f"  {arm:<12}{streams:>7}{ratio}")
    click.echo(
        f"from 1 to 2 workers, on {os.cpu_count()} cores that the server shares: {ours} to {highest['2 workers']}"
    )
    held = ours >= GOALS[path] and ours >= GOAL_SHARE * bare
    click.echo(f"goal: >= {GOALS[path]}, and >= {GOAL_SHARE:.0%} of the bare loop: {'held' if held else 'MISSED'}\n")
    return not held


if __name__ == "__main__":
    main()
