"""Interruptions, backchannels and silences of a recorded dialogue, given again on the virtual clock."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from harness.dialogue.record import TurnToSpeak
from sessions.clock import NS_PER_MS
from sessions.events import Flushed
from tests.replay.test_replay_virtual import assert_equal, record
from tests.support.dialogues import Played, play_virtual, utterance
from tests.support.replays import Replayed


def said(kind: str, after: str = "onset", gap_ms: float = 200) -> TurnToSpeak:
    return replace(utterance(600, tail_ms=100), kind=kind, after=after, gap_ns=round(gap_ms * NS_PER_MS))


def silence(samples: int = 24_000) -> TurnToSpeak:
    return replace(said("silence", "reply"), pcm=np.zeros(samples, dtype=np.int16), last_sample=-1)


def flushes(played: Played) -> list[Flushed]:
    return [event for event in played.record.log() if isinstance(event, Flushed)]


@pytest.mark.parametrize("turn_detection", ["manual", "server_vad"])
def test_everything_that_happens_at_once_comes_back(turn_detection: str) -> None:
    turns = [
        utterance(500, tail_ms=200),
        said("interruption", gap_ms=300),
        said("backchannel", gap_ms=200),
        silence(),
        utterance(500, tail_ms=200),
        said("overlap", gap_ms=111.111111),
        utterance(500),
    ]
    old, recording = record("steady", turns, turn_detection=turn_detection)
    assert flushes(old), "something was cut off"
    new = play_virtual(Replayed(recording), turns, turn_detection=turn_detection)
    assert_equal(old, new)
    assert [(event.turn, event.why) for event in flushes(new)] == [(event.turn, event.why) for event in flushes(old)]


@pytest.mark.parametrize("turn_detection", ["manual", "server_vad"])
def test_who_breaks_in_earlier_hears_less(turn_detection: str) -> None:
    turns = [utterance(500, tail_ms=200), said("interruption", gap_ms=600), utterance(500, tail_ms=200)]
    old, recording = record("steady", turns, turn_detection=turn_detection)
    earlier = [turns[0], said("interruption", gap_ms=200), turns[2]]
    new = play_virtual(Replayed(recording), earlier, turn_detection=turn_detection)
    assert [turn.outcome for turn in new.turns] == [turn.outcome for turn in old.turns]
    assert len(flushes(new)) == len(flushes(old)) == 1
    heard = [sum(len(packet.pcm) for packet in one.derived.conversation.replies[0].packets) for one in (old, new)]
    assert heard[1] < heard[0], "what was not sent when the user broke in is not sent"
    for before, after in zip(old.turns[1:], new.turns[1:], strict=True):
        assert before.measures["voice_to_voice_ms"] == after.measures["voice_to_voice_ms"]


@pytest.mark.parametrize("turn_detection", ["manual", "server_vad"])
def test_who_does_not_break_in_this_time_is_answered_all_the_same(turn_detection: str) -> None:
    """The recorded cancel never comes: what it brought comes with the next thing that the client says."""
    turns = [utterance(500, tail_ms=200), said("interruption", gap_ms=300)]
    _, recording = record("steady", turns, turn_detection=turn_detection)
    patient = [turns[0], replace(said("speech", "at"), at_ns=8_000 * NS_PER_MS, gap_ns=0)]
    new = play_virtual(Replayed(recording), patient, turn_detection=turn_detection)
    assert new.turns[1].outcome == "answered"
