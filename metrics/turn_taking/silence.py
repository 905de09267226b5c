"""The user says nothing: does the agent stay quiet, or ask again?

Window: from the silence's start to its end + `watch_ns`, or to the user's next sound where that comes first.
stayed_quiet = no reply of the agent, begun in this turn, was heard in it. reprompt_ms = from the silence's start to the
first audible sample of that reply. A reply that the turn before still lacked is the answer to that, not a re-prompt.
"""

from __future__ import annotations

from metrics.result import Measured, Unavailable, Value
from metrics.turn_taking.base import SILENCE, TurnTakingMeasure, yes
from metrics.turn_taking.lanes import Lanes, Sound
from sessions.clock import NS_PER_MS


def _spoke_ns(lanes: Lanes, sound: Sound) -> int | None:
    until_ns = lanes.watched_until_ns(sound)
    if lanes.log is None:
        begun = [heard.start_ns for heard in lanes.agent]
    else:
        talk = lanes.log.answers.get(sound.index)
        begun = [] if talk is None else [heard.start_ns for heard in talk.heard]
    return min((t_ns for t_ns in begun if sound.start_ns <= t_ns < until_ns), default=None)


def _quiet(lanes: Lanes, sound: Sound) -> Measured:
    return yes(_spoke_ns(lanes, sound) is None)


def _reprompt(lanes: Lanes, sound: Sound) -> Measured:
    spoke_ns = _spoke_ns(lanes, sound)
    if spoke_ns is None:
        return Unavailable("the agent stayed quiet")
    return Value((spoke_ns - sound.start_ns) / NS_PER_MS)


STAYED_QUIET = TurnTakingMeasure(
    "stayed_quiet", "1", "yes", "none", "nothing was heard in the silence", SILENCE, _quiet, asks_server=True
)
REPROMPT = TurnTakingMeasure(
    "reprompt_ms", "1", "ms", "none", "the agent's first audible sample − start", SILENCE, _reprompt, asks_server=True
)
