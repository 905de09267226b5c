"""An analysis on disk: `analysis.json`, and a label track of each sample for Audacity."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from harness.analyze.measuring import VOICE_TO_VOICE
from harness.analyze.result import Analysis, AudioTurn, SampleResult, encode
from harness.report.wording import number
from metrics.result import Value
from sessions.clock import NS_PER_S
from sessions.errors import SetupError
from sessions.runs import disk_errors, write_atomic

ANALYSIS = "analysis.json"


def check_free(folder: Path, *, force: bool) -> None:
    """Raise `SetupError` where an analysis lies in `folder` and may not be written over."""
    if not force and (folder / ANALYSIS).exists():
        raise SetupError(f"{folder / ANALYSIS} is there already", "Write over it with --force, or choose another --out")


def write(analysis: Analysis, folder: Path) -> Path:
    """Write `analysis.json` and `labels/NAME.txt`; where the first one is. Raises `SetupError`."""
    for sample in analysis.samples:
        path = folder / "labels" / f"{sample.name}.txt"
        with disk_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomic(path, "".join(track_lines(sample)))
    place = folder / ANALYSIS
    with disk_errors(place):
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(place, encode(analysis))
    return place


def track_lines(sample: SampleResult) -> Iterator[str]:
    """The user's turns and the agent's stretches as one Audacity label track, by their starts."""
    agent = [(start_ns, end_ns, "agent") for start_ns, end_ns in sample.agent.stretches_ns]
    user = [(turn.onset_ns, turn.end_ns, f"user: {turn.kind}{_told(turn)}") for turn in sample.turns]
    for start_ns, end_ns, text in sorted([*agent, *user]):
        yield f"{start_ns / NS_PER_S:.6f}\t{end_ns / NS_PER_S:.6f}\t{text}\n"


def _told(turn: AudioTurn) -> str:
    parts = [
        f"{name} {number(measured.value)} ms"
        for key, name in ((VOICE_TO_VOICE, "voice-to-voice"), ("barge_in_stop_ms", "stop"))
        if isinstance(measured := turn.measures.get(key), Value)
    ]
    return f" ({', '.join(parts)})" if parts else ""
