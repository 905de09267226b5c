"""A conversation by microphone: its lane against what was sent of it and what was cut out of it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from harness.check.log import Found, Line
from harness.results.heard_lane import read_lane
from sessions import audio
from sessions.errors import SetupError
from sessions.events import LaneAt, Sent, TurnStarted
from sessions.lane import LANE_FILE
from sessions.runs import PlannedTurn, RunFolder
from sessions.scripts import RATE_HZ


def check_heard(
    run: RunFolder, dialogue_id: str, lines: Sequence[Line], planned: Sequence[PlannedTurn]
) -> Iterator[Found]:
    """Nothing where a script was performed. Clips that cannot be read are told elsewhere."""
    if not any(isinstance(event, LaneAt) for _, event in lines):
        return
    try:
        lane = read_lane(run.dialogue(dialogue_id) / LANE_FILE)
    except SetupError as error:
        yield None, error.what
        return
    flowing = [event for _, event in lines if isinstance(event, Sent) and event.samples and event.turn is None]
    sent = max((event.first_sample + event.samples for event in flowing), default=0)
    if sent > len(lane):
        yield None, f"{LANE_FILE} has {len(lane)} samples; {sent} were sent"
    for number, event in lines:
        if isinstance(event, TurnStarted) and event.lane_sample is not None and event.turn < len(planned):
            if event.rate_hz != RATE_HZ:  # the clip was resampled
                continue
            cut = lane[event.lane_sample : event.lane_sample + event.samples]
            try:
                clip = audio.load(run.clip(planned[event.turn].audio)).pcm
            except SetupError:
                continue
            if not np.array_equal(cut, clip):
                yield number, f"the clip of turn {event.turn + 1} is not what {LANE_FILE} has in its place"
