"""Which reply belongs to which turn, and which of a turn's replies gives its latencies.

A reply belongs to the turn during which it was created: after this turn's first user frame was written, before the next
turn's. Its packets go with it, however late they come: the tail of an older reply stays with the older turn. A turn
that expects no reply (a cough, a backchannel, silence) takes one only where the last turn that expects one has its own
already: what comes late is the answer to what was said before. So is, in class A, what begins before the turn's own
request was written.

A reply begun before `speech_end` and cancelled or dropped before it is a false start. One that was short, and over and
heard within the user's speech, is a backchannel of the agent, `agent_backchannel/1`: never an answer. The first other
reply gives the latencies.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from metrics.conversation import Conversation, Reply, UserTurn, VadEvent
from metrics.cut import cut_ns
from metrics.playout import arrivals_of, play
from metrics.spans import Span, spoken
from sessions.clock import NS_PER_MS

PATIENCE_NS = 2000 * NS_PER_MS
"""A user who speaks again sooner after the end of a turn left no time for a reply to it."""
AGENT_BACKCHANNEL = "agent_backchannel/1"
AGENT_BACKCHANNEL_NS = 1000 * NS_PER_MS
"""An agent's "mm-hm": from its first to its last audible sample no longer than this, all of it in the user's speech."""


@dataclass(frozen=True, slots=True)
class TurnReplies:
    """One turn with what answered it.

    began_ns: its first user frame was written · next_ns: the next turn's, None for the last turn ·
    reply: the one that gives the latencies · others: those after it · unasked: only at the first turn, replies begun
    before it (a greeting), which belong to no turn · backchannels: the agent's, during this turn's speech.
    """

    turn: UserTurn
    began_ns: int
    next_ns: int | None
    false_starts: tuple[Reply, ...]
    reply: Reply | None
    others: tuple[Reply, ...]
    unasked: tuple[Reply, ...] = ()
    backchannels: tuple[Reply, ...] = ()

    @property
    def all(self) -> tuple[Reply, ...]:
        """Every reply of the turn, by creation."""
        main = () if self.reply is None else (self.reply,)
        return tuple(
            sorted((*self.false_starts, *self.backchannels, *main, *self.others), key=lambda reply: reply.created_ns)
        )

    def holds(self, t_ns: int) -> bool:
        """Whether `t_ns` lies after this turn's first frame and before the next turn's."""
        return self.began_ns <= t_ns and (self.next_ns is None or t_ns < self.next_ns)


def attribute(conversation: Conversation) -> list[TurnReplies]:
    """Every turn with its replies, in the order of the turns."""
    turns = sorted(conversation.turns, key=began_ns)
    begins = [began_ns(turn) for turn in turns]
    parts = [_Parts() for _ in turns]
    unasked: list[Reply] = []
    for reply in sorted(conversation.replies, key=lambda reply: reply.created_ns):
        position = bisect_right(begins, reply.created_ns) - 1
        if position < 0:
            unasked.append(reply)
        else:
            owner = _owner(position, turns, parts, reply, conversation.protocol_class)
            parts[owner].take(reply, turns[owner], conversation)
    next_ns = [*begins[1:], None]
    return [
        TurnReplies(
            turn,
            begins[k],
            next_ns[k],
            tuple(parts[k].false_starts),
            parts[k].rest[0] if parts[k].rest else None,
            tuple(parts[k].rest[1:]),
            tuple(unasked) if k == 0 else (),
            tuple(parts[k].backchannels),
        )
        for k, turn in enumerate(turns)
    ]


@dataclass(slots=True)
class _Parts:
    """A turn's replies so far. rest: neither false starts nor backchannels."""

    false_starts: list[Reply] = field(default_factory=list)
    backchannels: list[Reply] = field(default_factory=list)
    rest: list[Reply] = field(default_factory=list)

    def take(self, reply: Reply, turn: UserTurn, conversation: Conversation) -> None:
        if is_false_start(reply, turn.speech_end_ns):
            self.false_starts.append(reply)
        elif _is_agent_backchannel(reply, turn, conversation):
            self.backchannels.append(reply)
        else:
            self.rest.append(reply)


def _owner(position: int, turns: list[UserTurn], parts: list[_Parts], reply: Reply, protocol_class: str) -> int:
    """The turn that a reply created during turn `position` belongs to."""
    turn = turns[position]
    comes_unasked = protocol_class == "A" and turn.requested_ns is not None and reply.created_ns < turn.requested_ns
    if turn.expects_reply and not comes_unasked:
        return position
    asked = next((k for k in range(position - 1, -1, -1) if turns[k].expects_reply), None)
    return position if asked is None or parts[asked].rest else asked


def began_ns(turn: UserTurn) -> int:
    """When the turn's first user frame was written; its first sample's instant where no frames are sent (class C)."""
    return turn.frames[0].sent_ns if turn.frames else turn.start_ns


def is_false_start(reply: Reply, speech_end_ns: int) -> bool:
    """Begun before the end of speech, and cancelled, or dropped by the client, before it."""
    cancelled = reply.status == "cancelled" and reply.done_ns is not None and reply.done_ns < speech_end_ns
    dropped = reply.flushed_ns is not None and reply.flushed_ns < speech_end_ns
    return reply.created_ns < speech_end_ns and (cancelled or dropped)


def _is_agent_backchannel(reply: Reply, turn: UserTurn, conversation: Conversation) -> bool:
    if conversation.protocol_class != "B" or reply.done_ns is None or reply.done_ns >= turn.speech_end_ns:
        return False
    stretches = spoken([reply], conversation.rate_hz).stretches
    return bool(stretches) and is_agent_backchannel(
        Span(stretches[0].start_ns, stretches[-1].end_ns), onset_ns(turn), turn.speech_end_ns
    )


def is_agent_backchannel(heard: Span, onset_ns: int, speech_end_ns: int) -> bool:
    """Whether a sound of the agent, from its first to its last audible sample, is a backchannel to that speech."""
    within = onset_ns <= heard.start_ns and heard.end_ns <= speech_end_ns
    return within and heard.length_ns <= AGENT_BACKCHANNEL_NS


def answering(stretches: Sequence[Span], onset_ns: int, speech_end_ns: int, until_ns: int | None) -> int | None:
    """Where audio is all there is: which of the agent's stretches answers speech from `onset_ns` to `speech_end_ns`.

    The first that begins in it or after it, before `until_ns`, and is heard on after its end. None where none does.
    """
    for position, heard in enumerate(stretches):
        begins_in_time = onset_ns <= heard.start_ns and (until_ns is None or heard.start_ns < until_ns)
        if begins_in_time and heard.end_ns > speech_end_ns:
            return position
    return None


def onset_ns(turn: UserTurn) -> int:
    """The turn's first audible sample; its first sample where that is not known."""
    return turn.start_ns if turn.onset_ns is None else turn.onset_ns


def false_start_heard_ms(replies: TurnReplies, rate_hz: int, vad: tuple[VadEvent, ...] = ()) -> float:
    """How much of the turn's false starts was heard, played on arrival up to where it fell silent, in ms."""
    heard = 0.0
    for reply in replies.false_starts:
        playout, until_ns = play(arrivals_of(reply.packets), rate_hz), cut_ns(reply, vad)
        if playout is not None and until_ns is not None:
            heard += float(playout.heard_ns(until_ns) / NS_PER_MS)
    return heard


def has_audio_after_done(reply: Reply) -> bool:
    """Whether samples came after the protocol's end of the reply."""
    return reply.done_ns is not None and any(
        len(packet.pcm) and packet.t_ns > reply.done_ns for packet in reply.packets
    )
