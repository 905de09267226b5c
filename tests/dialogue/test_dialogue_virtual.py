"""One dialogue on the virtual clock: instants equal to the nanosecond."""

from __future__ import annotations

import json

from clients.dialect import SessionOptions
from clients.events import SessionOpened
from clients.openai_realtime import OpenAIRealtime
from sessions.clock import NS_PER_MS, NS_PER_S, samples_to_ns
from sessions.events import Sent, TurnStarted
from sessions.runs import Limits
from tests.support.dialogues import play_virtual, utterance
from tests.support.peers import Wire, audio, created, done, greet, request, sleep_ms, tone


async def answers(wire: Wire) -> None:
    """80 ms of leading silence, 300 ms after each request."""
    await greet(wire)
    for index in range(1000):
        await request(wire)
        await sleep_ms(wire, 300)
        await wire.send(created(f"r{index}"))
        silence = tone(80) * 0
        await wire.send(audio(f"r{index}", silence))
        await wire.send(audio(f"r{index}", tone(200)))
        await wire.send(done(f"r{index}"))


def test_latencies_are_exact() -> None:
    played = play_virtual(answers, [utterance(), utterance(), utterance(730.5)])
    assert [turn.outcome for turn in played.turns] == ["answered"] * 3
    for turn in range(3):
        assert played.ms(turn, "first_packet_ms") == 300.0
        assert played.ms(turn, "voice_to_voice_ms") == 380.0
        assert played.ms(turn, "silence_padding_ms") == 80.0
        assert played.ms(turn, "commit_to_first_packet_ms") == 300.0
        assert played.ms(turn, "first_packet_from_last_sent_ms") == 300.0
        assert played.ms(turn, "voice_to_voice_b60_ms") == 440.0
        assert played.ms(turn, "send_lateness_max_ms") == 0.0


def test_frames_leave_when_their_last_sample_exists() -> None:
    """Commit exactly at the end of speech; a half-full last frame does not move it."""
    for duration_ms in (1000, 1050):
        played = play_virtual(answers, [utterance(duration_ms)], frame_ms=100)
        start = next(e for e in played.record.events if isinstance(e, TurnStarted))
        frames = [e for e in played.record.events if isinstance(e, Sent) and e.what == "audio"]
        due = [start.start_ns + min((k + 1) * 100, duration_ms) * NS_PER_MS for k in range(len(frames))]
        assert [e.due_ns for e in frames] == due
        assert [e.t_ns for e in frames] == due
        commit = next(e for e in played.record.events if isinstance(e, Sent) and e.what == "commit")
        assert commit.t_ns == start.speech_end_ns == start.start_ns + duration_ms * NS_PER_MS
        assert sum(e.samples for e in frames) == duration_ms * 24


def test_ten_minutes_drift_by_nothing() -> None:
    played = play_virtual(answers, [utterance(10 * 60 * 1000)], limits=Limits(reply_s=5))
    start = next(e for e in played.record.events if isinstance(e, TurnStarted))
    frames = [e for e in played.record.events if isinstance(e, Sent) and e.what == "audio"]
    assert len(frames) == 30_000
    assert all(e.t_ns == start.start_ns + (k + 1) * 20 * NS_PER_MS for k, e in enumerate(frames))
    assert start.speech_end_ns - start.start_ns == 600 * NS_PER_S
    assert played.ms(0, "first_packet_ms") == 300.0


def test_next_turn_waits_for_what_is_heard() -> None:
    played = play_virtual(answers, [utterance(), utterance(gap_ms=250)])
    first, second = (e for e in played.record.events if isinstance(e, TurnStarted))
    heard_to_end = first.speech_end_ns + (300 + 80 + 200) * NS_PER_MS
    assert second.start_ns == heard_to_end + 250 * NS_PER_MS


def test_session_update_asks_for_manual_turns_and_pcm_both_ways() -> None:
    played = play_virtual(answers)
    messages = [json.loads(text) for _, text in played.sent]
    update = messages[0]
    assert update["type"] == "session.update"
    audio_settings = update["session"]["audio"]
    assert audio_settings["input"]["turn_detection"] is None
    assert (
        audio_settings["input"]["format"] == audio_settings["output"]["format"] == {"type": "audio/pcm", "rate": 24000}
    )
    assert [m["type"] for m in messages[-2:]] == ["input_audio_buffer.commit", "response.create"]


def test_the_server_is_asked_for_a_transcript_only_on_request() -> None:
    for model in ("", "whisper-1"):
        dialect = OpenAIRealtime(SessionOptions(transcribe=model))
        messages, _ = dialect.set_up(SessionOpened())
        asked = json.loads(messages[0].text)["session"]["audio"]["input"].get("transcription")
        assert asked == ({"model": model} if model else None)


async def answers_after_silence(wire: Wire) -> None:
    """Answers only after it has received 500 ms of samples at zero, at the instant of the last."""
    import base64

    import numpy as np

    await greet(wire)
    heard = quiet = 0
    while True:
        message = await wire.receive()
        if message["type"] != "input_audio_buffer.append":
            continue
        pcm = np.frombuffer(base64.b64decode(message["audio"]), dtype="<i2")
        loud = np.flatnonzero(pcm)
        if len(loud):
            heard += 1
            quiet = len(pcm) - 1 - int(loud[-1])
        elif heard:
            quiet += len(pcm)
        if heard and quiet >= 12_000:
            await wire.send({"type": "input_audio_buffer.speech_stopped", "item_id": "i", "audio_end_ms": 0})
            await wire.send(created("r"))
            await wire.send(audio("r", tone(100)))
            await wire.send(done("r"))
            heard = quiet = 0


def test_silence_flows_so_that_a_server_vad_can_hear_the_end() -> None:
    """The utterance lies on the lane at the exact sample asked for, and speech end is exact to the sample."""
    played = play_virtual(answers_after_silence, [utterance(503.25, gap_ms=100.7)], turn_detection="server_vad")
    start = next(e for e in played.record.events if isinstance(e, TurnStarted))
    assert played.turns[0].outcome == "answered"
    ready = played.derived.conversation.ready_ns
    assert ready is not None
    first = -(-100_700_000 * 24_000 // NS_PER_S)
    assert start.start_ns == ready + samples_to_ns(first, 24_000)
    end_index = first + start.last_sample + 1
    frames_to_silence = -(-(end_index + 12_000) // 480)
    expected_ms = (ready + frames_to_silence * 20 * NS_PER_MS - start.speech_end_ns) / NS_PER_MS
    assert played.ms(0, "first_packet_ms") == expected_ms
    assert played.ms(0, "server_vad_delay_ms") == expected_ms
    frames = [e for e in played.record.events if isinstance(e, Sent) and e.what == "audio"]
    assert all(e.t_ns == e.due_ns == ready + (k + 1) * 20 * NS_PER_MS for k, e in enumerate(frames))


async def hears_nothing(wire: Wire) -> None:
    await greet(wire)
    while True:
        await wire.receive()


def test_a_turn_whose_end_was_never_noticed_is_named() -> None:
    played = play_virtual(
        hears_nothing, [utterance(), utterance()], turn_detection="server_vad", limits=Limits(idle_s=3)
    )
    assert [turn.outcome for turn in played.turns] == ["time-out", "time-out"]
    assert "no end of turn signalled" in played.turns[0].detail
    assert "not reached" in played.turns[1].detail
