"""Recorded dialogues given again, in memory on the virtual clock: every latency comes back, to the nanosecond."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np
import pytest

from clients.openai_realtime import OpenAIRealtimeInterpreter
from harness.dialogue.record import TurnToSpeak
from metrics.result import TurnResult
from servers.replay.recording import Recording, recording_of
from servers.write_log import WriteLog
from sessions.clock import NS_PER_MS
from sessions.errors import SetupError
from sessions.events import AnyEvent, GaveUp
from tests.servers.test_metronome_virtual import Fronted
from tests.support.dialogues import Played, play_virtual, utterance
from tests.support.peers import Wire, audio, created, done, greet, sleep_ms, tone
from tests.support.replays import Replayed, recorded


def record(behaviour: str, turns: Sequence[TurnToSpeak], **settings: Any) -> tuple[Played, Recording]:
    played = play_virtual(Fronted(behaviour, WriteLog()), turns, **settings)
    return played, recorded(played, turns)


def since_speech_end(turn: TurnResult) -> dict[str, int]:
    """All instants of a turn in nanoseconds from the end of its speech, which no rounding has touched."""
    return {name: t_ns - turn.instants_ns["speech_end"] for name, t_ns in turn.instants_ns.items()}


def assert_equal(old: Played, new: Played) -> None:
    assert new.record.received == old.record.received, "the messages are the recorded ones, byte for byte"
    for before, after in zip(old.turns, new.turns, strict=True):
        assert (after.outcome, after.flags) == (before.outcome, before.flags)
        assert since_speech_end(after) == since_speech_end(before)
        assert after.measures == before.measures
        assert after.heard_text == before.heard_text
    for packet, same in zip(_arrivals(old), _arrivals(new), strict=True):
        assert packet == same


def _arrivals(played: Played) -> list[int]:
    """Of all messages, from the connection on."""
    made_ns = next(event.t_ns for event in played.record.events if type(event).__name__ == "Connected")
    return [event.t_ns - made_ns for event in played.record.log() if type(event).__name__ == "Received"]


@pytest.mark.parametrize("turn_detection", ["manual", "server_vad"])
@pytest.mark.parametrize("behaviour", ["steady", "stalls"])
def test_every_latency_comes_back_to_the_nanosecond(behaviour: str, turn_detection: str) -> None:
    turns = [utterance(500 + 7 * index, tail_ms=200, gap_ms=100.01 * index) for index in range(6)]
    old, recording = record(behaviour, turns, turn_detection=turn_detection)
    assert [turn.outcome for turn in old.turns] == ["answered"] * 6
    new = play_virtual(Replayed(recording), turns, turn_detection=turn_detection)
    assert_equal(old, new)


def with_lead(turn: TurnToSpeak, samples: int) -> TurnToSpeak:
    """The same with zeros before it: its first sample on the lane cannot be told from silence."""
    pcm = np.concatenate([np.zeros(samples, dtype=np.int16), turn.pcm])
    return TurnToSpeak(pcm, turn.last_sample + samples, turn.method, turn.gap_ns)


@pytest.mark.parametrize("frame_ms", [20, 100])
def test_zeros_before_the_sound_belong_to_the_utterance(frame_ms: int) -> None:
    turns = [with_lead(utterance(500, gap_ms=0.333), samples) for samples in (1, 479, 480, 1111, 7)]
    old, recording = record("steady", turns, turn_detection="server_vad", frame_ms=frame_ms)
    new = play_virtual(Replayed(recording), turns, turn_detection="server_vad", frame_ms=frame_ms)
    assert_equal(old, new)


def test_what_follows_the_speech_in_the_clip_is_no_new_utterance() -> None:
    """Breath after n is sound that is not 0."""
    spoken = utterance(500, tail_ms=400)
    breath = np.where(np.arange(len(spoken.pcm)) > spoken.last_sample, 3, spoken.pcm).astype(np.int16)
    turns = [TurnToSpeak(breath, spoken.last_sample, "annotation", 100 * NS_PER_MS)] * 3
    old, recording = record("steady", turns, turn_detection="server_vad")
    new = play_virtual(Replayed(recording), turns, turn_detection="server_vad")
    assert_equal(old, new)


def test_replies_follow_the_user_when_the_gaps_differ() -> None:
    """Answers are counted from what they answered, not from the beginning."""
    turns = [utterance(500, tail_ms=200, gap_ms=100)] * 4
    for turn_detection in ("manual", "server_vad"):
        old, recording = record("steady", turns, turn_detection=turn_detection)
        later = [utterance(500, tail_ms=200, gap_ms=1234.567)] * 4
        new = play_virtual(Replayed(recording), later, turn_detection=turn_detection)
        for before, after in zip(old.turns, new.turns, strict=True):
            assert before.measures["voice_to_voice_ms"] == after.measures["voice_to_voice_ms"]


def test_a_replay_can_be_recorded_and_replayed() -> None:
    turns = [utterance(480, gap_ms=3.3)] * 3
    old, recording = record("steady", turns, turn_detection="server_vad")
    once = play_virtual(Replayed(recording), turns, turn_detection="server_vad")
    twice = play_virtual(Replayed(recorded(once, turns)), turns, turn_detection="server_vad")
    assert_equal(old, twice)


@pytest.mark.parametrize("behaviour", ["closes", "failures", "garbage", "late-audio", "odd-bytes", "refuses-session"])
def test_failures_come_back_too(behaviour: str) -> None:
    turns = [utterance(500)] * 4
    old, recording = record(behaviour, turns)
    assert_equal(old, play_virtual(Replayed(recording), turns))


def test_several_replies_to_one_turn_come_back() -> None:
    """Server VAD: a reply that the server broke off, and another at once."""
    turns = [utterance(500, gap_ms=100), utterance(700, gap_ms=100)]

    async def interrupting(wire: Wire) -> None:
        await greet(wire)
        await heard_samples(wire, 12_000)
        await wire.send(created("r1"))
        for _ in range(40):
            await wire.send(audio("r1", tone(20)))
            await sleep_ms(wire, 20)
        await wire.send(done("r1", "cancelled"))
        await wire.send(created("r2"))
        await wire.send(audio("r2", tone(300)))
        await wire.send(done("r2"))
        await heard_samples(wire, 12_000)
        await wire.send(created("r3"))
        await wire.send(audio("r3", tone(300)))
        await wire.send(done("r3"))

    old = play_virtual(interrupting, turns, turn_detection="server_vad")
    new = play_virtual(Replayed(recorded(old, turns)), turns, turn_detection="server_vad")
    assert_equal(old, new)


async def heard_samples(wire: Wire, loud: int) -> None:
    """Read until so many samples came that are not 0."""
    while loud > 0:
        message = await wire.receive()
        pcm = np.frombuffer(base64.b64decode(message["audio"]), dtype="<i2")
        loud -= int(np.count_nonzero(pcm))


# ---- clients that do something else ------------------------------------------------------------------------------


@pytest.mark.parametrize("turn_detection", ["manual", "server_vad"])
def test_other_audio_is_told_in_the_protocols_own_words(turn_detection: str) -> None:
    turns = [utterance(500)] * 2
    _, recording = record("steady", turns, turn_detection=turn_detection)
    other = TurnToSpeak(turns[0].pcm.copy(), turns[0].last_sample, "annotation", turns[0].gap_ns)
    other.pcm[7000] += 1
    new = play_virtual(Replayed(recording), [turns[0], other], turn_detection=turn_detection)
    assert [turn.outcome for turn in new.turns] == ["answered", "refused"]
    assert "the audio of turn 2 is not the recorded one from sample 7000 on" in new.turns[1].detail


@pytest.mark.parametrize("turn_detection", ["manual", "server_vad"])
def test_more_turns_than_recorded_are_refused(turn_detection: str) -> None:
    turns = [utterance(500)] * 3
    _, recording = record("steady", turns[:2], turn_detection=turn_detection)
    new = play_virtual(Replayed(recording), turns, turn_detection=turn_detection)
    assert [turn.outcome for turn in new.turns] == ["answered", "answered", "refused"]
    assert "2 turns" in new.turns[2].detail


def test_shorter_audio_is_told_too() -> None:
    turns = [utterance(500)]
    _, recording = record("steady", turns)
    new = play_virtual(Replayed(recording), [utterance(400)])
    assert "9600 samples of audio; the recording has 12000" in new.turns[0].detail


@pytest.mark.parametrize(("then", "now"), [("manual", "server_vad"), ("server_vad", "manual")])
def test_a_client_that_wants_turns_to_end_otherwise_is_refused(then: str, now: str) -> None:
    turns = [utterance(500)]
    _, recording = record("steady", turns, turn_detection=then)
    new = play_virtual(Replayed(recording), turns, turn_detection=now)
    assert new.turns[0].outcome == "refused"
    assert "in the recording" in new.turns[0].detail


def test_what_cannot_be_replayed_says_so() -> None:
    turns = [utterance(500)]
    old, _ = record("steady", turns)
    received = bytes(old.record.received)
    events = old.record.log()

    def again(log: list[AnyEvent], data: bytes, clips: dict[int, Any]) -> Recording:
        return recording_of("d0001", log, data, clips, OpenAIRealtimeInterpreter())

    with pytest.raises(SetupError, match=r"received\.bin of d0001 is shorter than its log says"):
        again(events, received[:-1], {0: turns[0].pcm})
    with pytest.raises(SetupError, match="the audio of turn 1 of d0001 is not the one of its log"):
        again(events, received, {0: turns[0].pcm[:-1]})
    with pytest.raises(SetupError, match="no beginning"):
        again(events[1:], received, {0: turns[0].pcm})
    newer = msgspec.structs.replace(events[0], version=99)
    with pytest.raises(SetupError, match="version 99; this program reads 1"):
        again([newer, *events[1:]], received, {0: turns[0].pcm})
    refused = [events[0], GaveUp(events[0].t_ns, 0, "transport", "nobody listens at ws://x")]
    with pytest.raises(SetupError, match="nothing to replay: nobody listens"):
        again(refused, b"", {})
