"""A conversation as lanes."""

from __future__ import annotations

from collections.abc import Sequence

from metrics.attribution import TurnReplies, onset_ns
from metrics.conversation import Conversation, Reply, UserTurn
from metrics.cut import cut_ns
from metrics.playout import Playout, duration_ns, nearest_ns
from metrics.spans import Span, SpokenReply, cut, joined, spoken
from metrics.turn_taking.lanes import Lanes, Log, Sound, Talk, in_order
from sessions.clock import NS_PER_MS, samples_to_ns


def lanes_of(conversation: Conversation, attributed: Sequence[TurnReplies], stream: SpokenReply | None = None) -> Lanes:
    """attributed: of the same conversation · stream: in class D, all audio of the session."""
    sounds = in_order([_sound(turn) for turn in conversation.turns])
    if stream is not None:
        flushes = [reply.flushed_ns for reply in conversation.replies if reply.flushed_ns is not None]
        heard = cut(stream.stretches, min(flushes)) if len(conversation.replies) == 1 and flushes else stream.stretches
        return Lanes(conversation.protocol_class, sounds, heard)
    by_reply = {id(reply): talk for reply in conversation.replies if (talk := _talk(reply, conversation)) is not None}
    talks = tuple(sorted(by_reply.values(), key=lambda talk: talk.created_ns))
    agent = joined(stretch for talk in talks for stretch in talk.heard)
    return Lanes(conversation.protocol_class, sounds, agent, _log(conversation, attributed, by_reply, talks))


def _sound(turn: UserTurn) -> Sound:
    silent = turn.kind == "silence"
    return Sound(
        index=turn.index,
        kind=turn.kind,
        start_ns=turn.start_ns,
        onset_ns=turn.start_ns if silent else onset_ns(turn),
        end_ns=turn.start_ns + samples_to_ns(turn.samples, turn.rate_hz) if silent else turn.speech_end_ns,
        pauses=tuple(Span(start_ns, start_ns + length_ns) for start_ns, length_ns in turn.pauses_ns),
        watch_ns=turn.watch_ns,
        expects_reply=turn.expects_reply,
    )


def _talk(reply: Reply, conversation: Conversation) -> Talk | None:
    """None for a reply without audio."""
    found = spoken([reply], conversation.rate_hz)
    playout = found.playout
    if playout is None:
        return None
    until_ns = cut_ns(reply, conversation.vad)
    if until_ns is not None and reply.status != "cancelled" and playout.heard_samples(until_ns) == playout.samples:
        until_ns = None  # nothing was left to drop
    generated_ns = duration_ns(playout.samples, playout.rate_hz)
    return Talk(
        created_ns=reply.created_ns,
        whole=found.stretches,
        heard=found.heard(until_ns),
        heard_until_ns=nearest_ns(playout.end_ns) if until_ns is None else _heard_until_ns(playout, until_ns),
        heard_ms=float((generated_ns if until_ns is None else playout.heard_ns(until_ns)) / NS_PER_MS),
        generated_ms=float(generated_ns / NS_PER_MS),
        last_arrival_ns=max(packet.t_ns for packet in reply.packets if len(packet.pcm)),
        cut_ns=until_ns,
        cancelled_ns=reply.cancelled_ns,
    )


def _heard_until_ns(playout: Playout, until_ns: int) -> int:
    """When the last sample that was heard before `until_ns` ended; an underrun is silence."""
    ends = [
        min(until_ns, segment.base_ns + samples_to_ns(segment.samples, playout.rate_hz))
        for segment in playout.segments
        if segment.base_ns < until_ns
    ]
    return max(ends, default=min(until_ns, playout.segments[0].base_ns))


def _log(
    conversation: Conversation, attributed: Sequence[TurnReplies], by_reply: dict[int, Talk], talks: tuple[Talk, ...]
) -> Log:
    answers: dict[int, Talk] = {}
    more: dict[int, int] = {}
    for replies in attributed:
        main = () if replies.reply is None else (replies.reply,)
        audible = [talk for reply in (*main, *replies.others) if (talk := by_reply.get(id(reply))) and talk.whole]
        if audible:
            answers[replies.turn.index] = audible[0]
            more[replies.turn.index] = sum(bool(talk.heard) for talk in audible[1:])
    endings = [event.t_ns for event in conversation.vad if event.what == "committed"]
    endings += [reply.created_ns for reply in conversation.replies]
    return Log(
        talks=talks,
        answers=answers,
        replied=frozenset(replies.turn.index for replies in attributed if replies.reply is not None),
        more=more,
        backchannels={replies.turn.index: len(replies.backchannels) for replies in attributed},
        endings_ns=tuple(sorted(endings)),
    )
