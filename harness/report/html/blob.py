"""The data that the page's script draws from: compact JSON, and the recordings of the dialogues."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import soundfile
from numpy.typing import NDArray

from harness.report.html import sound
from harness.report.html.markup import Markup, tag
from harness.report.turn_taking_wording import TURN_TAKING_WORDS
from harness.report.wording import clean, excerpt, words_for
from harness.results.dialogue_result import DialogueResult
from harness.results.timeline import waterfall
from metrics.instants import INSTANTS
from metrics.result import Failed, Measured, TurnResult, Unavailable, Value
from metrics.table import METRICS, metric
from metrics.turn_taking.table import TURN_TAKING, turn_taking
from sessions.clock import NS_PER_MS

SHOWN = (
    "first_packet_ms",
    "voice_to_voice_ms",
    "silence_padding_ms",
    "gapless_prebuffer_ms",
    "underruns_b0",
)
"""Measures with a column in the table of turns."""
PART_LABELS = {
    "end_of_turn": "until the turn was taken",
    "reply_begun": "until the reply began",
    "first_packet": "until its first packet",
    "silence_padding": "silence padding",
}
"""The parts of voice-to-voice (`harness.results.timeline.PARTS`) in words."""


@dataclass(slots=True)
class Reasons:
    """Why values are missing, each text once."""

    texts: dict[str, int]

    def key(self, text: str) -> str:
        return str(self.texts.setdefault(clean(text), len(self.texts)))


def page_data(dialogues: list[DialogueResult], folder: Path) -> dict[str, Any]:
    """Everything that the script shows. folder: the run's, where the recordings are."""
    names = list(METRICS)
    reasons = Reasons({})
    rows = [_dialogue(dialogue, names, reasons, folder) for dialogue in dialogues]
    return {
        "measures": [{"name": name, "label": words_for(name).label, "unit": metric(name).unit} for name in names],
        "taking": {name: {"label": _taking_label(name), "unit": turn_taking(name).unit} for name in TURN_TAKING},
        "shown": list(SHOWN),
        "parts": PART_LABELS,
        "instants": list(INSTANTS),
        "reasons": list(reasons.texts),
        "dialogues": rows,
    }


def _taking_label(name: str) -> str:
    return (TURN_TAKING_WORDS.get(name) or words_for(name)).label


def data_script(data: Mapping[str, Any]) -> Markup:
    """The data as an element that no content can close: `<`, `>` and `&` stand as escapes in it."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return tag("script", Markup(text), type="application/json", id="data")


def audio_scripts(dialogues: list[DialogueResult], folder: Path, bytes_at_most: int) -> dict[int, Markup]:
    """By a dialogue's position, the element that carries its recording; all of them hold `bytes_at_most` characters.

    Dialogues that count come before warm-up, in order, up to the first that no longer fits. One that is by far too long
    for what is left is passed over.
    """
    scripts: dict[int, Markup] = {}
    left = bytes_at_most
    for position in sorted(range(len(dialogues)), key=lambda position: dialogues[position].warmup):
        path = folder / dialogues[position].recording
        length_s = sound.duration_s(path) if dialogues[position].recording else None
        if length_s is None or length_s * sound.LEAST_BYTES_PER_S > left:
            continue
        encoded = sound.encode(path)
        left -= len(encoded.text)
        if left < 0:
            break
        scripts[position] = tag(
            "script", Markup(encoded.text), type="text/plain", id=f"audio-{position}", data_type=encoded.mime
        )
    return dict(sorted(scripts.items()))


def _dialogue(dialogue: DialogueResult, names: list[str], reasons: Reasons, folder: Path) -> dict[str, Any]:
    path = folder / dialogue.recording
    length_s = sound.duration_s(path) if dialogue.recording else None
    words = zip(dialogue.turns, dialogue.said, dialogue.understood, strict=True)
    return {
        "id": dialogue.id,
        "script": clean(dialogue.script),
        "warmup": dialogue.warmup,
        "complete": dialogue.completed,
        "faults": [clean(excerpt(fault)) for fault in dialogue.faults],
        "recording": dialogue.recording if length_s is not None else "",
        "duration_ms": round(_duration_ms(dialogue, length_s), 1),
        "peaks": _peaks(path) if length_s is not None else None,
        "turns": [_turn(dialogue, turn, said, heard, names, reasons) for turn, said, heard in words],
        **_timeline(dialogue),
    }


def _timeline(dialogue: DialogueResult) -> dict[str, Any]:
    """What is drawn beside the instants of the turns; times in ms from the recording's first sample."""
    ready_ns, timeline = dialogue.ready_ns, dialogue.timeline
    if ready_ns is None or timeline is None:
        return {"marks": [], "stretches": []}
    return {
        "marks": [
            [mark.kind, _ms(mark.t_ns - ready_ns), mark.turn, clean(excerpt(mark.text))] for mark in timeline.marks
        ],
        "stretches": [
            [part.kind, _ms(part.start_ns - ready_ns), _ms(part.end_ns - ready_ns), part.turn]
            for part in timeline.stretches
        ],
    }


