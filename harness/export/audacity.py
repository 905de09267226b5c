"""Label tracks for Audacity (File, Import, Labels): one file per dialogue and lane, beside recording.flac as audio.

A line is start, end, text, with tabs between; times in seconds.
"""

from __future__ import annotations

from pathlib import Path

from harness.export.labels import Label, lanes
from harness.results.dialogue_result import DialogueResult
from sessions.clock import NS_PER_S
from sessions.runs import RunFolder, write_atomic


def write(run: RunFolder, dialogues: list[DialogueResult], out: Path) -> None:
    """`d0001-user.txt`, `d0001-agent.txt`, `d0001-events.txt` … into the folder `out`. An empty lane makes no file."""
    for dialogue in dialogues:
        for lane, labels in lanes(dialogue).items():
            if labels:
                write_atomic(out / f"{dialogue.id}-{lane.replace(' ', '-')}.txt", "".join(map(_line, labels)))


def _line(label: Label) -> str:
    return f"{label.start_ns / NS_PER_S:.6f}\t{label.end_ns / NS_PER_S:.6f}\t{label.text}\n"
