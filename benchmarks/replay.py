"""Replayed minus recorded: how true `duologue serve --replay` is to a recording, beside this machine's floor.

Dialogues with the metronome are recorded over sockets, each side a process of its own, with manual turns and with
server VAD; then the recordings are served and measured by the same client. A difference holds what both measurements
and the replaying server add: two wake-ups and two loopback crossings more than in a single write.

    python -m benchmarks.replay            about 3 minutes, on a machine with nothing else to do
    python -m benchmarks.replay --quick    about 1 minute
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
from metrics.result import TurnResult, Value
from metrics.stats import percentile
from metrics.turns import measure_conversation
from sessions.clock import MonotonicClock, TimerWheel
from sessions.events import read_log
from sessions.runs import Load, RunFolder
from sessions.scripts import script_from_audio
from sessions.secrets import Secrets

RATE_HZ = 24_000
STREAMS = 4
TURNS, QUICK_TURNS = 33, 12
MEASURES = ("first_packet_ms", "voice_to_voice_ms")
BEHAVIOUR = """\
version: 1
description: A short reply, in real time.
reply:
  delay_ms: 150
  leading_silence_ms: 40
  duration_ms: 300
  packet_ms: 20
  pace: realtime
"""


@click.command()
@click.option("--quick", is_flag=True, help="A look: too few turns for p99.")
def main(quick: bool) -> None:
    """Print replayed − recorded of first packet and voice-to-voice, and the floor."""
    with tempfile.TemporaryDirectory(prefix="duologue-replay-") as scratch:
        place = Path(scratch)
        (place / "short.yaml").write_text(BEHAVIOUR)
        clips = _clips(place, QUICK_TURNS if quick else TURNS)
        rows = []
        for turn_detection in ("manual", "server_vad"):
            with own_server(["--metronome", str(place / "short.yaml")], place / "metronome.log") as url:
                recorded = _measured(url, clips, turn_detection, place / f"{turn_detection}-recorded")
            with own_server(["--replay", str(recorded.path)], place / "replay.log") as url:
                replayed = _measured(url, clips, turn_detection, place / f"{turn_detection}-replayed")
            rows += _differences(turn_detection, recorded, replayed)
    click.echo(f"{'milliseconds':50}{'n':>6}{'p50':>9}{'p99':>9}{'max':>9}")
    _tell("floor: write to data_received", floor_ms())
    for label, values, left_out in rows:
        _tell(label, values)
        if left_out:
            click.echo(f"  {left_out} turns left out (invalid or failed, here or there)")


def _clips(place: Path, turns: int) -> list[str]:
    """Utterances of 300 ms and a little more, each of its own length."""
    paths = []
    for number in range(turns):
        t = np.arange(7_200 + 37 * number) / RATE_HZ
        path = place / f"utterance-{number}.wav"
        soundfile.write(path, 0.2 * np.cos(2 * np.pi * 440 * t), RATE_HZ)
        paths.append(str(path))
    return paths


def _measured(url: str, clips: list[str], turn_detection: str, out: Path) -> RunFolder:
    secrets = Secrets()
    vad: dict[str, float] = {} if turn_detection == "manual" else {"silence_duration_ms": 200}
    ask = Ask(
        url,
        [script_from_audio(clips)],
        turn_detection=turn_detection,
        server_vad=vad,
        repeat=STREAMS,
        load=Load(sessions=STREAMS, ramp_s=1.0),
    )
    run = begin_run(ask, secrets, out, "replay")
    clock = TimerWheel(MonotonicClock())
    run_timed(perform_run(run, Access(url, {}, "", secrets), clock, Watcher()))
    return run


def _differences(turn_detection: str, recorded: RunFolder, replayed: RunFolder) -> list[tuple[str, list[float], int]]:
    """By measure: label, replayed − recorded of every turn that both completed, and how many did not."""
    old, new = _by_content(recorded), _by_content(replayed)
    if old.keys() != new.keys():
        raise click.ClickException("a replayed dialogue did not bring the recorded messages")
    pairs = [pair for content in old for pair in zip(old[content], new[content], strict=True)]
    rows = []
    for name in MEASURES:
        values = []
        for before, after in pairs:
            a, b = before.measures[name], after.measures[name]
            if before.turn_class == after.turn_class == "completed" and isinstance(a, Value) and isinstance(b, Value):
                values.append(b.value - a.value)
        label = f"{turn_detection}, {name.removesuffix('_ms').replace('_', ' ')}: replayed - recorded"
        rows.append((label, values, len(pairs) - len(values)))
    return rows


def _by_content(run: RunFolder) -> dict[bytes, list[TurnResult]]:
    """The dialogues' turns by all that was received, which a replay gives byte for byte."""
    found = {}
    for line in run.journal():
        folder = run.dialogue(line.id)
        received = (folder / "received.bin").read_bytes()
        conversation = derive(read_log(folder / "events.jsonl"), received).conversation
        found[received] = measure_conversation(conversation, limit_lateness_ms=run.plan.limits.lateness_ms)
    return found


def _tell(label: str, values: list[float]) -> None:
    if not values:
        click.echo(f"{label:50}{0:>6}")
        return
    p99 = f"{percentile(values, 99):9.3f}" if len(values) >= 100 else f"{'-':>9}"
    click.echo(f"{label:50}{len(values):>6}{percentile(values, 50):9.3f}{p99}{max(values):9.3f}")


if __name__ == "__main__":
    main()
