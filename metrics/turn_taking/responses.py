"""Whether speech is answered, how late, and what is said besides.

responded = an audible answer to a turn that expects one. missed = no reply at all, heard or written (audio alone: no
audible answer). Both are unavailable where there is none and the user's next turn that expects a reply began less than
2 000 ms after this one's end: what comes then answers both.

late = voice-to-voice over 2 000 ms. talk_over = voice-to-voice below 0. Both are unavailable without an audible answer.
spurious_speech = the agent was heard in a further reply after the turn's answer, before the user's next turn.
agent_backchannels = the agent's short sounds within the user's speech (`metrics.attribution`), which are no answers.
"""

from __future__ import annotations

from metrics.attribution import PATIENCE_NS, is_agent_backchannel
from metrics.result import Measured, Unavailable, Value
from metrics.turn_taking.base import TO_BE_ANSWERED, TurnTakingMeasure, yes
from metrics.turn_taking.lanes import NEEDS_LOG, Lanes, Sound
from sessions.clock import NS_PER_MS

LATE_NS = 2000 * NS_PER_MS
WENT_ON = f"the user went on within {PATIENCE_NS // NS_PER_MS} ms"
NO_ANSWER = "no audible answer came"


def _responded(lanes: Lanes, sound: Sound) -> Measured:
    if lanes.answer_ns(sound) is None and _went_on(lanes, sound):
        return Unavailable(WENT_ON)
    return yes(lanes.answer_ns(sound) is not None)


def _missed(lanes: Lanes, sound: Sound) -> Measured:
    replied = lanes.answer_ns(sound) is not None if lanes.log is None else sound.index in lanes.log.replied
    return Unavailable(WENT_ON) if not replied and _went_on(lanes, sound) else yes(not replied)


def _went_on(lanes: Lanes, sound: Sound) -> bool:
    """Whether the user left no time for a reply: what comes then is the answer to all that was said."""
    next_ns = lanes.until_ns(sound)
    return next_ns is not None and next_ns - sound.end_ns < PATIENCE_NS


def _late(lanes: Lanes, sound: Sound) -> Measured:
    answer_ns = lanes.answer_ns(sound)
    return Unavailable(NO_ANSWER) if answer_ns is None else yes(answer_ns - sound.end_ns > LATE_NS)


def _talk_over(lanes: Lanes, sound: Sound) -> Measured:
    answer_ns = lanes.answer_ns(sound)
    return Unavailable(NO_ANSWER) if answer_ns is None else yes(answer_ns < sound.end_ns)


def _spurious(lanes: Lanes, sound: Sound) -> Measured:
    if lanes.log is None:
        return Unavailable(NEEDS_LOG)
    return yes(bool(lanes.log.more.get(sound.index)))


def _backchannels(lanes: Lanes, sound: Sound) -> Measured:
    if lanes.log is not None:
        return Value(float(lanes.log.backchannels.get(sound.index, 0)))
    return Value(float(sum(is_agent_backchannel(heard, sound.onset_ns, sound.end_ns) for heard in lanes.agent)))


RESPONDED = TurnTakingMeasure("responded", "1", "yes", "higher", "an audible answer came", TO_BE_ANSWERED, _responded)
MISSED = TurnTakingMeasure("missed", "1", "yes", "lower", "no reply came at all", TO_BE_ANSWERED, _missed)
LATE = TurnTakingMeasure(
    "late", "1", "yes", "lower", f"voice-to-voice over {LATE_NS // NS_PER_MS} ms", TO_BE_ANSWERED, _late
)
TALK_OVER = TurnTakingMeasure("talk_over", "1", "yes", "lower", "voice-to-voice below 0", TO_BE_ANSWERED, _talk_over)
SPURIOUS = TurnTakingMeasure(
    "spurious_speech",
    "1",
    "yes",
    "lower",
    "heard in a further reply after the answer",
    TO_BE_ANSWERED,
    _spurious,
    needs_log=True,
)
BACKCHANNELS = TurnTakingMeasure(
    "agent_backchannels",
    "1",
    "count",
    "none",
    "the agent's short sounds within the user's speech",
    TO_BE_ANSWERED,
    _backchannels,
)
