"""Interruptions: how soon the agent is quiet, and how much of what it said was heard.

The reply that is interrupted: B: the last one begun before the user's onset whose first audible sample had been heard
by then and whose last had not. D and audio alone: the agent's stretch that holds the onset.

barge_in_stop_ms: B, D: from the user's first audible sample to the end of heard audio: the flush, where it cut audio
off, else the last audible sample; 0 where no more was heard after the onset. A, C: from the client's cancel to the last
packet of that reply after it, 0 where none came after it, or where the reply was complete and no cancel was sent.
Unavailable where the agent went on beyond the window of `interruption_ignored` and was never cut off.

interruption_ignored = the agent was heard for more than 2 000 ms after the user's onset.

interrupted_heard_ms, interrupted_generated_ms: of that reply's audio, what play-out at B = 0 had heard, and all of it.
"""

from __future__ import annotations

from metrics.result import Measured, Unavailable, Value
from metrics.spans import Span
from metrics.turn_taking.base import INTERRUPTION, TurnTakingMeasure, yes
from metrics.turn_taking.lanes import Lanes, Log, Sound, Talk
from sessions.clock import NS_PER_MS

WINDOW_NS = 2000 * NS_PER_MS
_EARLY_NS = 100 * NS_PER_MS
"""The client cancels before it sends, so a cancel may lie a little before the interruption's first sample."""
NOT_SPEAKING = "the agent was not speaking when the user interrupted"
NOTHING_DROPPED = "the client neither cancelled nor dropped a reply"
WENT_ON = f"the agent did not stop within {WINDOW_NS // NS_PER_MS} ms"


def _interrupted(log: Log, sound: Sound) -> Talk | None:
    """The reply that was being said at the onset."""
    t_ns = sound.onset_ns
    said = [
        talk
        for talk in log.talks
        if talk.whole
        and talk.created_ns < t_ns
        and talk.whole[0].start_ns <= t_ns < talk.whole[-1].end_ns
        and (talk.cut_ns is None or talk.cut_ns > t_ns)
    ]
    return said[-1] if said else None


def _dropped(log: Log, sound: Sound) -> Talk | None:
    """The reply that the client itself stopped for this sound."""
    window = Span(sound.start_ns - _EARLY_NS, sound.end_ns)
    stopped = [talk for talk in log.talks if any(window.holds(t) for t in (talk.cancelled_ns, talk.cut_ns) if t)]
    return stopped[-1] if stopped else None


def _target(lanes: Lanes, sound: Sound) -> Talk | None:
    if lanes.log is None:
        return None
    return _interrupted(lanes.log, sound) if lanes.why_client_ends() is None else _dropped(lanes.log, sound)


def _silent_ns(lanes: Lanes, sound: Sound) -> int | None:
    """When the agent was no longer heard; None where it was not speaking at the onset."""
    if lanes.log is None:
        held = next((stretch for stretch in lanes.agent if stretch.holds(sound.onset_ns)), None)
        return None if held is None else held.end_ns
    talk = _target(lanes, sound)
    return None if talk is None else max(sound.onset_ns, talk.stops_ns)


def _stop(lanes: Lanes, sound: Sound) -> Measured:
    if lanes.why_client_ends() is not None:
        return _after_cancel(_target(lanes, sound))
    silent_ns, talk = _silent_ns(lanes, sound), _target(lanes, sound)
    if silent_ns is None:
        return Unavailable(NOT_SPEAKING)
    was_cut = talk is not None and talk.cut_ns is not None
    if silent_ns - sound.onset_ns > WINDOW_NS and not was_cut:
        return Unavailable(WENT_ON)
    return Value((silent_ns - sound.onset_ns) / NS_PER_MS)


def _after_cancel(talk: Talk | None) -> Measured:
    if talk is None:
        return Unavailable(NOTHING_DROPPED)
    if talk.cancelled_ns is None:
        return Value(0.0)
    return Value(max(0, talk.last_arrival_ns - talk.cancelled_ns) / NS_PER_MS)


def _ignored(lanes: Lanes, sound: Sound) -> Measured:
    silent_ns = _silent_ns(lanes, sound)
    return Unavailable(NOT_SPEAKING) if silent_ns is None else yes(silent_ns - sound.onset_ns > WINDOW_NS)


def _heard(lanes: Lanes, sound: Sound) -> Measured:
    talk = _target(lanes, sound)
    return Unavailable(_why_none(lanes)) if talk is None else Value(talk.heard_ms)


def _generated(lanes: Lanes, sound: Sound) -> Measured:
    talk = _target(lanes, sound)
    return Unavailable(_why_none(lanes)) if talk is None else Value(talk.generated_ms)


def _why_none(lanes: Lanes) -> str:
    return NOT_SPEAKING if lanes.why_client_ends() is None else NOTHING_DROPPED


STOP = TurnTakingMeasure(
    "barge_in_stop_ms", "1", "ms", "lower", "end of heard audio − user's first audible sample", INTERRUPTION, _stop
)
IGNORED = TurnTakingMeasure(
    "interruption_ignored",
    "1",
    "yes",
    "lower",
    f"heard for more than {WINDOW_NS // NS_PER_MS} ms after the user's onset",
    INTERRUPTION,
    _ignored,
    asks_server=True,
)
HEARD = TurnTakingMeasure(
    "interrupted_heard_ms",
    "1",
    "ms",
    "none",
    "audio of the interrupted reply that was heard",
    INTERRUPTION,
    _heard,
    needs_log=True,
)
GENERATED = TurnTakingMeasure(
    "interrupted_generated_ms",
    "1",
    "ms",
    "none",
    "all audio of the interrupted reply",
    INTERRUPTION,
    _generated,
    needs_log=True,
)
