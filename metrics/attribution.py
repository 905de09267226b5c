"""Which reply belongs to which turn, and which of a turn's replies gives its latencies.

A reply belongs to the turn during which it was created: after this turn's first user frame was written, before the next
turn's. Its packets go with it, however late they come: the tail of an older reply stays with the older turn. A reply
begun before `speech_end` and cancelled before it is a false start; the first other reply gives the latencies.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

from metrics.conversation import Conversation, Reply, UserTurn, VadEvent
from metrics.playout import arrivals_of, play
from sessions.clock import NS_PER_MS


@dataclass(frozen=True, slots=True)
class TurnReplies:
    """One turn with what answered it.

    began_ns: its first user frame was written · next_ns: the next turn's, None for the last turn ·
    reply: the one that gives the latencies · others: those after it · unasked: only at the first turn, replies begun
    before it (a greeting), which belong to no turn.
    """

    turn: UserTurn
    began_ns: int
    next_ns: int | None
    false_starts: tuple[Reply, ...]
    reply: Reply | None
    others: tuple[Reply, ...]
    unasked: tuple[Reply, ...] = ()

    @property
    def all(self) -> tuple[Reply, ...]:
        """Every reply of the turn, by creation."""
        main = () if self.reply is None else (self.reply,)
        return tuple(sorted((*self.false_starts, *main, *self.others), key=lambda reply: reply.created_ns))

    def holds(self, t_ns: int) -> bool:
        """Whether `t_ns` lies after this turn's first frame and before the next turn's."""
        return self.began_ns <= t_ns and (self.next_ns is None or t_ns < self.next_ns)


def attribute(conversation: Conversation) -> list[TurnReplies]:
    """Every turn with its replies, in the order of the turns."""
    turns = sorted(conversation.turns, key=began_ns)
    begins = [began_ns(turn) for turn in turns]
    replies: list[list[Reply]] = [[] for _ in turns]
    unasked: list[Reply] = []
    for reply in sorted(conversation.replies, key=lambda reply: reply.created_ns):
        position = bisect_right(begins, reply.created_ns) - 1
        (replies[position] if position >= 0 else unasked).append(reply)
    next_ns = [*begins[1:], None]
    return [_split(turn, begins[k], next_ns[k], replies[k], unasked if k == 0 else []) for k, turn in enumerate(turns)]


def began_ns(turn: UserTurn) -> int:
    """When the turn's first user frame was written; its first sample's instant where no frames are sent (class C)."""
    return turn.frames[0].sent_ns if turn.frames else turn.start_ns


def is_false_start(reply: Reply, speech_end_ns: int) -> bool:
    """Begun before the end of speech, and cancelled before it."""
    if reply.status != "cancelled" or reply.done_ns is None:
        return False
    return reply.created_ns < speech_end_ns and reply.done_ns < speech_end_ns


def false_start_heard_ms(replies: TurnReplies, rate_hz: int, vad: tuple[VadEvent, ...] = ()) -> float:
    """How much of the turn's false starts was heard, played on arrival up to their flush, in ms.

    The flush is the server's word that the user speaks, where it came while the reply was running; else the reply's
    cancelled end.
    """
    heard = 0.0
    for reply in replies.false_starts:
        playout = play(arrivals_of(reply.packets), rate_hz)
        if playout is not None and reply.done_ns is not None:
            stops = (event.t_ns for event in vad if event.what == "started")
            done_ns = reply.done_ns
            flush_ns = next((t_ns for t_ns in stops if reply.created_ns < t_ns <= done_ns), done_ns)
            heard += float(playout.heard_ns(flush_ns) / NS_PER_MS)
    return heard


def has_audio_after_done(reply: Reply) -> bool:
    """Whether samples came after the protocol's end of the reply."""
    return reply.done_ns is not None and any(
        len(packet.pcm) and packet.t_ns > reply.done_ns for packet in reply.packets
    )


def _split(
    turn: UserTurn, begin_ns: int, next_ns: int | None, replies: list[Reply], unasked: list[Reply]
) -> TurnReplies:
    false_starts = tuple(reply for reply in replies if is_false_start(reply, turn.speech_end_ns))
    rest = tuple(reply for reply in replies if not is_false_start(reply, turn.speech_end_ns))
    return TurnReplies(turn, begin_ns, next_ns, false_starts, rest[0] if rest else None, rest[1:], tuple(unasked))