def _ms(length_ns: int) -> float:
    return round(length_ns / NS_PER_MS, 3)


def _duration_ms(dialogue: DialogueResult, length_s: float | None) -> float:
    """Of the timeline: the recording's, else as far as the instants go; 0 where no session came about."""
    if length_s is not None:
        return 1000 * length_s
    if dialogue.ready_ns is None:
        return 0.0
    ends = [dialogue.ended_ns, *(t_ns for turn in dialogue.turns for t_ns in turn.instants_ns.values())]
    return max(0.0, (max(ends) - dialogue.ready_ns) / NS_PER_MS)


def _peaks(path: Path) -> dict[str, Any] | None:
    try:
        envelope = sound.envelope(path)
    except soundfile.LibsndfileError:
        return None
    return {"bin_ms": envelope.bin_ms, "user": _base64(envelope.user), "agent": _base64(envelope.agent)}


def _base64(array: NDArray[Any]) -> str:
    return base64.b64encode(array.tobytes()).decode()


def _turn(
    dialogue: DialogueResult, turn: TurnResult, said: str, understood: str, names: list[str], reasons: Reasons
) -> dict[str, Any]:
    return {
        "turn": turn.turn,
        "kind": turn.kind,
        "class": turn.turn_class,
        "outcome": clean(turn.outcome),
        "detail": clean(excerpt(turn.detail)),
        "said": clean(excerpt(said)),
        "understood": clean(excerpt(understood)),
        "answered": clean(excerpt(turn.heard_text)),
        "flags": [clean(excerpt(flag)) for flag in turn.flags],
        "false_starts": turn.false_starts,
        "at": [_on_recording(dialogue, turn, name) for name in INSTANTS],
        "m": [_cell(turn.measures, name, reasons) for name in names],
        "parts": [[part.name, _ms(part.end_ns - part.start_ns)] for part in waterfall(turn)],
        "t": {name: _cell(turn.turn_taking, name, reasons) for name in _known(turn.turn_taking)},
    }


def _known(measures: Iterable[str]) -> list[str]:
    return [name for name in measures if name in TURN_TAKING]


def _on_recording(dialogue: DialogueResult, turn: TurnResult, name: str) -> float | None:
    """An instant in ms from the recording's first sample."""
    t_ns = turn.instants_ns.get(name)
    if t_ns is None or dialogue.ready_ns is None:
        return None
    return _ms(t_ns - dialogue.ready_ns)


def _cell(measures: Mapping[str, Measured], name: str, reasons: Reasons) -> float | str:
    """A number, or as a string the index of the reason why there is none."""
    match measures.get(name, Unavailable("not measured")):
        case Value(value):
            return round(value, 3)
        case Unavailable(because):
            return reasons.key(because)
        case Failed(error):
            return reasons.key(f"error: {error}")
