"""The instants of a turn, by their names; an instant that does not exist carries the reason instead.

Whole nanoseconds on the dialogue's clock. An instant that falls inside a sample's duration (first_audible,
first_played) is rounded to the nearest nanosecond once, from its exact value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from metrics.attribution import TurnReplies, answering, onset_ns
from metrics.conversation import Conversation, Reply, UserTurn
from metrics.gate import GATE, Onset, find_onset
from metrics.playout import Arrival, Playout, arrivals_of, nearest_ns, play
from metrics.repeats import Repeats, find_repeats
from metrics.result import PLAYOUT_BUFFERS_MS
from metrics.spans import SpokenReply
from sessions.clock import NS_PER_MS

INSTANTS = (
    "speech_end",
    "last_sent",
    "turn_committed",
    "server_vad_stopped",
    "reply_created",
    "first_text",
    "first_packet",
    "first_audible",
    "reply_done",
)

NO_REPLY = "no reply came"
NO_AUDIO = "the reply has no audio"
NO_TEXT = "the reply has no text"
NOT_AUDIBLE = f"no sample of the reply is above the gate ({GATE})"
NOT_HEARD = "the agent was not heard to answer"
DUPLEX = "class D has one continuous stream, so no audio message begins a reply"


@dataclass(frozen=True, slots=True)
class Instants:
    """at_ns: by the names of `INSTANTS` · why_not: the reason for each that is absent · played_ns: first_played by
    buffer in ms (empty where nothing is audible)."""

    at_ns: Mapping[str, int]
    why_not: Mapping[str, str]
    played_ns: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Heard:
    """A reply's audio as a listener gets it.

    arrivals: its packets with samples · playouts: by buffer in ms, empty without audio · onset: what the gate found ·
    repeats: where it brings again what it brought before.
    """

    arrivals: tuple[Arrival, ...] = ()
    playouts: Mapping[int, Playout] = field(default_factory=dict)
    onset: Onset = field(default_factory=lambda: Onset(None))
    repeats: Repeats | None = None


def hear(reply: Reply, rate_hz: int) -> Heard:
    """Play a reply behind every buffer that is reported, and find its onset."""
    arrivals = arrivals_of(reply.packets)
    if not arrivals:
        return Heard()
    onset = find_onset(np.concatenate([packet.pcm for packet in reply.packets]), rate_hz)
    repeats = find_repeats([packet.pcm for packet in reply.packets], rate_hz)
    return Heard(arrivals, _behind_every_buffer(arrivals, rate_hz), onset, repeats)


def hear_stream(conversation: Conversation, replies: TurnReplies, stream: SpokenReply) -> Heard:
    """Class D: the session's one stream, with the onset of what answers this turn in it.

    stream: all audio of the session. The answer is the first stretch, after 200 ms of quiet, that begins after the
    turn's onset and before the next turn's, and that is heard on after `speech_end`. A turn that expects no reply is
    answered by nothing that the agent was saying already.
    """
    packets = sorted((p for reply in conversation.replies for p in reply.packets), key=lambda packet: packet.t_ns)
    arrivals = arrivals_of(packets)
    index = _answering_sample(conversation, replies, stream)
    return Heard(arrivals, _behind_every_buffer(arrivals, conversation.rate_hz), Onset(index))


def _answering_sample(conversation: Conversation, replies: TurnReplies, stream: SpokenReply) -> int | None:
    turn = replies.turn
    from_ns = onset_ns(turn)
    if not turn.expects_reply and any(span.holds(from_ns) for span in stream.stretches):
        return None
    later = (
        onset_ns(other)
        for other in conversation.turns
        if onset_ns(other) > from_ns and (other.expects_reply or not turn.expects_reply)
    )
    found = answering(stream.stretches, from_ns, turn.speech_end_ns, min(later, default=None))
    return None if found is None else stream.samples[found]


def _behind_every_buffer(arrivals: tuple[Arrival, ...], rate_hz: int) -> dict[int, Playout]:
    return {
        buffer_ms: playout
        for buffer_ms in PLAYOUT_BUFFERS_MS
        if (playout := play(arrivals, rate_hz, buffer_ms * NS_PER_MS)) is not None
    }


def instants_of(conversation: Conversation, replies: TurnReplies, heard: Heard) -> Instants:
    """All instants of one turn. heard: that of `replies.reply`; class D: of the stream."""
    turn, reply = replies.turn, replies.reply
    found: dict[str, int | str] = {
        "speech_end": turn.speech_end_ns,
        "last_sent": _last_sent(turn, conversation.protocol_class),
        "turn_committed": _committed(turn, conversation.protocol_class),
        "server_vad_stopped": _vad_stopped(conversation, replies),
    }
    played_ns: dict[int, int] = {}
    if conversation.protocol_class == "D":
        played_ns = _played(heard)
        found |= _of_stream(reply, played_ns.get(0))
    elif reply is None:
        names = ("reply_created", "first_text", "first_packet", "first_audible", "reply_done")
        found |= dict.fromkeys(names, NO_REPLY)
    else:
        found["reply_created"] = reply.created_ns
        found["first_text"] = next((piece.t_ns for piece in reply.texts if piece.text), NO_TEXT)
        found["reply_done"] = _done(reply, heard)
        found["first_packet"] = heard.arrivals[0].t_ns if heard.arrivals else NO_AUDIO
        played_ns = _played(heard)
        found["first_audible"] = played_ns.get(0, NOT_AUDIBLE if heard.arrivals else NO_AUDIO)
    return Instants(
        at_ns={name: value for name, value in found.items() if isinstance(value, int)},
        why_not={name: value for name, value in found.items() if isinstance(value, str)},
        played_ns=played_ns,
    )


def _of_stream(reply: Reply | None, first_audible_ns: int | None) -> dict[str, int | str]:
    """Class D. reply: where its protocol names replies, the one created during the turn."""
    text = next((piece.t_ns for piece in reply.texts if piece.text), None) if reply else None
    done = reply.done_ns if reply else None
    return {
        "reply_created": DUPLEX if reply is None else reply.created_ns,
        "first_text": NO_TEXT if text is None else text,
        "first_packet": DUPLEX,
        "first_audible": NOT_HEARD if first_audible_ns is None else first_audible_ns,
        "reply_done": DUPLEX if done is None else done,
    }


def _played(heard: Heard) -> dict[int, int]:
    index = heard.onset.index
    if index is None:
        return {}
    return {buffer_ms: nearest_ns(playout.played_at(index)) for buffer_ms, playout in heard.playouts.items()}


def _last_sent(turn: UserTurn, protocol_class: str) -> int | str:
    if protocol_class == "C":
        return turn.requested_ns if turn.requested_ns is not None else "the request was not sent"
    for frame in turn.frames:
        if frame.first_sample <= turn.last_sample < frame.first_sample + frame.samples:
            return frame.sent_ns
    return "the frame that holds the last speech sample was not sent"


def _committed(turn: UserTurn, protocol_class: str) -> int | str:
    if protocol_class == "C":
        return turn.requested_ns if turn.requested_ns is not None else "the request was not sent"
    if turn.committed_ns is not None:
        return turn.committed_ns
    if protocol_class == "A":
        return "the end-of-turn message was not sent"
    return f"class {protocol_class} has no end-of-turn message"


def _vad_stopped(conversation: Conversation, replies: TurnReplies) -> int | str:
    """The server's last word that speech stopped, before the reply was created: the one that led to it."""
    if conversation.protocol_class != "B":
        return f"class {conversation.protocol_class} has no server voice detection"
    reply, stops = replies.reply, [event.t_ns for event in conversation.vad if event.what == "stopped"]
    if reply is None:
        stops = [t_ns for t_ns in stops if replies.holds(t_ns)]
    else:  # the reply may have begun after the user coughed, which is a turn of its own
        stops = [t_ns for t_ns in stops if replies.began_ns <= t_ns <= reply.created_ns]
    return stops[-1] if stops else "the server did not say that speech had stopped"


def _done(reply: Reply, heard: Heard) -> int | str:
    if reply.done_ns is not None:
        return reply.done_ns
    return heard.arrivals[-1].t_ns if heard.arrivals else "no end of reply and no audio came"
