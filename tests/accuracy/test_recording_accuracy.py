"""Marked audio that the metronome played is found in recording.flac where the event log says, by cross-correlation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from harness.results import recording
from metrics.instants import hear
from servers.models.behaviour import load_behaviour
from servers.models.metronome import Sound
from sessions.clock import NS_PER_MS, NS_PER_S, samples_to_ns
from tests.servers.test_attentive_metronome import asked, barge_in, behave, play, started
from tests.support.dialogues import Played

RATE = 24_000
MARKED = (
    "reply: {delay_ms: 173, duration_ms: 2500, packet_ms: 30, pace: %s, leading_silence_ms: 400,"
    " leading_noise_dbfs: -20, gaps: [{before_packet: 60, ms: 317}]}\n"
)
"""Its first 400 ms are seeded noise, which is like itself at one place only."""
Lane = NDArray[np.float64]


def found_ns(lane: Lane, mark: Lane, near_ns: int) -> int:
    """Where `mark` lies in `lane` within a second of `near_ns`, ns after the lane's first sample."""
    first = max(0, round((near_ns - NS_PER_S) * RATE / NS_PER_S))
    stretch = lane[first : first + 2 * RATE + len(mark)]
    size = len(stretch) + len(mark) - 1
    likeness = np.fft.irfft(np.fft.rfft(stretch, size) * np.conj(np.fft.rfft(mark, size)), size)
    return samples_to_ns(first + int(np.argmax(likeness[: len(stretch) - len(mark) + 1])), RATE)


def recorded(played: Played, folder: Path) -> Lane:
    """(samples, 2): the file as it was written."""
    pcm = asked().pcm
    clips = {turn.turn: pcm for turn in started(played)}
    assert recording.write(folder, played.derived.conversation, clips, played.derived.closed_ns)
    lanes, rate_hz = soundfile.read(folder / "recording.flac")
    assert rate_hz == RATE
    return np.asarray(lanes, dtype=np.float64)


@pytest.mark.parametrize("pace", ["realtime", "burst"])
@pytest.mark.parametrize("turn_detection", ["manual", "server_vad"])
def test_marks_lie_where_the_log_says(tmp_path: Path, turn_detection: str, pace: str) -> None:
    behaviour = behave(tmp_path, MARKED % pace)
    turns = [asked(), barge_in(1234.5), asked(), barge_in(777)]
    played, _ = play(behaviour, turns, turn_detection)
    assert [turn.outcome for turn in played.turns] == ["interrupted", "answered"] * 2
    lanes, ready_ns = recorded(played, tmp_path), played.derived.conversation.ready_ns
    assert ready_ns is not None
    mark = np.asarray(Sound(load_behaviour(behaviour).reply).pcm(0, 9600), dtype=np.float64)
    for reply in played.derived.conversation.replies:
        heard = hear(reply, RATE)
        first_ns = heard.arrivals[0].t_ns - ready_ns
        assert abs(found_ns(lanes[:, 1], mark, first_ns) - first_ns) <= NS_PER_MS
        if reply.flushed_ns is not None:  # nothing of it is left after the flush, and all of it is there before
            cut = (reply.flushed_ns - ready_ns) * RATE // NS_PER_S
            assert not lanes[cut + 1 : cut + RATE // 20, 1].any()
            assert lanes[cut - RATE // 200 : cut, 1].any()
    own = asked().pcm.astype(np.float64)
    for turn in started(played):
        start_ns = turn.start_ns - ready_ns
        assert abs(found_ns(lanes[:, 0], own, start_ns) - start_ns) <= NS_PER_MS
