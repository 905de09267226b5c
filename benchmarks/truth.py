"""The known truth of a dialogue with the metronome: the instants at which it wrote, not those at which we received."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from metrics.conversation import Conversation
from metrics.result import TurnResult, Value
from metrics.turns import measure_conversation
from servers.write_log import Write
from sessions.clock import NS_PER_MS

AUDIO = "response.output_audio.delta"


def as_written(conversation: Conversation, writes: Iterable[Write]) -> Conversation:
    """The same dialogue with every audio packet at the instant of its write. Raises `ValueError` if the log differs."""
    written: dict[str, list[int]] = {}
    for write in writes:
        if write.type == AUDIO:
            written.setdefault(write.response_id, []).append(write.t_ns)
    replies = []
    for reply in conversation.replies:
        instants = written[reply.id]
        if len(instants) != len(reply.packets):
            raise ValueError(f"{reply.id}: {len(reply.packets)} packets received, {len(instants)} written")
        packets = [replace(packet, t_ns=t_ns) for packet, t_ns in zip(reply.packets, instants, strict=True)]
        replies.append(replace(reply, packets=tuple(packets)))
    return replace(conversation, replies=tuple(replies))


@dataclass(frozen=True, slots=True)
class Errors:
    """reported − true of each completed turn, in milliseconds. excluded: turns without both (invalid, failed)."""

    first_packet_ms: list[float]
    voice_to_voice_ms: list[float]
    excluded: int


def errors(turns: Sequence[TurnResult], conversation: Conversation, writes: Sequence[Write]) -> Errors:
    """Compare what was reported with the truth, turn by turn.

    True first packet = logged write instant − speech_end; true voice-to-voice = the play-out model on all logged
    write instants.
    """
    true_turns = {turn.turn: turn for turn in measure_conversation(as_written(conversation, writes))}
    found: dict[str, list[float]] = {"first_packet_ms": [], "voice_to_voice_ms": []}
    excluded = 0
    for turn in turns:
        if turn.turn_class != "completed":
            excluded += 1
            continue
        for name, differences in found.items():
            reported, true = turn.measures[name], true_turns[turn.turn].measures[name]
            assert isinstance(reported, Value) and isinstance(true, Value)
            differences.append(reported.value - true.value)
    return Errors(found["first_packet_ms"], found["voice_to_voice_ms"], excluded)


def in_ms(ns: Iterable[int]) -> list[float]:
    return [value / NS_PER_MS for value in ns]
