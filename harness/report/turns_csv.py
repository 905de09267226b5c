"""`turns.csv`: one row per attempt, for a spreadsheet.

An empty cell means unavailable; the reasons stand in the report.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from pathlib import Path

from harness.results.dialogue_result import DialogueResult
from metrics.instants import INSTANTS
from metrics.result import PLAYOUT_BUFFERS_MS, TurnResult, Value
from metrics.table import METRICS
from metrics.turn_taking.table import TURN_TAKING
from sessions.clock import NS_PER_MS
from sessions.runs import write_atomic

WORDS = (
    "dialogue",
    "number",
    "script",
    "warmup",
    "wall_time",
    "turn",
    "class",
    "outcome",
    "detail",
    "speech_end_method",
    "said",
    "understood",
    "answered",
    "false_starts",
    "false_start_heard_ms",
    "flags",
    "kind",
)
RECORDING = "speech_end_in_recording_ms"
PAUSES = "pauses_ms_cut"
"""Each pause's length, and 1 where the server ended the turn because of it: "300:0 700:1"."""
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def columns(dialogues: Iterable[DialogueResult]) -> list[str]:
    """The header: words, instants relative to `speech_end`, play-out behind each buffer, measures, turn-taking."""
    extra = {name for dialogue in dialogues for turn in dialogue.turns for name in turn.measures} - set(METRICS)
    return [
        *WORDS,
        RECORDING,
        *(f"at_{name}_ms" for name in INSTANTS),
        *(f"at_first_played_b{buffer_ms}_ms" for buffer_ms in PLAYOUT_BUFFERS_MS),
        *METRICS,
        *sorted(extra),
        *TURN_TAKING,
        PAUSES,
    ]


def write_turns_csv(path: Path, dialogues: list[DialogueResult]) -> None:
    """Write one row per attempt, warm-up included (its column says so). Whole or not at all."""
    out = io.StringIO(newline="")
    table = csv.DictWriter(out, columns(dialogues), restval="", lineterminator="\r\n")
    table.writeheader()
    for dialogue in dialogues:
        for turn, said, understood in zip(dialogue.turns, dialogue.said, dialogue.understood, strict=True):
            table.writerow(_words(dialogue, turn, said, understood) | numbers(dialogue, turn))
    write_atomic(path, out.getvalue().encode("utf-8", "replace"))


def _words(dialogue: DialogueResult, turn: TurnResult, said: str, understood: str) -> dict[str, object]:
    values = (
        dialogue.id,
        dialogue.number,
        dialogue.script,
        str(dialogue.warmup).lower(),
        dialogue.wall_time,
        turn.turn + 1,
        turn.turn_class,
        turn.outcome,
        turn.detail,
        turn.method,
        said,
        understood,
        turn.heard_text,
        turn.false_starts,
        _ms(turn.false_start_heard_ms),
        "; ".join(turn.flags),
        turn.kind,
    )
    return {name: inert(value) for name, value in zip(WORDS, values, strict=True)}


def numbers(dialogue: DialogueResult, turn: TurnResult) -> dict[str, object]:
    """The cells that are no words, as text; what is unavailable is not in it."""
    row: dict[str, object] = {}
    end_ns = turn.instants_ns.get("speech_end")
    if end_ns is not None:
        if dialogue.ready_ns is not None:
            row[RECORDING] = _ms((end_ns - dialogue.ready_ns) / NS_PER_MS)
        for name in INSTANTS:
            if name in turn.instants_ns:
                row[f"at_{name}_ms"] = _ms((turn.instants_ns[name] - end_ns) / NS_PER_MS)
        for buffer_ms in PLAYOUT_BUFFERS_MS:
            if str(buffer_ms) in turn.played_ns:
                row[f"at_first_played_b{buffer_ms}_ms"] = _ms((turn.played_ns[str(buffer_ms)] - end_ns) / NS_PER_MS)
    for name, measured in (*turn.measures.items(), *turn.turn_taking.items()):
        if isinstance(measured, Value):
            row[name] = _ms(measured.value)
    row[PAUSES] = " ".join(f"{_ms(case.pause_ms)}:{int(case.was_cut)}" for case in turn.pauses)
    return row


def _ms(value: float) -> str:
    """All that a nanosecond clock knows, and no more."""
    return f"{value:.6f}".rstrip("0").rstrip(".")


def inert(value: object) -> object:
    """Text of a server that a spreadsheet would run as a formula is kept from that by a leading apostrophe."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
