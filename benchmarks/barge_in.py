"""Barge-in stop latency over sockets, beside the delay that the metronome was told and this machine's floor.

The metronome says that it hears the user a fixed time after the first audible sample of each interruption; what is
measured counts from that sample to the arrival of its word. Where nothing is late the two are equal (they are, to the
nanosecond, on the virtual clock: tests/servers/test_attentive_metronome.py). Each side is a process of its own.

    python -m benchmarks.barge_in            about 2 minutes
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import click
import numpy as np
import soundfile

from benchmarks.accuracy.floor import floor_ms
from harness.results.derive import derive
from harness.runs.loop import run_timed
from harness.runs.measuring import begin_run
from harness.runs.own_server import own_server
from harness.runs.planning import Ask
from harness.runs.run import Access, Watcher, perform_run
from metrics.result import Value
from metrics.stats import percentile
from metrics.turns import measure_conversation
from sessions.clock import MonotonicClock, TimerWheel
from sessions.events import read_log
from sessions.runs import Load
from sessions.scripts import load_script
from sessions.secrets import Secrets

RATE_HZ = 24_000
DELAYS_MS = (150, 400)
STREAMS = 4
INTERRUPTIONS = 30


@click.command()
def main() -> None:
    """Print measured − scripted stop latency, and the floor."""
    rows: list[tuple[str, list[float]]] = []
    asked = STREAMS * INTERRUPTIONS
    with tempfile.TemporaryDirectory(prefix="duologue-barge-in-") as scratch:
        for delay_ms in DELAYS_MS:
            place = Path(scratch) / str(delay_ms)
            place.mkdir()
            stops_ms = _stops_ms(place, delay_ms)
            rows.append((f"stop latency, scripted {delay_ms} ms", stops_ms))
            rows.append(("  measured - scripted", [stop_ms - delay_ms for stop_ms in stops_ms]))
            if len(stops_ms) < asked:
                rows.append((f"  {asked - len(stops_ms)} of {asked} interruptions left out (invalid, failed)", []))
    click.echo(f"{'milliseconds':52}{'n':>6}{'p50':>10}{'p99':>10}{'max':>10}")
    _tell("floor: write to data_received", floor_ms())
    for label, values in rows:
        _tell(label, values)


def _stops_ms(place: Path, delay_ms: int) -> list[float]:
    """Of every interruption that was completed."""
    behaviour = place / "stops.yaml"
    behaviour.write_text(
        "version: 1\nreply: {delay_ms: 50, duration_ms: 4000, packet_ms: 40, pace: realtime}\n"
        f"hearing: {{delay_ms: {delay_ms}}}\n"
    )
    with own_server(["--metronome", str(behaviour)], place / "server.log") as url:
        ask = Ask(
            url,
            [load_script(_script(place))],
            turn_detection="server_vad",
            server_vad={"silence_duration_ms": 200},
            repeat=STREAMS,
            load=Load(sessions=STREAMS, ramp_s=1.0),
        )
        run = begin_run(ask, Secrets(), place / "run", "barge-in")
        run_timed(perform_run(run, Access(url, {}, "", Secrets()), TimerWheel(MonotonicClock()), Watcher()))
    found = []
    for line in run.journal():
        folder = run.dialogue(line.id)
        derived = derive(read_log(folder / "events.jsonl"), (folder / "received.bin").read_bytes())
        for turn in measure_conversation(derived.conversation):
            stop = turn.turn_taking.get("barge_in_stop_ms")
            if turn.turn_class == "completed" and isinstance(stop, Value):
                found.append(stop.value)
    return found


def _script(place: Path) -> Path:
    """A question, and interruptions at many instants of what answers it."""
    t = np.arange(RATE_HZ // 2) / RATE_HZ
    soundfile.write(place / "sound.wav", 0.2 * np.cos(2 * np.pi * 440 * t), RATE_HZ)
    sound = f"  - {{audio: sound.wav, speech_end_sample: {len(t) - 1}"
    turns = [f"{sound}}}"]
    for number in range(INTERRUPTIONS):
        turns.append(f"{sound}, kind: interruption, start: {{after: onset, gap_ms: {300 + 31 * number}}}}}")
    path = place / "barge-in.yaml"
    path.write_text("\n".join(["version: 1", "name: barge-in", "turns:", *turns]) + "\n")
    return path


def _tell(label: str, values: list[float]) -> None:
    if not values:
        click.echo(label)
        return
    p99 = f"{percentile(values, 99):10.3f}" if len(values) >= 100 else f"{'-':>10}"
    click.echo(f"{label:52}{len(values):>6}{percentile(values, 50):10.3f}{p99}{max(values):10.3f}")


if __name__ == "__main__":
    main()
