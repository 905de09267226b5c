"""Both at once.

overlap_ms = the user's speech (from onset to `speech_end`, pauses left out) ∩ the agent's heard stretches.
agent_over_user_ms: its part in stretches that began at or after the user's onset; user_over_agent_ms: in those that had
begun before. The two add up to it.
"""

from __future__ import annotations

from metrics.result import Measured, Value
from metrics.spans import common_ns
from metrics.turn_taking.base import ALL_SOUNDS, TurnTakingMeasure
from metrics.turn_taking.lanes import Lanes, Sound
from sessions.clock import NS_PER_MS


def _overlap(lanes: Lanes, sound: Sound) -> Measured:
    return Value(common_ns(sound.speech, lanes.agent) / NS_PER_MS)


def _agent_over_user(lanes: Lanes, sound: Sound) -> Measured:
    later = [heard for heard in lanes.agent if heard.start_ns >= sound.onset_ns]
    return Value(common_ns(sound.speech, later) / NS_PER_MS)


def _user_over_agent(lanes: Lanes, sound: Sound) -> Measured:
    before = [heard for heard in lanes.agent if heard.start_ns < sound.onset_ns]
    return Value(common_ns(sound.speech, before) / NS_PER_MS)


OVERLAP = TurnTakingMeasure(
    "overlap_ms", "1", "ms", "none", "user's speech ∩ agent's heard audio", ALL_SOUNDS, _overlap
)
AGENT_OVER_USER = TurnTakingMeasure(
    "agent_over_user_ms", "1", "ms", "lower", "overlap that the agent began", ALL_SOUNDS, _agent_over_user
)
USER_OVER_AGENT = TurnTakingMeasure(
    "user_over_agent_ms", "1", "ms", "none", "overlap that the user began", ALL_SOUNDS, _user_over_agent
)
