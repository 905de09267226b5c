"""What a dialogue's timeline shows beside the instants of its turns: who sounded when, what was cut, late or dropped.

Pure; the page, the label exports and a turn's case draw from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import msgspec

from metrics.attribution import TurnReplies, attribute
from metrics.conversation import Conversation, Reply
from metrics.cut import cut_ns
from metrics.playout import arrivals_of, nearest_ns, play
from metrics.result import TurnResult
from metrics.spans import common
from metrics.turn_taking.from_log import lanes_of
from metrics.view import stream_of

MarkKind = Literal["cancel", "flush", "vad_started", "vad_stopped", "vad_committed", "gave_up"]
StretchKind = Literal["user", "pause", "agent", "dropped", "underrun", "overlap"]


class Mark(msgspec.Struct, frozen=True):
    """An instant. turn: whose it is, where one is known · text: more about it, for people."""

    kind: MarkKind
    t_ns: int
    turn: int | None = None
    text: str = ""


class Stretch(msgspec.Struct, frozen=True):
    """From start_ns up to end_ns.

    user: the user sounds, pauses left out; text: the turn's kind · pause: inside the user's utterance ·
    agent: the agent is heard; text: its words · dropped: generated, never heard · underrun: nothing to play (B = 0) ·
    overlap: both are heard. In order by kind; the parts of one kind do not overlap, but for dropped and underrun.
    """

    kind: StretchKind
    start_ns: int
    end_ns: int
    turn: int | None = None
    text: str = ""


class Timeline(msgspec.Struct, frozen=True):
    marks: list[Mark] = []
    stretches: list[Stretch] = []


class Part(msgspec.Struct, frozen=True):
    """One part of a voice-to-voice latency. name: as in `PARTS`."""

    name: str
    start_ns: int
    end_ns: int


PARTS = {
    "end_of_turn": ("turn_committed", "server_vad_stopped"),
    "reply_begun": ("reply_created",),
    "first_packet": ("first_packet",),
    "silence_padding": ("first_audible",),
}
"""Part → the instants that may end it, the first that exists does. Each begins where the one before it ended."""


def waterfall(turn: TurnResult) -> list[Part]:
    """The parts of the turn's voice-to-voice latency, which add up to it exactly.

    Empty where no reply was expected, nothing was audible, or it was before the user had finished. An instant that is
    missing or out of order leaves its part to the next one.
    """
    at_ns = turn.instants_ns
    end_ns, heard_ns = at_ns.get("speech_end"), at_ns.get("first_audible")
    if not turn.expects_reply or end_ns is None or heard_ns is None or heard_ns <= end_ns:
        return []
    parts, from_ns = [], end_ns
    for name, instants in PARTS.items():
        t_ns = next((at_ns[instant] for instant in instants if instant in at_ns), None)
        if t_ns is not None and from_ns <= t_ns <= heard_ns:
            parts.append(Part(name, from_ns, t_ns))
            from_ns = t_ns
    return parts


def timeline_of(conversation: Conversation) -> Timeline:
    """Everything but the instants of the turns."""
    attributed = attribute(conversation)
    owners = {reply.id: replies.turn.index for replies in attributed for reply in replies.all}
    return Timeline(
        marks=sorted(_marks(conversation, owners), key=lambda mark: mark.t_ns),
        stretches=[*_lanes(conversation, attributed, owners), *_troubles(conversation, owners)],
    )


def _marks(conversation: Conversation, owners: dict[str, int]) -> Iterator[Mark]:
    for reply in conversation.replies:
        if reply.cancelled_ns is not None:
            yield Mark("cancel", reply.cancelled_ns, owners.get(reply.id))
        if reply.flushed_ns is not None:
            yield Mark("flush", reply.flushed_ns, owners.get(reply.id))
    kinds: dict[str, MarkKind] = {"started": "vad_started", "stopped": "vad_stopped", "committed": "vad_committed"}
    for event in conversation.vad:
        if event.what in kinds:
            yield Mark(kinds[event.what], event.t_ns)
    for end in conversation.ends:
        if end.outcome:
            yield Mark("gave_up", end.t_ns, end.turn, f"{end.outcome}: {end.detail}" if end.detail else end.outcome)


def _lanes(conversation: Conversation, attributed: Sequence[TurnReplies], owners: dict[str, int]) -> Iterator[Stretch]:
    lanes = lanes_of(conversation, attributed, stream_of(conversation))
    for sound in lanes.sounds:
        for part in sound.speech:
            yield Stretch("user", part.start_ns, part.end_ns, sound.index, sound.kind)
        for pause in sound.pauses:
            yield Stretch("pause", pause.start_ns, pause.end_ns, sound.index)
    replies = sorted(conversation.replies, key=lambda reply: reply.created_ns)
    for heard in lanes.agent:
        begun = [reply for reply in replies if reply.packets and reply.packets[0].t_ns <= heard.start_ns]
        reply = begun[-1] if begun else None
        words = "".join(piece.text for piece in reply.texts) if reply else ""
        yield Stretch("agent", heard.start_ns, heard.end_ns, owners.get(reply.id) if reply else None, words)
    for sound in lanes.sounds:
        for both in common(sound.speech, lanes.agent):
            yield Stretch("overlap", both.start_ns, both.end_ns, sound.index)


def _troubles(conversation: Conversation, owners: dict[str, int]) -> Iterator[Stretch]:
    for reply in conversation.replies:
        yield from _troubles_of(reply, conversation, owners.get(reply.id))


def _troubles_of(reply: Reply, conversation: Conversation, turn: int | None) -> Iterator[Stretch]:
    """Underruns that were heard as silence, and what came but was never heard."""
    playout = play(arrivals_of(reply.packets), conversation.rate_hz)
    if playout is None:
        return
    end_ns, until_ns = nearest_ns(playout.end_ns), cut_ns(reply, conversation.vad)
    for underrun in playout.underruns:
        start_ns = nearest_ns(underrun.at_ns)
        stop_ns = min(nearest_ns(underrun.at_ns + underrun.length_ns), until_ns or end_ns)
        if start_ns < stop_ns:
            yield Stretch("underrun", start_ns, stop_ns, turn)
    if until_ns is not None and until_ns < end_ns:
        yield Stretch("dropped", max(until_ns, playout.segments[0].base_ns), end_ns, turn)
