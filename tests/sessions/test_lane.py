"""Where the samples of a microphone's lane lie in time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from harness.microphone.lane_clock import LaneClock
from harness.results.heard_lane import heard_lane
from sessions import audio
from sessions.clock import NS_PER_MS, NS_PER_S
from sessions.errors import BadAudio
from sessions.events import LaneAt, Opened
from sessions.lane import LANE_FILE, LaneTimes

RATE_HZ = 24_000
FRAME = 480


def anchor(sample: int, at_ns: int, *, waited_ns: int = 0, starts: bool = False) -> LaneAt:
    return LaneAt(t_ns=at_ns, sample=sample, at_ns=at_ns, spread_ns=0, waited_ns=waited_ns, starts=starts)


def test_between_anchors_time_runs_evenly_and_beyond_them_at_the_nominal_rate() -> None:
    times = LaneTimes([anchor(0, 1000, starts=True), anchor(24_000, 1000 + NS_PER_S + 240_000)], RATE_HZ)
    assert times.at_ns(0) == 1000
    assert times.at_ns(12_000) == 1000 + NS_PER_S // 2 + 120_000
    assert times.at_ns(36_000) == 1000 + NS_PER_S + 240_000 + NS_PER_S // 2
    assert times.end_ns(23_999) == times.at_ns(23_999) + 41_667
    assert times.drift_ppm is None  # a second is too little


def test_what_was_lost_is_a_gap_and_no_slow_clock() -> None:
    anchors = [anchor(0, 0, starts=True), anchor(240_000, 10 * NS_PER_S)]
    anchors += [anchor(250_000, 11 * NS_PER_S, starts=True), anchor(490_000, 21 * NS_PER_S)]
    times = LaneTimes(anchors, RATE_HZ)
    assert times.at_ns(249_999) == 10 * NS_PER_S + 416_625_000
    assert times.at_ns(250_000) == 11 * NS_PER_S
    assert times.end_ns(249_999) < times.at_ns(250_000)
    assert times.drift_ppm == 0


def test_a_lane_that_was_heard_before_it_was_there_was_earlier() -> None:
    times = LaneTimes([anchor(0, 5 * NS_PER_MS, waited_ns=-3 * NS_PER_MS)], RATE_HZ)
    assert (times.at_ns(0), times.early_ns) == (2 * NS_PER_MS, 3 * NS_PER_MS)
    late = [anchor(24_000 * n, n * NS_PER_S, waited_ns=-(40 if n == 7 else 1) * NS_PER_MS) for n in range(20)]
    assert LaneTimes(late, RATE_HZ).early_ns == NS_PER_MS  # one second in twenty is an accident
    assert LaneTimes(late, RATE_HZ).unsure_ns == 39 * NS_PER_MS  # and admitted


def test_stamps_that_jitter_come_to_anchors_that_do_not() -> None:
    dice = np.random.default_rng(2)
    clock = LaneClock(RATE_HZ)
    for frame in range(500):
        at_ns = frame * 20 * NS_PER_MS + round(dice.exponential(0.4) * NS_PER_MS)
        clock.frame(FRAME, at_ns, at_ns + 30 * NS_PER_MS, lost=False)
    anchors = clock.anchors
    assert [one.starts for one in anchors] == [True] + [False] * (len(anchors) - 1)
    times = clock.times()
    for sample in range(0, 500 * FRAME, 7777):
        assert abs(times.at_ns(sample) - sample * NS_PER_S / RATE_HZ - 0.28 * NS_PER_MS) < 0.3 * NS_PER_MS
    assert min(one.waited_ns for one in anchors) == 10 * NS_PER_MS
    assert abs(times.drift_ppm or 0) < 30


def test_a_lane_that_is_lost_again_and_again_has_a_beginning_each_time() -> None:
    clock = LaneClock(RATE_HZ)
    lost = {3, 60, 64, 66}
    late_ns = 0
    for frame in range(130):
        late_ns += 100 * NS_PER_MS * (frame in lost)
        at_ns = frame * 20 * NS_PER_MS + late_ns
        clock.frame(FRAME, at_ns, at_ns + 20 * NS_PER_MS, lost=frame in lost)
    clock.close(0)
    assert [one.sample // FRAME for one in clock.anchors if one.starts] == [0, 3, 60, 64, 66]
    for frame in range(130):
        passed = sum(one <= frame for one in lost)
        assert clock.times().at_ns(frame * FRAME) == frame * 20 * NS_PER_MS + 100 * NS_PER_MS * passed


def test_a_lane_is_put_on_our_clock_without_a_sample_out_of_place(tmp_path: Path) -> None:
    """200 millionths too slow, and half a second lost after ten."""
    pcm = np.random.default_rng(1).integers(-20_000, 20_000, 20 * RATE_HZ).astype(np.int16)
    audio.write_flac(tmp_path / LANE_FILE, pcm, RATE_HZ)
    slow = 1.0002

    def at_ns(sample: int) -> int:
        return round(sample * NS_PER_S / RATE_HZ * slow) + (NS_PER_S // 2 if sample >= 240_000 else 0)

    opened = Opened(t_ns=0, wall_time="", protocol="openai-realtime", protocol_class="B", rate_hz=RATE_HZ)
    marks = [anchor(sample, at_ns(sample), starts=sample in (0, 240_000)) for sample in range(0, 480_000, 24_000)]
    pieces = heard_lane(tmp_path, [opened, *marks])
    assert [start_ns for start_ns, _ in pieces] == [0, at_ns(240_000)]
    for (start_ns, piece), first in zip(pieces, (0, 240_000), strict=True):
        for index in range(0, 216_000, 999):  # up to the last anchor: nothing is known of the drift beyond it
            t_ns = start_ns + index * NS_PER_S / RATE_HZ - (NS_PER_S // 2 if first else 0)
            sample = int(t_ns * RATE_HZ / NS_PER_S / slow)
            assert piece[index] in pcm[max(0, sample - 1) : sample + 3]
    (tmp_path / LANE_FILE).unlink()
    with pytest.raises(BadAudio, match="duologue check"):
        heard_lane(tmp_path, [opened, *marks])
    assert heard_lane(tmp_path, [opened]) == []
