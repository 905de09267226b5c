"""What the live client knows while it talks. It decides only what to send next and when; no figure comes from it."""

from __future__ import annotations

from dataclasses import dataclass, field

from clients.events import Fault, PeerEvent, ReplyAudio, ReplyBegan, ReplyEnded, ReplyText
from sessions.clock import NS_PER_S, samples_to_ns


@dataclass(slots=True)
class LiveReply:
    """One reply so far. playout_end_ns: when its last sample would have been heard, played on arrival.

    flushed_ns: when what was not yet heard of it was dropped · onset_ns: when its first audible sample is heard, None
    while that is not known (nobody looks where no turn waits for it).
    """

    id: str
    turn: int
    created_ns: int
    first_audio_ns: int | None = None
    samples: int = 0
    done_ns: int | None = None
    status: str = ""
    text: str = ""
    playout_end_ns: int = 0
    flushed_ns: int | None = None
    onset_ns: int | None = None
    _segments: list[tuple[int, int]] = field(default_factory=list)
    """(when it begins to be heard, first sample) of each stretch without a gap."""
    _items: list[tuple[str, int]] = field(default_factory=list)
    """(the peer's name of it, first sample) of each output item."""

    def hear(self, samples: int, t_ns: int, rate_hz: int) -> None:
        if samples == 0:
            return
        if self.first_audio_ns is None:
            self.first_audio_ns = t_ns
            self._segments.append((t_ns, 0))
        base_ns, first = self._segments[-1]
        # As metrics.playout has it: less than half a sample late is no gap.
        if (
            t_ns > self.playout_end_ns
            and 2 * ((t_ns - base_ns) * rate_hz - (self.samples - first) * NS_PER_S) > NS_PER_S
        ):
            base_ns, first = t_ns, self.samples
            self._segments.append((base_ns, first))
        self.samples += samples
        self.playout_end_ns = base_ns + samples_to_ns(self.samples - first, rate_hz)

    def belongs_to(self, item: str) -> None:
        """What comes next is of this output item."""
        if not self._items or self._items[-1][0] != item:
            self._items.append((item, self.samples))

    def heard_at_ns(self, sample: int, rate_hz: int) -> int:
        """When a sample that has come begins to be heard."""
        base_ns, first = next(segment for segment in reversed(self._segments) if segment[1] <= sample)
        return base_ns + samples_to_ns(sample - first, rate_hz)

    def heard_samples(self, t_ns: int, rate_hz: int) -> int:
        """Whole samples that were heard up to `t_ns`; never more than have come."""
        heard = 0
        ends = [*(first for _, first in self._segments[1:]), self.samples]
        for (base_ns, first), end in zip(self._segments, ends, strict=True):
            heard += max(0, min((t_ns - base_ns) * rate_hz // NS_PER_S, end - first))
        return heard

    def heard_of_item(self, t_ns: int, rate_hz: int) -> tuple[str, int] | None:
        """The output item that is being heard at `t_ns`, and the milliseconds of it that were; None without audio."""
        if not self._items:
            return None
        heard = self.heard_samples(t_ns, rate_hz)
        item, first = next(one for one in reversed(self._items) if one[1] <= heard)
        return item, (heard - first) * 1000 // rate_hz

    def is_to_be_heard(self, t_ns: int) -> bool:
        """More of it is to be heard than was at `t_ns`, or may come."""
        return self.flushed_ns is None and (self.done_ns is None or self.playout_end_ns > t_ns)

    @property
    def heard_until_ns(self) -> int:
        """When it was heard to its end, or cut; not before the protocol's own end of it."""
        if self.flushed_ns is not None:
            return self.flushed_ns
        return max(self.playout_end_ns, self.done_ns or 0)

    def is_false_start(self, speech_end_ns: int) -> bool:
        """As metrics.attribution has it: begun before the end of speech, and cancelled or dropped before it."""
        cancelled = self.status == "cancelled" and (self.done_ns or 0) < speech_end_ns
        dropped = self.flushed_ns is not None and self.flushed_ns < speech_end_ns
        return self.created_ns < speech_end_ns and (cancelled or dropped)


@dataclass(slots=True)
class LiveTurn:
    """One utterance in progress. waiting_from_ns: when the user had ended and the wait for the reply began.

    sound_end_ns: when its speech (of a silence: all of it) ends · watched_until_ns: when a turn that expects no reply
    is over.
    """

    index: int
    speech_end_ns: int
    began: bool = False
    """Its first frame was written: from then on new replies are this turn's."""
    waiting_from_ns: int | None = None
    refusal: Fault | None = None
    complaint: tuple[int, Fault] | None = None
    """An error event that names none of our messages, and when it came."""
    expects_reply: bool = True
    sound_end_ns: int = 0
    watched_until_ns: int = 0
    is_unasked: bool = False
    """Its reply is asked for by a message (class A), which was not written yet."""
    given_up: bool = False
    """No reply of it is waited for any more."""


@dataclass(slots=True)
class Tracker:
    """Replies and turns of one dialogue, as far as they have come."""

    rate_hz: int
    replies: dict[str, LiveReply] = field(default_factory=dict)
    turns: list[LiveTurn] = field(default_factory=list)
    last_message_ns: int = 0
    late_max_ns: int = 0
    """The worst frame so far: write returned − due."""
    refusals_due: int = 0
    """Cancels and truncations that the peer may refuse, as it had ended by itself; that is no complaint."""

    def apply(self, event: PeerEvent, t_ns: int) -> None:
        if isinstance(event, ReplyAudio):  # nearly all of them
            reply = self.replies[event.reply]
            reply.belongs_to(event.item)
            reply.hear(len(event.pcm), t_ns, self.rate_hz)
            return
        match event:
            case ReplyBegan(id):
                self.replies[id] = LiveReply(id, self._owner(), t_ns)
            case ReplyText(id, text):
                self.replies[id].text += text
            case ReplyEnded():
                reply = self.replies[event.reply]
                reply.done_ns, reply.status = t_ns, event.status
                reply.text = reply.text or event.text
            case Fault(kind="error"):
                self._complain(event, t_ns)
            case _:
                pass

    def _owner(self) -> int:
        """The turn that a reply which begins now belongs to; −1 before the first."""
        begun = [turn for turn in self.turns if turn.began]
        if not begun:
            return -1
        asked = next((turn for turn in reversed(begun) if turn.expects_reply), None)
        if asked is begun[-1] and asked.is_unasked:  # what begins now answers the turn before
            asked = self.asked_before(asked.index)
        if asked is None or asked is begun[-1]:
            return begun[-1].index
        return begun[-1].index if self.answers(asked) else asked.index

    def _complain(self, fault: Fault, t_ns: int) -> None:
        if not self.turns:
            return
        if fault.answers:
            for turn in self.turns:
                if fault.answers in turn_messages(turn.index):
                    turn.refusal = turn.refusal or fault
        elif self.refusals_due:
            self.refusals_due -= 1
        else:
            self.turns[-1].complaint = (t_ns, fault)

    def of_turn(self, turn: int) -> list[LiveReply]:
        return [reply for reply in self.replies.values() if reply.turn == turn]

    def since(self, turn: int) -> list[LiveReply]:
        """The replies of this turn and of all after it."""
        return [reply for reply in self.replies.values() if reply.turn >= turn]

    def asked(self) -> LiveTurn | None:
        """The last turn begun that expects a reply."""
        return next((turn for turn in reversed(self.turns) if turn.expects_reply), None)

    def asked_before(self, turn: int) -> LiveTurn | None:
        """The last turn begun before `turn` that expects a reply."""
        return next((one for one in reversed(self.turns) if one.index < turn and one.expects_reply), None)

    def answers(self, turn: LiveTurn) -> list[LiveReply]:
        """Its replies that were not only false starts."""
        return [reply for reply in self.of_turn(turn.index) if not reply.is_false_start(turn.speech_end_ns)]

    def answered(self, turn: LiveTurn) -> bool:
        """The turn has a reply that ended, nothing is open, and it was not only a false start."""
        is_open = any(reply.done_ns is None for reply in self.since(turn.index))
        return not is_open and bool(self.answers(turn))

    def is_awaited(self, turn: LiveTurn) -> bool:
        """Its reply is still to begin."""
        return not turn.given_up and turn.refusal is None and not self.since(turn.index)

    def others_until_ns(self, turn: int) -> int | None:
        """Until when replies that came before turn `turn` asks for its own are heard; None while one is open or
        awaited."""
        earlier = [reply for reply in self.replies.values() if reply.flushed_ns is None]
        asked = self.asked_before(turn)
        if (asked is not None and self.is_awaited(asked)) or any(reply.done_ns is None for reply in earlier):
            return None
        return max((reply.heard_until_ns for reply in earlier), default=0)

    def heard_until_ns(self, turn: int) -> int:
        """When the replies since this turn would have been heard to their end, 0 without any."""
        return max((reply.heard_until_ns for reply in self.since(turn)), default=0)


def turn_messages(turn: int) -> tuple[str, str]:
    """The ids under which a turn's own messages are sent."""
    return f"commit-{turn}", f"request-{turn}"
