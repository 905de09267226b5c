"""What the live client knows while it talks. It decides only what to send next and when; no figure comes from it."""

from __future__ import annotations

from dataclasses import dataclass, field

from clients.events import Fault, PeerEvent, ReplyAudio, ReplyBegan, ReplyEnded, ReplyText
from sessions.clock import samples_to_ns


@dataclass(slots=True)
class LiveReply:
    """One reply so far. playout_end_ns: when its last sample would have been heard, played on arrival."""

    id: str
    turn: int
    created_ns: int
    first_audio_ns: int | None = None
    samples: int = 0
    done_ns: int | None = None
    status: str = ""
    text: str = ""
    _base_ns: int = 0
    _base_samples: int = 0
    playout_end_ns: int = 0

    def hear(self, samples: int, t_ns: int, rate_hz: int) -> None:
        if samples == 0:
            return
        if self.first_audio_ns is None:
            self.first_audio_ns = t_ns
        if t_ns > self.playout_end_ns:
            self._base_ns, self._base_samples = t_ns, self.samples
        self.samples += samples
        self.playout_end_ns = self._base_ns + samples_to_ns(self.samples - self._base_samples, rate_hz)


@dataclass(slots=True)
class LiveTurn:
    """One utterance in progress. waiting_from_ns: when the user had ended and the wait for the reply began."""

    index: int
    speech_end_ns: int
    began: bool = False
    """Its first frame was written: from then on new replies are this turn's."""
    waiting_from_ns: int | None = None
    refusal: Fault | None = None
    complaint: tuple[int, Fault] | None = None
    """An error event that names none of our messages, and when it came."""


@dataclass(slots=True)
class Tracker:
    """Replies and turns of one dialogue, as far as they have come."""

    rate_hz: int
    replies: dict[str, LiveReply] = field(default_factory=dict)
    turns: list[LiveTurn] = field(default_factory=list)
    last_message_ns: int = 0
    late_max_ns: int = 0
    """The worst frame so far: write returned − due."""

    def apply(self, event: PeerEvent, t_ns: int) -> None:
        if isinstance(event, ReplyAudio):  # nearly all of them
            self.replies[event.reply].hear(len(event.pcm), t_ns, self.rate_hz)
            return
        match event:
            case ReplyBegan(reply):
                begun = [turn.index for turn in self.turns if turn.began]
                self.replies[reply] = LiveReply(reply, max(begun, default=-1), t_ns)
            case ReplyText(reply, text):
                self.replies[reply].text += text
            case ReplyEnded():
                reply_ = self.replies[event.reply]
                reply_.done_ns, reply_.status = t_ns, event.status
                reply_.text = reply_.text or event.text
            case Fault(kind="error"):
                self._complain(event, t_ns)
            case _:
                pass

    def _complain(self, fault: Fault, t_ns: int) -> None:
        if not self.turns:
            return
        turn = self.turns[-1]
        if fault.answers in turn_messages(turn.index):
            turn.refusal = turn.refusal or fault
        elif not fault.answers:
            turn.complaint = (t_ns, fault)

    def of_turn(self, turn: int) -> list[LiveReply]:
        return [reply for reply in self.replies.values() if reply.turn == turn]

    def answered(self, turn: LiveTurn) -> bool:
        """The turn has a reply that ended, nothing is open, and it was not only a false start."""
        replies = self.of_turn(turn.index)
        if any(reply.done_ns is None for reply in replies):
            return False
        return any(not (r.status == "cancelled" and (r.done_ns or 0) < turn.speech_end_ns) for r in replies)

    def heard_until_ns(self, turn: int) -> int:
        """When the turn's replies would have been heard to their end, 0 without any."""
        return max((max(r.playout_end_ns, r.done_ns or 0) for r in self.of_turn(turn)), default=0)


def turn_messages(turn: int) -> tuple[str, str]:
    """The ids under which a turn's own messages are sent."""
    return f"commit-{turn}", f"request-{turn}"
