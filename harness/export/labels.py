"""A dialogue as labels on lanes, for editors of sound. Times count from the recording's first sample."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.report.wording import number, one_line
from harness.results.dialogue_result import DialogueResult
from harness.results.timeline import MarkKind, Stretch, StretchKind
from sessions.clock import NS_PER_MS

INSTANTS = {
    "speech_end": "speech end",
    "turn_committed": "turn committed",
    "first_packet": "first packet",
    "first_audible": "first audible",
    "reply_done": "reply done",
}
MARKS: dict[MarkKind, str] = {
    "cancel": "cancelled by us",
    "flush": "the rest was dropped unheard",
    "vad_started": "server heard speech start",
    "vad_stopped": "server heard speech stop",
    "vad_committed": "server took the turn",
    "gave_up": "gave up waiting",
}
TROUBLES: dict[StretchKind, str] = {
    "pause": "pauses",
    "overlap": "overlaps",
    "underrun": "underruns",
    "dropped": "never heard",
}
GOES_ON = "…"


@dataclass(frozen=True, slots=True)
class Label:
    """An instant where both times are equal."""

    start_ns: int
    end_ns: int
    text: str


def lanes(dialogue: DialogueResult) -> dict[str, list[Label]]:
    """By name: user, agent, events and latencies, then those of pauses, overlaps, underruns, never heard that are not
    empty. Each in order of time; of a dialogue whose session never began, all are empty."""
    timeline = dialogue.timeline
    stretches = timeline.stretches if timeline is not None else []
    said = {turn.turn: text for turn, text in zip(dialogue.turns, dialogue.said, strict=True)}
    made = {
        "user": list(_spoken([part for part in stretches if part.kind == "user"], said)),
        "agent": list(_spoken([part for part in stretches if part.kind == "agent"], {})),
        "events": list(_events(dialogue)),
        "latencies": list(_latencies(dialogue)),
    }
    for kind, name in TROUBLES.items():
        parts = [Label(part.start_ns, part.end_ns, _of(part.turn, "")) for part in stretches if part.kind == kind]
        if parts:
            made[name] = parts
    if dialogue.ready_ns is None:
        return {name: [] for name in made}
    return {name: _on_recording(labels, dialogue.ready_ns) for name, labels in made.items()}


def _on_recording(labels: list[Label], ready_ns: int) -> list[Label]:
    moved = [
        Label(max(0, label.start_ns - ready_ns), max(0, label.end_ns - ready_ns), one_line(label.text))
        for label in labels
    ]
    return sorted(moved, key=lambda label: (label.start_ns, label.end_ns))


def _spoken(parts: Sequence[Stretch], said: dict[int, str]) -> Iterator[Label]:
    """The words stand at the first stretch of an utterance. said: by turn, where the stretch itself does not tell."""
    before: tuple[int | None, str] | None = None
    for part in parts:
        words = said.get(part.turn, "") if said and part.turn is not None else part.text
        if said and not words:
            words = part.text
        own = (part.turn, words)
        yield Label(part.start_ns, part.end_ns, GOES_ON if own == before and words else words)
        before = own


def _events(dialogue: DialogueResult) -> Iterator[Label]:
    for turn in dialogue.turns:
        for name, label in INSTANTS.items():
            if name in turn.instants_ns:
                t_ns = turn.instants_ns[name]
                yield Label(t_ns, t_ns, _of(turn.turn, label))
    for mark in dialogue.timeline.marks if dialogue.timeline is not None else ():
        text = f"{MARKS[mark.kind]} ({mark.text})" if mark.text else MARKS[mark.kind]
        yield Label(mark.t_ns, mark.t_ns, _of(mark.turn, text))


def _latencies(dialogue: DialogueResult) -> Iterator[Label]:
    for turn in dialogue.turns:
        end_ns, heard_ns = turn.instants_ns.get("speech_end"), turn.instants_ns.get("first_audible")
        if turn.expects_reply and end_ns is not None and heard_ns is not None:
            text = f"voice-to-voice {number((heard_ns - end_ns) / NS_PER_MS)} ms"
            yield Label(min(end_ns, heard_ns), max(end_ns, heard_ns), _of(turn.turn, text))


def _of(turn: int | None, text: str) -> str:
    """ "turn 2: speech end", turns from 1."""
    if turn is None:
        return text
    return f"turn {turn + 1}: {text}" if text else f"turn {turn + 1}"
