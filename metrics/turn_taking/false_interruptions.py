"""Sounds that should neither stop the agent nor be answered: a backchannel, a cough, a noise.

Window: from the sound's onset to its end + `watch_ns`, or to the user's next sound where that comes first.

false_interruption = the reply that was audible at the onset was cut off in the window: dropped by the client at the
server's word, or cancelled. Class D and audio alone: the stretch that holds the onset ended in it, which an agent that
was about to end does too. Unavailable where the agent was not audible at the onset: there was nothing to stop.

answered_backchannel = a reply to it was heard: one that began in this turn, which the turn before does not lack. Class
D and audio alone: a stretch that began in the window; unavailable where the agent was speaking at the onset.
"""

from __future__ import annotations

from metrics.result import Measured, Unavailable
from metrics.turn_taking.base import NOT_TO_BE_ANSWERED, TurnTakingMeasure, yes
from metrics.turn_taking.lanes import NEEDS_LOG, Lanes, Sound

NOT_SPEAKING = "the agent was not speaking at the sound's onset"


def _stopped(lanes: Lanes, sound: Sound) -> Measured:
    until_ns = lanes.watched_until_ns(sound)
    if lanes.log is None:
        held = next((stretch for stretch in lanes.agent if stretch.holds(sound.onset_ns)), None)
        return Unavailable(NOT_SPEAKING) if held is None else yes(held.end_ns < until_ns)
    said = [talk for talk in lanes.log.talks if talk.is_audible_at(sound.onset_ns)]
    if not said:
        return Unavailable(NOT_SPEAKING)
    cuts_ns = [talk.cut_ns for talk in said if talk.cut_ns is not None]
    return yes(any(sound.onset_ns < cut_ns <= until_ns for cut_ns in cuts_ns))


def _answered(lanes: Lanes, sound: Sound) -> Measured:
    if lanes.log is not None:
        talk = lanes.log.answers.get(sound.index)
        return yes(talk is not None and bool(talk.heard))
    if lanes.is_agent_audible_at(sound.onset_ns):
        return Unavailable(NEEDS_LOG)
    until_ns = lanes.watched_until_ns(sound)
    return yes(any(sound.onset_ns <= heard.start_ns < until_ns for heard in lanes.agent))


FALSE_INTERRUPTION = TurnTakingMeasure(
    "false_interruption",
    "1",
    "yes",
    "lower",
    "a sound that is no interruption stopped the agent",
    NOT_TO_BE_ANSWERED,
    _stopped,
    asks_server=True,
)
ANSWERED = TurnTakingMeasure(
    "answered_backchannel",
    "1",
    "yes",
    "lower",
    "a sound that asks nothing was answered",
    NOT_TO_BE_ANSWERED,
    _answered,
    asks_server=True,
)
