"""From a dialogue's raw record to what the metrics see: event log + inbound bytes → `Conversation`. Pure.

The same interpreter that served the live client reads the bytes again, so that a result depends on the record alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import assert_never

import numpy as np

from clients.dialect import interpreter_of
from clients.events import (
    Fault,
    Interpreter,
    PeerEvent,
    ReplyAudio,
    ReplyBegan,
    ReplyEnded,
    ReplyFormat,
    ReplyText,
    SessionAccepted,
    SessionOpened,
    UserSpeech,
    UserText,
)
from harness.dialogue.tracker import turn_messages
from harness.results.flushes import with_cuts
from metrics.conversation import (
    Conversation,
    End,
    Packet,
    PeerFault,
    Reply,
    SentFrame,
    Stall,
    StatedFormat,
    TextPiece,
    UserTurn,
    VadEvent,
)
from sessions import events as log
from sessions.clock import NS_PER_MS, NS_PER_S, samples_to_ns
from sessions.scripts.script import EXPECT_A_REPLY


@dataclass(frozen=True, slots=True)
class Derived:
    """conversation: for the metrics · understood: by turn, what the server says it heard · wall_time: for people."""

    conversation: Conversation
    understood: dict[int, str]
    wall_time: str
    completed: bool
    closed_ns: int | None
    start_delay_ns: int | None = None
    """Open loop: ready − the instant at which the dialogue was to begin."""


def derive(events: Sequence[log.AnyEvent], received: bytes) -> Derived:
    """Rebuild a conversation. events: in order · received: every inbound message, as `Received` events place them."""
    opened = next(event for event in events if isinstance(event, log.Opened))
    ready = next((event for event in events if isinstance(event, log.Ready)), None)
    turns = _user_turns(events, ready)
    inbound = _Inbound(turns)
    inbound.read(interpreter_of(opened.protocol), events, received)
    connected = next((event for event in events if isinstance(event, log.Connected)), None)
    ended = next((event for event in events if isinstance(event, log.Ended)), None)
    closed = next((event for event in events if isinstance(event, log.Closed)), None)
    conversation = Conversation(
        protocol_class=opened.protocol_class,
        rate_hz=opened.rate_hz,
        ready_ns=ready.t_ns if ready else None,
        turns=tuple(turns),
        replies=with_cuts(
            (builder.reply() for builder in inbound.replies.values()),
            events,
            inbound.vad,
            opened.protocol_class,
            opened.rate_hz,
        ),
        faults=tuple(inbound.faults),
        vad=tuple(inbound.vad),
        ends=_ends(events, turns, ended),
        stalls=tuple(Stall(event.t_ns, event.lag_ns) for event in events if isinstance(event, log.Stall)),
        ended_ns=ended.t_ns if ended else None,
        phases_ns=_phases(opened, connected, ready),
    )
    return Derived(
        conversation=conversation,
        understood=inbound.understood,
        wall_time=opened.wall_time,
        completed=ended.completed if ended else False,
        closed_ns=closed.t_ns if closed else None,
        start_delay_ns=ready.t_ns - opened.intended_ns if ready and opened.intended_ns is not None else None,
    )


def _phases(opened: log.Opened, connected: log.Connected | None, ready: log.Ready | None) -> dict[str, int]:
    if connected is None:
        return {}
    phases = dict(connected.phases)
    if ready is not None:
        phases["session_setup"] = ready.t_ns - connected.t_ns
    return phases


def _user_turns(events: Sequence[log.AnyEvent], ready: log.Ready | None) -> list[UserTurn]:
    started = [event for event in events if isinstance(event, log.TurnStarted)]
    sent = [event for event in events if isinstance(event, log.Sent)]
    frames = [event for event in sent if event.what == "audio" and event.due_ns is not None]
    lane_start_ns = ready.lane_start_ns if ready else None
    turns = []
    for position, turn in enumerate(started):
        following = started[position + 1] if position + 1 < len(started) else None
        messages = {event.what: event.t_ns for event in sent if event.turn == turn.turn and event.what != "audio"}
        turns.append(
            UserTurn(
                index=turn.turn,
                start_ns=turn.start_ns,
                rate_hz=turn.rate_hz,
                samples=turn.samples,
                last_sample=turn.last_sample,
                speech_end_ns=turn.speech_end_ns,
                method=turn.method,
                frames=_frames_of(turn, following, frames, lane_start_ns),
                committed_ns=messages.get("commit"),
                requested_ns=messages.get("request"),
                cancelled_ns=messages.get("cancel"),
                expects_reply=turn.turn_kind in EXPECT_A_REPLY,
                kind=turn.turn_kind,
                onset_ns=turn.start_ns + samples_to_ns(turn.onset_sample, turn.rate_hz),
                pauses_ns=_pauses(turn),
                watch_ns=turn.watch_ms * NS_PER_MS,
            )
        )
    return turns


def _pauses(turn: log.TurnStarted) -> tuple[tuple[int, int], ...]:
    """(start, length) in ns of each pause, both ends exact to the sample."""
    made = []
    for first_sample, samples in turn.pauses:
        start_ns = turn.start_ns + samples_to_ns(first_sample, turn.rate_hz)
        end_ns = turn.start_ns + samples_to_ns(first_sample + samples, turn.rate_hz)
        made.append((start_ns, end_ns - start_ns))
    return tuple(made)


def _frames_of(
    turn: log.TurnStarted, following: log.TurnStarted | None, frames: list[log.Sent], lane_start_ns: int | None
) -> tuple[SentFrame, ...]:
    """A turn's frames, `first_sample` counted from the utterance's first."""
    if lane_start_ns is None:
        own = [event for event in frames if event.turn == turn.turn]
        return tuple(SentFrame(e.due_ns or 0, e.t_ns, e.first_sample, e.samples) for e in own)
    first = _lane_index(turn, lane_start_ns)
    until = None if following is None else _lane_index(following, lane_start_ns)
    return tuple(
        SentFrame(e.due_ns or 0, e.t_ns, e.first_sample - first, e.samples)
        for e in frames
        if e.first_sample + e.samples > first and (until is None or e.first_sample + e.samples <= until)
    )


def _lane_index(turn: log.TurnStarted, lane_start_ns: int) -> int:
    """The lane sample that the turn begins with: its start was made from a whole sample, where the log does not say."""
    if turn.lane_sample is not None:
        return turn.lane_sample
    return ((turn.start_ns - lane_start_ns) * turn.rate_hz + NS_PER_S // 2) // NS_PER_S


def _ends(events: Sequence[log.AnyEvent], turns: list[UserTurn], ended: log.Ended | None) -> tuple[End, ...]:
    ends = [End(e.t_ns, e.turn, e.outcome, e.detail) for e in events if isinstance(e, log.GaveUp)]
    if ended is not None and not ended.completed and turns and not any(end.turn == turns[-1].index for end in ends):
        ends.append(End(ended.t_ns, turns[-1].index, "", "stopped by the user"))
    return tuple(ends)


@dataclass(slots=True)
class _ReplyBuilder:
    id: str
    created_ns: int
    packets: list[Packet] = field(default_factory=list)
    texts: list[TextPiece] = field(default_factory=list)
    formats: list[StatedFormat] = field(default_factory=list)
    end: ReplyEnded | None = None
    done_ns: int | None = None

    def reply(self) -> Reply:
        end = self.end or ReplyEnded(self.id, "")
        texts = self.texts
        if not texts and end.text and self.done_ns is not None:
            texts = [TextPiece(self.done_ns, end.text)]
        return Reply(
            id=self.id,
            created_ns=self.created_ns,
            packets=tuple(self.packets),
            texts=tuple(texts),
            done_ns=self.done_ns,
            status=end.status,
            reason=end.reason,
            error_code=end.error_code,
            message=end.message,
            has_tool_call=end.has_tool_call,
            formats=tuple(dict.fromkeys(self.formats)),
        )


class _Inbound:
    """Everything that arrived, sorted into replies, faults and the server's own view of the user."""

    def __init__(self, turns: Sequence[UserTurn]) -> None:
        self._starts = [turn.start_ns for turn in turns]
        self._needed = {name for turn in turns for name in turn_messages(turn.index)}
        self.replies: dict[str, _ReplyBuilder] = {}
        self.faults: list[PeerFault] = []
        self.vad: list[VadEvent] = []
        self.understood: dict[int, str] = {}

    def read(self, interpreter: Interpreter, events: Sequence[log.AnyEvent], received: bytes) -> None:
        view = memoryview(received)
        for event in events:
            if isinstance(event, log.Received):
                for meaning in interpreter.feed(bytes(view[event.offset : event.offset + event.length])):
                    self._take(meaning, event.t_ns)

    def _take(self, event: PeerEvent, t_ns: int) -> None:
        match event:
            case ReplyBegan(reply):
                self.replies[reply] = _ReplyBuilder(reply, t_ns)
            case ReplyAudio(reply, _, pcm):
                self.replies[reply].packets.append(Packet(t_ns, np.asarray(pcm, dtype=np.int16)))
            case ReplyFormat(reply, rate_hz, channels, bits):
                self.replies[reply].formats.append(StatedFormat(rate_hz, channels, bits))
            case ReplyText(reply, text):
                self.replies[reply].texts.append(TextPiece(t_ns, text))
            case ReplyEnded():
                builder = self.replies[event.reply]
                builder.end, builder.done_ns = event, t_ns
            case UserSpeech(what):
                self.vad.append(VadEvent(t_ns, what))
            case UserText(text):
                self._understand(text, t_ns)
            case Fault():
                fatal = event.answers in self._needed
                self.faults.append(PeerFault(t_ns, event.kind, event.detail, event.code, fatal))
            case SessionOpened() | SessionAccepted():
                pass
            case _:
                assert_never(event)

    def _understand(self, text: str, t_ns: int) -> None:
        turn = sum(start_ns <= t_ns for start_ns in self._starts) - 1
        if turn >= 0:
            before = self.understood.get(turn, "")
            self.understood[turn] = f"{before} {text}".strip()
