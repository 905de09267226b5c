"""When each turn starts, judged by what is heard on the play-out clock (B = 0).

Every wait ends: by its event, by the end of the connection, by the script's time-out, or by the limits of a reply.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.dialogue.link import Link, TurnOver
from harness.dialogue.record import TurnToSpeak
from harness.dialogue.replying import Replies
from harness.dialogue.tracker import LiveReply, LiveTurn
from sessions.clock import NS_PER_MS, NS_PER_S

_LAST_NS = 50 * NS_PER_MS
"""So long before a turn starts, only its instant is waited for."""
NEVER = "the wait never fired"


class Starts:
    """The waits of one dialogue."""

    def __init__(self, link: Link, turns: Sequence[TurnToSpeak]) -> None:
        self._link, self._turns, self._replies = link, turns, Replies(link)
        self._told = 0

    async def wait(self, index: int, early_ns: int) -> int:
        """Wait for what turn `index` waits for, until `early_ns` before the turn; the instant at which it starts.

        Raises `TurnOver` for a wait that never fires, for the turn whose reply failed, and where the connection ends.
        """
        link, turn = self._link, self._turns[index]
        if turn.after == "reply":
            return await self._after_reply(index, early_ns)
        if turn.after == "onset":
            event_ns = await self._onset(index)
        elif turn.after == "at":
            event_ns = link.ready_ns + turn.at_ns
        else:
            event_ns = max((begun.sound_end_ns for begun in link.tracker.turns), default=link.ready_ns)
        start_ns = max(link.clock.now_ns(), event_ns + turn.gap_ns)
        await link.until(start_ns - early_ns)
        return start_ns

    async def end(self) -> None:
        """Wait until the last reply has ended and the last sound that expects none was watched. Raises `TurnOver`."""
        await self._replies.ended()
        await self._watched()
        self.tell_over()

    def tell_over(self) -> None:
        """All turns begun so far are over."""
        turns = self._link.tracker.turns
        told, self._told = self._told, len(turns)
        for turn in turns[told:]:
            self._link.how.on_turn(turn.index, self._link.tracker)

    async def others_over(self, index: int) -> None:
        """Class A: until no reply to a turn before `index` is awaited, open or heard any more. Raises `TurnOver`."""
        link, asked = self._link, self._link.tracker.asked_before(index)
        while asked is not None and not self.others_are_over(index):
            heard_ns = link.tracker.others_until_ns(index)
            await link.news_by(self._replies.limit_ns(asked) if heard_ns is None else heard_ns)
            link.check()

    def others_are_over(self, index: int) -> bool:
        heard_ns = self._link.tracker.others_until_ns(index)
        return heard_ns is not None and heard_ns <= self._link.clock.now_ns()

    # ---- after: onset ----------------------------------------------------------------------------------------

    async def _onset(self, index: int) -> int:
        """When the reply to the last turn that expects one is first heard; it may lie ahead."""
        link, tracker, limits = self._link, self._link.tracker, self._link.how.limits
        asked = tracker.asked()
        if asked is None:
            raise _never("no turn before it was spoken")
        timeout_ns = self._turns[index].timeout_ns
        if timeout_ns is None:
            timeout_ns = int(limits.reply_s * NS_PER_S)
        until_ns = (asked.waiting_from_ns or asked.speech_end_ns) + timeout_ns
        while (onset_ns := _first_heard_ns(tracker.answers(asked))) is None:
            link.check()
            if asked.given_up or asked.refusal is not None:
                raise _never(f"turn {asked.index + 1} was refused")
            if tracker.answered(asked):
                raise _never(f"nothing audible of a reply to turn {asked.index + 1} was heard")
            if link.clock.now_ns() >= until_ns:
                waited = f"within {timeout_ns / NS_PER_S:g} s"
                raise _never(f"nothing audible of a reply to turn {asked.index + 1} was heard {waited}")
            await link.news_by(until_ns)
        return onset_ns

    # ---- after: reply ----------------------------------------------------------------------------------------

    async def _after_reply(self, index: int, early_ns: int) -> int:
        link, gap_ns = self._link, self._turns[index].gap_ns
        over_ns = await self._all_over_ns(index) if link.tracker.turns else link.clock.now_ns()
        while True:
            now_ns = link.clock.now_ns()
            start_ns = max(now_ns, over_ns + gap_ns)
            last_ns = start_ns - early_ns - _LAST_NS
            if last_ns > now_ns and await link.news_by(last_ns):
                link.check()
                if link.tracker.turns:
                    over_ns = await self._all_over_ns(index)  # another reply may have begun
                continue
            await link.until(start_ns - early_ns)
            if not link.tracker.turns or self._over_ns(index) <= over_ns:
                return start_ns
            over_ns = self._over_ns(index)  # more of it came after its end

    async def _all_over_ns(self, index: int) -> int:
        """Wait until the reply has ended and the turn before is over; when the last of it is heard."""
        link, asked, timeout_ns = self._link, self._link.tracker.asked(), self._turns[index].timeout_ns
        begins_by_ns = None
        if asked is not None and timeout_ns is not None:
            begins_by_ns = (asked.waiting_from_ns or asked.speech_end_ns) + timeout_ns
        if asked is not None and not await self._replies.ended(begins_by_ns):
            waited = f"within {(timeout_ns or 0) / NS_PER_S:g} s"
            raise _never(f"no reply to turn {asked.index + 1} began {waited}")
        await self._watched()
        link.check()
        self.tell_over()
        return self._over_ns(index)

    async def _watched(self) -> None:
        """Until the sounds that expect no reply were watched for as long as the script says, and what came is over."""
        link = self._link
        while (until_ns := _watched_until_ns(link.tracker.turns)) > link.clock.now_ns() and link.lost is None:
            await link.news_by(until_ns)
        await self._replies.ended()

    def _over_ns(self, index: int) -> int:
        """When all is over and heard. Raises `TurnOver` where that lies beyond the limit of a reply."""
        link, asked = self._link, self._link.tracker.asked()
        heard_ns = 0 if asked is None else link.tracker.heard_until_ns(asked.index)
        if asked is not None:
            limit_s = link.how.limits.reply_s
            lasts_s = (heard_ns - (asked.waiting_from_ns or asked.speech_end_ns)) / NS_PER_S
            if lasts_s > limit_s and heard_ns > link.clock.now_ns():
                detail = f"{NEVER}: the reply would be heard for {lasts_s:.0f} s (limit of a reply: {limit_s:g} s)"
                raise TurnOver("time-out", detail, ends_dialogue=True, turn=index)
        return max(heard_ns, _watched_until_ns(link.tracker.turns))


def _never(why: str) -> TurnOver:
    return TurnOver("time-out", f"{NEVER}: {why}", ends_dialogue=False)


def _watched_until_ns(turns: Sequence[LiveTurn]) -> int:
    return max((turn.watched_until_ns for turn in turns), default=0)


def _first_heard_ns(replies: Sequence[LiveReply]) -> int | None:
    """The first onset that was, or will be, heard: not cut off before it."""
    onsets = [
        reply.onset_ns
        for reply in replies
        if reply.onset_ns is not None and (reply.flushed_ns is None or reply.onset_ns < reply.flushed_ns)
    ]
    return min(onsets, default=None)
