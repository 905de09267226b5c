"""What `duologue analyze` notes of a lane in which its detector hears nobody."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import soundfile

from harness.analyze.hearing import listen
from harness.analyze.inputs import Sample, open_lanes
from harness.from_recording.segments import Stretch
from sessions.audio import FloatPcm
from tests.support.peers import tone


def test_a_lane_with_sound_and_no_speech_is_told_apart_from_a_silent_one(tmp_path: Path) -> None:
    sound, quiet = tone(500), np.zeros(12_000, dtype=np.int16)
    call = tmp_path / "call.wav"
    soundfile.write(call, np.column_stack([quiet, sound]), 24_000)

    def deaf(blocks: Iterable[FloatPcm], rate_hz: int) -> list[Stretch]:
        assert sum(map(len, blocks)) == rate_hz // 2
        return []

    user, agent = (list(listen(lane, deaf).notes()) for lane in open_lanes(Sample("call", call, call)))
    assert user == ["the user's lane (call.wav, channel 0) is silent"]
    assert agent == [
        "the detector hears no speech in the agent's lane (call.wav, channel 1), which is not silent: "
        "--method energy-1 goes by level alone"
    ]
