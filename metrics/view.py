"""What a measure of one turn looks at: the turn, its reply, its instants, its play-outs."""

from __future__ import annotations

from dataclasses import dataclass

from metrics.attribution import TurnReplies
from metrics.conversation import Conversation
from metrics.instants import Heard, Instants, hear, hear_stream, instants_of
from metrics.spans import SpokenReply, spoken


@dataclass(frozen=True, slots=True)
class TurnView:
    """One turn of `conversation`. heard: the audio of `replies.reply`, the reply that gives the latencies; class D: of
    the session's stream, with the onset of the answer in it."""

    conversation: Conversation
    replies: TurnReplies
    heard: Heard
    instants: Instants

    def instant(self, name: str) -> int | None:
        """An instant in ns, None where it does not exist."""
        return self.instants.at_ns.get(name)


def stream_of(conversation: Conversation) -> SpokenReply | None:
    """Class D: all audio of the session as the one stream that it is; None in the other classes."""
    return spoken(conversation.replies, conversation.rate_hz) if conversation.protocol_class == "D" else None


def view_of(conversation: Conversation, replies: TurnReplies, stream: SpokenReply | None = None) -> TurnView:
    """Gather everything that the measures of one turn share. stream: of class D, where the caller has it already."""
    stream = stream or stream_of(conversation)
    if stream is not None:
        heard = hear_stream(conversation, replies, stream)
    else:
        heard = Heard() if replies.reply is None else hear(replies.reply, conversation.rate_hz)
    return TurnView(conversation, replies, heard, instants_of(conversation, replies, heard))
