"""How long a reply is waited for: until it has ended, or by which limit, and under which name, the wait ends."""

from __future__ import annotations

from collections.abc import Sequence

from clients.transports import KEEPALIVE_S
from harness.dialogue.link import Link, TurnOver
from harness.dialogue.tracker import LiveReply, LiveTurn
from sessions.clock import NS_PER_S

COMPLAINT_NS = 5 * NS_PER_S
"""An error that names no message of ours, and nothing after it: it was the answer."""
ANSWERED_EARLY_NS = 3 * NS_PER_S
"""Where the server ends turns, and its answer had been heard before the user was done: so long another may follow."""


class Replies:
    """The waits for replies of one dialogue."""

    def __init__(self, link: Link) -> None:
        self._link = link

    async def ended(self, begins_by_ns: int | None = None) -> bool:
        """Return when the reply to the last turn that expects one has ended, and no other is open, or none is waited
        for any more. False where none had begun at `begins_by_ns`, the script's own limit. Raises `TurnOver`."""
        link, tracker = self._link, self._link.tracker
        asked = tracker.asked()
        while asked is not None and not asked.given_up:
            early_ns = self._early_until_ns(asked)
            if tracker.answered(asked) and (early_ns <= link.clock.now_ns() or link.lost is not None):
                return True
            until_ns = self.limit_ns(asked)
            if asked.given_up:
                return True
            if tracker.answered(asked):
                until_ns = early_ns
            elif begins_by_ns is not None and tracker.is_awaited(asked):
                if begins_by_ns <= link.clock.now_ns():
                    return False
                until_ns = min(until_ns, begins_by_ns)
            await link.news_by(until_ns)
        return True

    def _early_until_ns(self, asked: LiveTurn) -> int:
        answers = self._link.tracker.answers(asked)
        if self._link.dialect.protocol_class == "A" or any(r.heard_until_ns >= asked.speech_end_ns for r in answers):
            return 0
        return (asked.waiting_from_ns or 0) + ANSWERED_EARLY_NS

    def limit_ns(self, turn: LiveTurn) -> int:
        """Until when its reply is waited for without news. A refused turn is given up; raises `TurnOver` where the
        wait is over and with it the dialogue."""
        link, limits = self._link, self._link.how.limits
        if turn.refusal is not None:
            code = turn.refusal.code
            turn.given_up = True
            link.give_up(turn.index, "rate limit" if "rate" in code else "refused", f"{turn.refusal.detail} [{code}]")
            return 0
        if link.lost is not None:
            raise link.over(link.lost, turn.index)
        waiting_from_ns = turn.waiting_from_ns or turn.speech_end_ns
        idle_ns = max(waiting_from_ns, link.tracker.last_message_ns) + int(limits.idle_s * NS_PER_S)
        until_ns = min(waiting_from_ns + int(limits.reply_s * NS_PER_S), idle_ns)
        if turn.complaint is not None and not link.tracker.of_turn(turn.index):
            until_ns = min(until_ns, turn.complaint[0] + COMPLAINT_NS)
        if link.clock.now_ns() >= until_ns:
            outcome, detail = self._why(turn)
            raise TurnOver(outcome, detail, ends_dialogue=True, turn=turn.index)
        return until_ns

    def _why(self, turn: LiveTurn) -> tuple[str, str]:
        """Outcome and detail of a turn whose reply is not waited for any more."""
        link, limits = self._link, self._link.how.limits
        replies = link.tracker.of_turn(turn.index)
        if turn.complaint is not None and not replies:
            fault = turn.complaint[1]
            return "refused", f"{fault.detail} [{fault.code}]"
        waited = f"waited {limits.idle_s:g} s without a message, or {limits.reply_s:g} s in all"
        quiet_s = (link.clock.now_ns() - link.transport.last_sign_ns) / NS_PER_S
        if quiet_s >= limits.idle_s:
            detail = f"no sign of life for {limits.idle_s:g} s"
            if limits.idle_s >= 2 * KEEPALIVE_S:  # else no pong was due yet
                detail += ", not even a pong"
            return "no end event" if _has_come(replies) else "time-out", detail
        if _has_come(replies):
            return "no end event", f"a reply came, its end did not: {waited}"
        detail = f"alive, but no reply: {waited}"
        if link.dialect.protocol_class == "B":
            detail += "; its voice detection may not have noticed the end of the turn"
        return "time-out", detail


def _has_come(replies: Sequence[LiveReply]) -> bool:
    """Whether anything of a reply came, sound or words: what fails then is its end."""
    return any(reply.first_audio_ns is not None or reply.text for reply in replies)
