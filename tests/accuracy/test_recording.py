"""The stereo recording tells the same instants as the event log, under stalls, gaps and bursts."""

from __future__ import annotations

import numpy as np
import pytest

from harness.results import recording
from sessions.clock import NS_PER_MS, NS_PER_S
from sessions.events import Ended, TurnStarted
from tests.support.dialogues import Played, play_virtual, utterance
from tests.support.peers import Peer, Wire, audio, created, done, greet, request, sleep_ms, tone

RATE = 24_000


def render(played: Played) -> np.ndarray[tuple[int, int], np.dtype[np.int16]]:
    clips = {
        turn.index: tone((turn.last_sample + 1) / 24)[: turn.last_sample + 1]
        for turn in played.derived.conversation.turns
    }
    return recording.stereo(played.derived.conversation, clips, played.derived.closed_ns)


def index(played: Played, t_ns: int) -> int:
    ready_ns = played.derived.conversation.ready_ns
    assert ready_ns is not None
    return round((t_ns - ready_ns) * RATE / NS_PER_S)


def starts(lane: np.ndarray[tuple[int], np.dtype[np.int16]], quiet: int = 2_400) -> list[int]:
    """Where sound begins after at least `quiet` samples of silence (or at the beginning)."""
    loud = np.flatnonzero(lane)
    return [int(k) for k, before in zip(loud, np.r_[-quiet - 1, loud[:-1]], strict=True) if k - before > quiet]


async def stalls(wire: Wire) -> None:
    """Holds two seconds of audio back and releases them at once, three times."""
    await greet(wire)
    await request(wire)
    await wire.send(created("r"))
    for _ in range(3):
        await sleep_ms(wire, 2_500)
        for _ in range(20):
            await wire.send(audio("r", tone(100)))
    await wire.send(done("r"))
    await wire.receive()


async def sentences(wire: Wire) -> None:
    """Three sentences seven seconds apart, with no user audio between."""
    await greet(wire)
    await request(wire)
    for k in range(3):
        await wire.send(created(f"r{k}"))
        await wire.send(audio(f"r{k}", tone(800)))
        if k < 2:
            await sleep_ms(wire, 7_000)
        else:
            await wire.send(done(f"r{k}"))
    for k in range(2):
        await wire.send(done(f"r{k}"))
    await wire.receive()


async def bursts(wire: Wire) -> None:
    """Thirty seconds of audio within one."""
    await greet(wire)
    await request(wire)
    await wire.send(created("r"))
    for _ in range(100):
        await wire.send(audio("r", tone(300)))
        await sleep_ms(wire, 10)
    await wire.send(done("r"))
    await wire.receive()


@pytest.mark.parametrize("peer", [stalls, sentences, bursts])
def test_its_length_is_the_later_of_close_and_end_of_play_out(peer: Peer) -> None:
    played = play_virtual(peer)
    lanes = render(played)
    ended = next(e for e in played.record.events if isinstance(e, Ended))
    heard_end = int(np.flatnonzero(lanes[:, 1])[-1]) + 1
    assert abs(len(lanes) - max(index(played, ended.t_ns), heard_end)) <= 480


def test_the_user_is_where_the_log_says() -> None:
    played = play_virtual(stalls, [utterance(700)])
    lanes = render(played)
    turn = next(e for e in played.record.events if isinstance(e, TurnStarted))
    assert starts(lanes[:, 0]) == [index(played, turn.start_ns)]
    assert np.flatnonzero(lanes[:, 0])[-1] == index(played, turn.speech_end_ns) - 1


def test_stalls_are_silence_and_are_counted_once() -> None:
    """Each burst of 2 s is heard for 2 s; the 0.5 s until the next is silence."""
    played = play_virtual(stalls)
    lanes = render(played)
    first = played.turns[0].instants_ns["first_packet"]
    expected = [index(played, first + k * 2_500 * NS_PER_MS) for k in range(3)]
    assert all(abs(a - b) <= 24 for a, b in zip(starts(lanes[:, 1]), expected, strict=True))
    assert abs(np.count_nonzero(np.abs(lanes[:, 1]) > 0) / RATE - 6.0) < 0.05
    assert played.ms(0, "underruns_b0") == 2.0
    assert played.ms(0, "underrun_b0_ms") == 1_000.0


def test_sentences_keep_their_distance() -> None:
    played = play_virtual(sentences)
    found = starts(render(played)[:, 1])
    assert np.allclose(np.diff(found), 7 * RATE, atol=24)


def test_a_burst_is_heard_at_the_speed_of_speech() -> None:
    played = play_virtual(bursts)
    lanes = render(played)
    loud = np.flatnonzero(lanes[:, 1])
    assert abs((loud[-1] - loud[0]) / RATE - 30.0) < 0.01
    packets = played.derived.conversation.replies[0].packets
    assert packets[-1].t_ns - packets[0].t_ns < 1.1 * NS_PER_S, "what arrived when is in the log as well"
