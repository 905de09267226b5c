"""When frames are due, and what lies on the lane."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
import uvloop
from hypothesis import given
from hypothesis import strategies as st

from clients.transports import Transport
from clients.transports.websocket import open_websocket
from harness.dialogue.pacing import Lane, utterance_frames
from sessions.clock import NS_PER_MS, NS_PER_S, MonotonicClock, ns_to_samples_ceil, samples_to_ns
from sessions.events import Sent
from sessions.runs import Limits
from sessions.secrets import Secrets
from tests.support.dialogues import perform, utterance
from tests.support.peers import Wire, created, done, greet, on_a_socket, request

RATE = 24_000


def ramp(samples: int) -> np.ndarray[tuple[int], np.dtype[np.int16]]:
    return (np.arange(samples) % 30_000 + 1).astype(np.int16)


@given(samples=st.integers(1, 20_000), last=st.integers(0, 19_999), frame=st.sampled_from([160, 441, 480, 2400]))
def test_frames_cover_the_utterance_up_to_its_last_speech_sample(samples: int, last: int, frame: int) -> None:
    pcm, last = ramp(samples), min(last, samples - 1)
    frames = list(utterance_frames(pcm, last, 77, RATE, frame))
    assert np.array_equal(np.concatenate([f.pcm for f in frames]), pcm[: last + 1])
    for f in frames:
        assert f.due_ns == 77 + samples_to_ns(f.first_sample + len(f.pcm), RATE)
    assert frames[-1].due_ns == 77 + samples_to_ns(last + 1, RATE)


@given(
    starts_ns=st.lists(st.integers(0, 2 * NS_PER_S), min_size=1, max_size=3),
    samples=st.integers(1, 5_000),
    frame=st.sampled_from([240, 480, 961]),
)
def test_utterances_lie_on_the_lane_at_the_exact_sample(starts_ns: list[int], samples: int, frame: int) -> None:
    lane = Lane(1_000, RATE, frame)
    placed = []
    position = 0
    for turn, start_ns in enumerate(starts_ns):
        wanted = max(position, start_ns)
        got_ns = lane.place(turn, ramp(samples), 1_000 + wanted)
        assert 0 <= got_ns - (1_000 + wanted) <= NS_PER_S // RATE + 1
        placed.append((got_ns, ns_to_samples_ceil(wanted, RATE)))
        position = wanted + samples_to_ns(samples, RATE) + NS_PER_MS
    total = placed[-1][1] + samples + frame
    frames = [lane.next_frame()[0] for _ in range(total // frame + 1)]
    heard = np.concatenate([f.pcm for f in frames])
    expected = np.zeros(len(heard), dtype=np.int16)
    for _, first in placed:
        expected[first : first + samples] = ramp(samples)
    assert np.array_equal(heard, expected)
    assert [f.due_ns for f in frames] == [1_000 + samples_to_ns((k + 1) * frame, RATE) for k in range(len(frames))]


def test_a_late_request_starts_at_the_first_sample_that_has_not_left() -> None:
    lane = Lane(0, RATE, 480)
    for _ in range(3):
        lane.next_frame()
    assert lane.place(0, ramp(10), 0) == samples_to_ns(3 * 480, RATE)


@pytest.mark.parametrize("loop_factory", [asyncio.SelectorEventLoop, uvloop.new_event_loop])
def test_no_loop_makes_a_frame_leave_early(loop_factory: object) -> None:
    """Uvloop wakes up to a millisecond early; the clock is read again before anything leaves."""

    async def wake_ups() -> list[int]:
        clock = MonotonicClock()
        start_ns = clock.now_ns()
        late = []
        for k in range(60):
            due_ns = start_ns + (k + 1) * 5_300_000
            await clock.sleep_until_ns(due_ns)
            late.append(clock.now_ns() - due_ns)
        return late

    with asyncio.Runner(loop_factory=loop_factory) as runner:  # type: ignore[arg-type]
        late = runner.run(wake_ups())
    assert min(late) >= 0


async def sink(wire: Wire) -> None:
    await greet(wire)
    await request(wire)
    await wire.send(created("r"))
    await wire.send(done("r"))
    await wire.receive()


@pytest.mark.sockets
@pytest.mark.parametrize("loop_factory", [asyncio.SelectorEventLoop, uvloop.new_event_loop])
@pytest.mark.parametrize("turn_detection", ["manual", "server_vad"])
def test_no_frame_leaves_early_on_a_socket(loop_factory: object, turn_detection: str) -> None:
    """20 ms frames to a sink, on each loop, in each class."""

    async def play() -> list[Sent]:
        clock = MonotonicClock()
        async with on_a_socket(sink, clock) as url:

            async def dial() -> Transport:
                return await open_websocket(
                    url, headers={}, clock=clock, timeout_s=5, byte_cap=2**20, secrets=Secrets()
                )

            limits = Limits(idle_s=1, reply_s=1)
            played = await perform(dial, clock, [utterance(1_010)], limits=limits, turn_detection=turn_detection)
        return [event for event in played.record.events if isinstance(event, Sent) and event.due_ns is not None]

    with asyncio.Runner(loop_factory=loop_factory) as runner:  # type: ignore[arg-type]
        frames = runner.run(play())
    assert len(frames) >= 51
    assert all(frame.due_ns is not None and frame.t_ns >= frame.due_ns for frame in frames)
    due = [frame.due_ns or 0 for frame in frames]
    assert due == sorted(due)
