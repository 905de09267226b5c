"""From a run folder, or one dialogue of it, to recordings that a server can give again."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from clients.dialect import interpreter_of
from harness.results.raw_record import raw_record
from harness.runs.planning import slot_of
from servers.replay.recording import Recording, recording_of
from sessions import audio
from sessions.errors import SetupError
from sessions.events import Opened, TurnStarted
from sessions.runs import PlannedScript, RunFolder

Pcm = NDArray[np.int16]


def recordings(path: Path) -> list[Recording]:
    """All finished dialogues of the run at `path`, in the order of its plan; of RUN/dialogues/ID that one.

    Raises `SetupError`, `BadFile` where it is neither, holds none, or is damaged.
    """
    if (path / "plan.json").is_file():
        run, ids = RunFolder.open(path), []
        ids = [line.id for line in sorted(run.journal(), key=lambda line: line.number)]
        if not ids:
            raise SetupError(f"the run {path} has no finished dialogue", "Choose one that has")
    else:
        run, ids = run_of(path), [path.resolve().name]
    clips: dict[tuple[str, int], Pcm] = {}
    return [_recording(run, dialogue_id, clips) for dialogue_id in ids]


def run_of(dialogue: Path) -> RunFolder:
    """The run whose dialogue lies in the folder `dialogue`. Raises `SetupError` where it is none's."""
    place = dialogue.resolve()
    if not (place / "events.jsonl").is_file() or not (place.parent.parent / "plan.json").is_file():
        what = f"{dialogue} is neither a run folder nor a dialogue of one"
        raise SetupError(what, "Give RUN, or RUN/dialogues/ID as `ls RUN/dialogues` shows them")
    return RunFolder.open(dialogue.absolute().parent.parent)


def script_of(run: RunFolder, dialogue_id: str) -> PlannedScript:
    """What was to be said in a dialogue, also in one that was stopped. Raises `SetupError` where the plan has none."""
    number = next((line.number for line in run.journal() if line.id == dialogue_id), None)
    if number is None:
        found = re.match(r"d(\d+)", dialogue_id)
        if found is None or int(found[1]) == 0:
            raise SetupError(f"{run.dialogue(dialogue_id)} is no dialogue of the plan", "Choose another")
        number = int(found[1]) - 1
    return slot_of(run.plan, number).script


def _recording(run: RunFolder, dialogue_id: str, clips: dict[tuple[str, int], Pcm]) -> Recording:
    script = script_of(run, dialogue_id)
    events, received = raw_record(run, dialogue_id, script)
    opened = next((event for event in events if isinstance(event, Opened)), None)
    said = {}
    for event in events:
        if isinstance(event, TurnStarted) and event.turn < len(script.turns):
            said[event.turn] = _clip(run, script.turns[event.turn].audio, event.rate_hz, clips)
    protocol = opened.protocol if opened is not None else run.plan.protocol
    name = f"{run.path.resolve().name}/{dialogue_id}"
    return recording_of(name, events, received, said, interpreter_of(protocol))


def _clip(run: RunFolder, name: str, rate_hz: int, clips: dict[tuple[str, int], Pcm]) -> Pcm:
    """A clip of the run, once. Raises `BadAudio`."""
    key = name, rate_hz
    if key not in clips:
        clips[key] = audio.load(run.clip(name), rate_hz=rate_hz).pcm
    return clips[key]
