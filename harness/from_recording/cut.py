"""Cutting a call: find who speaks when, place the user's utterances, write audio, sidecars and the script."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from harness.from_recording.lanes import Call, lane_blocks, lane_number, lane_piece, open_call
from harness.from_recording.segments import METHODS, VERSIONED, joined
from harness.from_recording.timeline import Placed, place
from sessions import audio, sidecar
from sessions.errors import BadAudio, SetupError
from sessions.runs import disk_errors, write_atomic
from sessions.scripts import check_script
from sessions.speech_end import SpeechEnd

LEAD_MS = 40
TAIL_MS = 200
OTHER_PAUSE_MS = 400
"""The other side is still speaking in a pause shorter than this."""
_LONGEST_GAP_MS = 600_000
_HEAD = "# Cut from a recording by duologue scripts from-recording; write the texts where a score needs them.\n"


@dataclass(frozen=True, slots=True)
class Cut:
    """What is asked. lane, other: names of channels, `other` "" for the second of two · method: of `METHODS` ·
    pause_ms: stretches of the user's speech less than so far apart are one utterance."""

    call: Path
    out: Path
    lane: str = "left"
    other: str = ""
    method: str = "silero"
    pause_ms: int = 700
    force: bool = False


@dataclass(frozen=True, slots=True)
class Written:
    """script: the YAML that was written · call, placed: what it was made from · notes: what a user should know."""

    script: Path
    call: Call
    placed: tuple[Placed, ...]
    notes: tuple[str, ...]


def cut_call(asked: Cut) -> Written:
    """Write the script and its audio below `asked.out`. Raises `SetupError`, also `BadAudio`."""
    name = re.sub(r"[^a-z0-9]+", "-", asked.call.stem.lower()).strip("-") or "call"
    script = asked.out / f"{name}.yaml"
    if not asked.force and (script.exists() or (asked.out / name).exists()):
        raise SetupError(
            f"{script} or its audio is there already", "Write over it with --force, or choose another --out"
        )
    call = open_call(asked.call)
    lane = lane_number(call, asked.lane)
    other, notes = _other_lane(call, lane, asked.other)
    find, within = METHODS[asked.method], asked.pause_ms * call.rate_hz // 1000
    user = joined(find(lane_blocks(call, lane), call.rate_hz), within)
    if not user:
        raise BadAudio(
            f"no speech on the lane {asked.lane} of {asked.call}, by {VERSIONED[asked.method]}",
            "Is the user on another lane (--lane), or is another --method better?",
        )
    heard = None
    if other is not None:
        heard = joined(find(lane_blocks(call, other), call.rate_hz), OTHER_PAUSE_MS * call.rate_hz // 1000)
    if heard == []:
        heard, notes = None, (*notes, "nothing is said on the other lane: every turn starts 300 ms after the reply")
    placed = place(user, heard, call.rate_hz, lead_samples=LEAD_MS * call.rate_hz // 1000)
    _write(asked, name, script, call, lane, placed)
    _, mistakes = check_script(script)
    if mistakes:
        raise mistakes[0]
    return Written(script, call, tuple(placed), (*notes, *_long_gaps(placed, call.rate_hz)))


def _long_gaps(placed: list[Placed], rate_hz: int) -> Iterator[str]:
    for number, turn in enumerate(placed, 1):
        gap_s = (turn.gap_samples or 0) / rate_hz
        if gap_s * 1000 > _LONGEST_GAP_MS:
            known_s = _LONGEST_GAP_MS // 1000
            yield f"turn {number} came {gap_s:.0f} s after what it followed; a script knows no gap above {known_s} s"


def _other_lane(call: Call, lane: int, named: str) -> tuple[int | None, tuple[str, ...]]:
    unknown = "every turn starts 300 ms after the reply"
    if named:
        other = lane_number(call, named)
        if other == lane:
            raise SetupError(f"--lane and --other are both channel {lane}", "Name two different ones")
        return other, ()
    if call.same_lanes:
        return None, (f"its channels hold the same sound, which does not tell who speaks: {unknown}",)
    if call.channels == 2:
        return 1 - lane, ()
    if call.channels == 1:
        return None, (f"it has one channel, which does not tell when the other side spoke: {unknown}",)
    return None, (f"it has {call.channels} channels, and --other names none for the other side: {unknown}",)


def _write(asked: Cut, name: str, script: Path, call: Call, lane: int, placed: list[Placed]) -> None:
    folder = asked.out / name
    with disk_errors(folder):
        folder.mkdir(parents=True, exist_ok=True)
    turns = []
    for index, turn in enumerate(placed):
        following = placed[index + 1].first if index + 1 < len(placed) else call.samples
        stop = min(turn.speech.stop + TAIL_MS * call.rate_hz // 1000, max(following, turn.speech.stop), call.samples)
        file = folder / f"turn-{index + 1:02d}.flac"
        audio.write_flac(file, audio.to_pcm16(lane_piece(call, lane, turn.first, stop)), call.rate_hz)
        last = min(turn.speech.stop, stop) - turn.first - 1
        sidecar.write(file, SpeechEnd(last, call.rate_hz, VERSIONED[asked.method]))
        turns.append(_turn(turn, f"{name}/{file.name}", call.rate_hz))
    described = f"The user's side of {asked.call.name} (lane {asked.lane})"
    document = {"version": 1, "name": name, "description": described, "turns": turns}
    text = _HEAD + yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=120)
    with disk_errors(script):
        write_atomic(script, text)


def _turn(turn: Placed, file: str, rate_hz: int) -> dict[str, Any]:
    def millis(samples: int) -> int:
        return min(round(samples * 1000 / rate_hz), _LONGEST_GAP_MS)

    fields: dict[str, Any] = {"audio": file}
    if turn.kind != "speech":
        fields["kind"] = turn.kind
    if turn.at_samples is not None:
        fields["start"] = {"at_ms": round(turn.at_samples * 1000 / rate_hz)}
    elif turn.gap_samples is not None:
        fields["start"] = {"after": turn.after, "gap_ms": millis(turn.gap_samples)}
    return fields
