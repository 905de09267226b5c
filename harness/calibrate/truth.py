"""The known truth of a dialogue with the metronome: the instants at which it wrote, not those at which we received."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from metrics.conversation import Conversation, Reply
from metrics.result import TurnResult, Value
from metrics.turns import measure_conversation
from servers.write_log import Write
from sessions.clock import NS_PER_MS

AUDIO = "response.output_audio.delta"


def as_written(conversation: Conversation, writes: Iterable[Write], audio: str = AUDIO) -> Conversation:
    """The same dialogue with every audio packet at the instant of its write. Raises `ValueError` if the log differs.

    audio: the type of the written messages that hold audio.
    """
    written: dict[str, list[int]] = {}
    for write in writes:
        if write.type == audio:
            written.setdefault(write.response_id, []).append(write.t_ns)
    replies = []
    for reply in conversation.replies:
        instants = written.get(reply.id, [])
        if len(instants) != len(reply.packets):
            raise ValueError(f"{reply.id}: {len(reply.packets)} packets received, {len(instants)} written")
        packets = [replace(packet, t_ns=t_ns) for packet, t_ns in zip(reply.packets, instants, strict=True)]
        replies.append(replace(reply, packets=tuple(packets)))
    return replace(conversation, replies=tuple(replies))


@dataclass(frozen=True, slots=True)
class Errors:
    """reported − true over the completed turns.

    first_packet_ms, voice_to_voice_ms, underruns (a count, behind no buffer): one per turn, in the same order ·
    gaps_ms: one per two consecutive packets · excluded: turns that were invalid or failed, in none of the lists.
    """

    first_packet_ms: list[float] = field(default_factory=list)
    voice_to_voice_ms: list[float] = field(default_factory=list)
    underruns: list[float] = field(default_factory=list)
    gaps_ms: list[float] = field(default_factory=list)
    excluded: int = 0

    def __add__(self, other: Errors) -> Errors:
        return Errors(
            self.first_packet_ms + other.first_packet_ms,
            self.voice_to_voice_ms + other.voice_to_voice_ms,
            self.underruns + other.underruns,
            self.gaps_ms + other.gaps_ms,
            self.excluded + other.excluded,
        )


def errors(
    turns: Sequence[TurnResult], conversation: Conversation, writes: Iterable[Write], audio: str = AUDIO
) -> Errors:
    """Compare what was reported with the truth, turn by turn. Raises `ValueError` where the log differs.

    True first packet = logged write instant − speech_end; true voice-to-voice and underruns = the play-out model on
    all logged write instants; true gap = between two logged writes.
    """
    true = as_written(conversation, writes, audio)
    true_turns = {turn.turn: turn for turn in measure_conversation(true)}
    replies = {
        reported.id: (reported, written) for reported, written in zip(conversation.replies, true.replies, strict=True)
    }
    found = Errors()
    completed = [turn for turn in turns if turn.turn_class == "completed"]
    per_turn = {
        "first_packet_ms": found.first_packet_ms,
        "voice_to_voice_ms": found.voice_to_voice_ms,
        "underruns_b0": found.underruns,
    }
    for turn in completed:
        for name, differences in per_turn.items():
            reported_value, true_value = turn.measures[name], true_turns[turn.turn].measures[name]
            assert isinstance(reported_value, Value) and isinstance(true_value, Value)
            differences.append(reported_value.value - true_value.value)
        for reply_id in turn.reply_ids:
            found.gaps_ms.extend(_gap_errors(*replies[reply_id]))
    return replace(found, excluded=len(turns) - len(completed))


def _gap_errors(reported: Reply, written: Reply) -> list[float]:
    gaps = zip(pairwise(reported.packets), pairwise(written.packets), strict=True)
    return [((r2.t_ns - r1.t_ns) - (w2.t_ns - w1.t_ns)) / NS_PER_MS for (r1, r2), (w1, w2) in gaps]
