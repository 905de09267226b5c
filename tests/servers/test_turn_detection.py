"""Turn detection: the state machine, its runner, and server VAD as a client sees it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
import pytest

from servers.engines.energy import EnergyDetector
from servers.listening import Listener
from servers.models.behaviour import Behaviour, ReplyPlan
from servers.models.metronome import MetronomeServer
from servers.speech_model import Pcm
from servers.vad import SpeechStarted, SpeechStopped, TurnDetection, TurnDetector, VadEvent
from tests.support.listening_model import ListeningServer
from tests.support.realtime_client import Json, MemoryClient, in_memory, refused, silence, tone, types
from tests.support.virtual_time import VirtualClock, run_virtual

RATE_HZ = 24_000
Talk = Callable[[MemoryClient], Awaitable[None]]


# ---- the state machine ---------------------------------------------------------------------------------------------


class Scripted:
    """A detector that reads its probability off the frame: the first sample in thousandths. Frames of 20 ms."""

    def __init__(self, rate_hz: int = RATE_HZ) -> None:
        self.rate_hz = rate_hz
        self.frame_samples = rate_hz // 50
        self.frames = 0

    def probability(self, frame: Pcm) -> float:
        assert len(frame) == self.frame_samples
        self.frames += 1
        return int(frame[0]) / 1000

    def reset(self) -> None: ...


def frames(*probabilities: float) -> Pcm:
    return np.repeat(np.array([round(1000 * p) for p in probabilities], dtype=np.int16), 480)


def judged(pcm: Pcm, settings: TurnDetection | None = None, *, origin: int = 0, cut: int = 0) -> list[VadEvent]:
    turns = TurnDetector(Scripted(), settings or TurnDetection(), rate_hz=RATE_HZ, origin=origin)
    pieces = [pcm[at : at + cut] for at in range(0, len(pcm), cut)] if cut else [pcm]
    return [event for piece in pieces for event in turns.feed(piece)]


QUICK = TurnDetection(silence_duration_ms=60)


@pytest.mark.parametrize(
    ("probabilities", "expected"),
    [
        ([0.0] * 20, []),
        ([1.0, 1.0], []),  # 40 ms are a click
        ([1.0, 1.0, 0.0, 1.0, 1.0], []),
        ([0.0, 1.0, 1.0, 1.0], [SpeechStarted(480)]),
        ([1.0] * 3 + [0.0] * 2 + [1.0] + [0.0] * 2, [SpeechStarted(0)]),
        ([1.0] * 3 + [0.0] * 3, [SpeechStarted(0), SpeechStopped(6 * 480)]),
        # Below the threshold, but not by enough to be silence; and then it is.
        ([0.6] * 3 + [0.4] * 10 + [0.3] * 3, [SpeechStarted(0), SpeechStopped(16 * 480)]),
        ([0.49] * 10, []),
    ],
)
def test_starts_and_stops(probabilities: list[float], expected: list[VadEvent]) -> None:
    assert judged(frames(*probabilities), QUICK) == expected


def test_positions_count_from_the_origin_and_do_not_depend_on_the_cuts() -> None:
    pcm = frames(*[0.0] * 7, *[1.0] * 20, *[0.0] * 30, *[1.0] * 9, *[0.0] * 26)
    whole = judged(pcm, origin=1000)
    assert [event.sample for event in whole] == [1000 + n * 480 for n in (7, 52, 57, 91)]
    for cut in (1, 7, 479, 480, 481, 5000):
        assert judged(pcm, origin=1000, cut=cut) == whole


@pytest.mark.parametrize("threshold", [0.1, 0.5, 0.9])
def test_the_threshold_is_the_probabilitys(threshold: float) -> None:
    settings = TurnDetection(threshold=threshold)
    assert judged(frames(*[threshold - 0.01] * 10), settings) == []
    assert judged(frames(*[threshold] * 10), settings) == [SpeechStarted(0)]


@pytest.mark.parametrize("rate_hz", [8_000, 16_000, 24_000, 48_000])
def test_positions_are_those_of_the_audio_whatever_the_detectors_rate(rate_hz: int) -> None:
    turns = TurnDetector(EnergyDetector(rate_hz), TurnDetection(), rate_hz=RATE_HZ, origin=0)
    pcm = np.concatenate([silence(1000), tone(1000), silence(1000)])
    events = [event for at in range(0, len(pcm), 480) for event in turns.feed(pcm[at : at + 480])]
    assert [type(event) for event in events] == [SpeechStarted, SpeechStopped]
    # To one frame of 10 ms, which is as fine as the detector looks.
    assert abs(events[0].sample - 24_000) <= 240
    assert abs(events[1].sample - 60_000) <= 480


async def test_a_slow_detector_falls_behind_in_order_and_holds_nobody_up() -> None:
    """In a thread: what is fed meanwhile waits and is judged in one go; positions stay exact."""
    judging, go_on = threading.Event(), threading.Event()

    class Slow(Scripted):
        def probability(self, frame: Pcm) -> float:
            judging.set()
            go_on.wait()
            return super().probability(frame)

    seen: list[VadEvent] = []
    heard: list[int] = []

    async def on_event(event: VadEvent, _: TurnDetection) -> None:
        seen.append(event)

    detector = Slow()
    listener = Listener(
        detector, QUICK, on_event=on_event, on_progress=lambda at, _: heard.append(at), rate_hz=RATE_HZ, origin=0
    )
    pcm = frames(0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0)
    for at in range(0, len(pcm), 480):
        await listener.feed(pcm[at : at + 480])
        while not judging.is_set():
            await asyncio.sleep(0.001)
    assert seen == [], "the loop goes on while the detector is at work"
    go_on.set()
    await listener.drain()
    assert seen == [SpeechStarted(480), SpeechStopped(7 * 480)]
    assert (detector.frames, heard[-1]) == (8, 8 * 480)
    await listener.aclose()


async def test_a_detector_that_breaks_is_told_to_whoever_feeds_it() -> None:
    class Broken(Scripted):
        def probability(self, frame: Pcm) -> float:
            raise RuntimeError("no model")

    async def on_event(event: VadEvent, _: TurnDetection) -> None:
        raise AssertionError

    listener = Listener(Broken(), QUICK, on_event=on_event, on_progress=lambda *_: None, rate_hz=RATE_HZ, origin=0)
    await listener.feed(frames(1.0))
    await listener.drain()
    with pytest.raises(RuntimeError, match="no model"):
        await listener.feed(frames(1.0))
    await listener.aclose()


# ---- server VAD ----------------------------------------------------------------------------------------------------


def with_vad(hold: Talk, *, settings: Json | None = None, **fields: Any) -> None:
    async def main(clock: VirtualClock) -> None:
        server = MetronomeServer(Behaviour(reply=ReplyPlan(**fields)), clock)
        async with in_memory(server, clock) as client:
            await client.session({"type": "server_vad", **(settings or {})})
            await hold(client)

    run_virtual(main)


def test_the_server_answers_only_after_it_has_received_the_silence() -> None:
    async def hold(client: MemoryClient) -> None:
        await client.say(np.concatenate([silence(1000), tone(600), silence(499)]))
        assert types(client.unread()) == ["input_audio_buffer.speech_started"]
        # Hours may pass: what was not received is no silence.
        await asyncio.sleep(3600)
        assert client.unread() == []
        await client.say(silence(20))
        events = await client.until("response.done")
        assert types(events)[:5] == [
            "input_audio_buffer.speech_stopped",
            "input_audio_buffer.committed",
            "conversation.item.added",
            "conversation.item.done",
            "response.created",
        ]
        assert events[0]["audio_end_ms"] == 2100
        started = next(m for _, m in client.received if m["type"] == "input_audio_buffer.speech_started")
        assert started["audio_start_ms"] == 700
        assert started["item_id"] == events[0]["item_id"] == events[1]["item_id"] == events[2]["item"]["id"]

    with_vad(hold)


@pytest.mark.parametrize("silence_ms", [200, 500, 1200])
def test_the_reply_counts_from_the_decision(silence_ms: int) -> None:
    async def hold(client: MemoryClient) -> None:
        start_ns = client.clock.now_ns()
        saying = asyncio.create_task(client.say(np.concatenate([tone(500), silence(3000)])))
        await client.event("input_audio_buffer.speech_stopped")
        decided_ns = client.clock.now_ns()
        assert decided_ns - start_ns == (500 + silence_ms) * 1_000_000
        await client.event("response.output_audio.delta")
        assert client.clock.now_ns() - decided_ns == 300_000_000
        await saying

    with_vad(hold, settings={"silence_duration_ms": silence_ms}, delay_ms=300)


def test_audio_clock_goes_on_over_turns_and_a_clear() -> None:
    async def hold(client: MemoryClient) -> None:
        turn = np.concatenate([silence(500), tone(500), silence(1000)])
        await client.say(turn)
        await client.say(turn)
        starts = [m["audio_start_ms"] for _, m in client.received if m["type"] == "input_audio_buffer.speech_started"]
        assert starts == [200, 2200]
        await client.send("input_audio_buffer.clear")
        await client.say(turn)
        starts = [m["audio_start_ms"] for _, m in client.received if m["type"] == "input_audio_buffer.speech_started"]
        assert starts[2] == 4200

    with_vad(hold, duration_ms=100)


def test_barge_in_cancels_at_once() -> None:
    async def hold(client: MemoryClient) -> None:
        await client.say(np.concatenate([tone(500), silence(1000)]))
        await client.event("response.output_audio.delta")
        await client.say(tone(100))
        events = client.unread()
        kinds = types(events)
        started = kinds.index("input_audio_buffer.speech_started")
        after = kinds[started + 1 :]
        assert after[-1] == "response.done"
        assert "response.output_audio.delta" not in after
        done = events[-1]["response"]
        assert done["status_details"] == {"type": "cancelled", "reason": "turn_detected"}
        instants = {m["type"]: t for t, m in client.received}
        assert instants["response.done"] == instants["input_audio_buffer.speech_started"]
        await asyncio.sleep(20)
        assert client.unread() == [], "nothing of the cancelled reply may follow"
        await client.say(silence(600))
        events = await client.until("response.done")
        assert events[-1]["response"]["status"] == "completed"

    with_vad(hold, duration_ms=10_000)


def test_interruption_can_be_switched_off() -> None:
    async def hold(client: MemoryClient) -> None:
        await client.say(np.concatenate([tone(500), silence(1000)]))
        await client.event("response.output_audio.delta")
        await client.say(np.concatenate([tone(300), silence(600)]))
        events = client.unread()
        assert "response.done" not in types(events)
        [error] = [event["error"] for event in events if event["type"] == "error"]
        assert error["code"] == "conversation_already_has_active_response"
        assert (await client.event("response.done"))["response"]["status"] == "completed"

    with_vad(hold, settings={"interrupt_response": False}, duration_ms=4000)


def test_responses_can_be_left_to_the_client() -> None:
    async def hold(client: MemoryClient) -> None:
        await client.say(np.concatenate([tone(500), silence(1000)]))
        assert types(client.unread())[-1] == "conversation.item.done"
        await client.send("response.create")
        await client.event("response.done")

    with_vad(hold, settings={"create_response": False})


def test_a_manual_commit_takes_the_speech_under_way() -> None:
    async def hold(client: MemoryClient) -> None:
        assert (await refused(client, "input_audio_buffer.commit"))["code"] == "input_audio_buffer_commit_empty"
        await client.say(silence(1000))
        assert (await refused(client, "input_audio_buffer.commit"))["code"] == "input_audio_buffer_commit_empty"
        await client.say(tone(500))
        started = await client.event("input_audio_buffer.speech_started")
        await client.send("input_audio_buffer.commit")
        assert (await client.event("input_audio_buffer.committed"))["item_id"] == started["item_id"]
        await client.say(silence(2000))
        assert "input_audio_buffer.speech_stopped" not in types(client.unread())

    with_vad(hold)


def test_silence_is_not_kept() -> None:
    async def main(clock: VirtualClock) -> None:
        server = ListeningServer()
        async with in_memory(server, clock) as client:
            await client.session({"type": "server_vad"})
            for _ in range(5):
                await client.append(silence(60_000))
            hearing = client.connection._hearing  # what it holds can be seen nowhere else
            assert hearing._buffer.held_samples <= 24_000
            await client.append(np.concatenate([tone(500), silence(600)]))
            await client.event("response.done")
            assert len(server.told.turns[0].pcm) == (300 + 500 + 500) * 24

    run_virtual(main)


def test_turn_detection_can_change_in_mid_session() -> None:
    async def hold(client: MemoryClient) -> None:
        await client.session({"type": "server_vad", "silence_duration_ms": 300})
        await client.say(np.concatenate([tone(500), silence(400)]))
        await client.event("response.done")
        await client.session(None)
        await client.say(np.concatenate([tone(500), silence(1000)]))
        assert client.unread() == []
        await client.send("input_audio_buffer.commit")
        await client.event("input_audio_buffer.committed")

    with_vad(hold)
