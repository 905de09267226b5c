"""What a measure of one turn looks at: the turn, its reply, its instants, its play-outs."""

from __future__ import annotations

from dataclasses import dataclass

from metrics.attribution import TurnReplies
from metrics.conversation import Conversation
from metrics.instants import Heard, Instants, hear, instants_of


@dataclass(frozen=True, slots=True)
class TurnView:
    """One turn of `conversation`. heard: the audio of `replies.reply`, the reply that gives the latencies."""

    conversation: Conversation
    replies: TurnReplies
    heard: Heard
    instants: Instants

    def instant(self, name: str) -> int | None:
        """An instant in ns, None where it does not exist."""
        return self.instants.at_ns.get(name)


def view_of(conversation: Conversation, replies: TurnReplies) -> TurnView:
    """Gather everything that the measures of one turn share."""
    heard = Heard() if replies.reply is None else hear(replies.reply, conversation.rate_hz)
    return TurnView(conversation, replies, heard, instants_of(conversation, replies, heard))
