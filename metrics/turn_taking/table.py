"""Every measure of turn-taking: name → "module:object", loaded when used. The order is the order on screen."""

from __future__ import annotations

from functools import cache

from metrics.attribution import AGENT_BACKCHANNEL
from metrics.result import Failed, Measured, Unavailable
from metrics.turn_taking.base import TurnTakingMeasure
from metrics.turn_taking.lanes import Lanes, Sound
from sessions.errors import MetricUnavailable
from sessions.tables import load_a

TURN_TAKING: dict[str, str] = {
    "responded": "metrics.turn_taking.responses:RESPONDED",
    "missed": "metrics.turn_taking.responses:MISSED",
    "late": "metrics.turn_taking.responses:LATE",
    "talk_over": "metrics.turn_taking.responses:TALK_OVER",
    "spurious_speech": "metrics.turn_taking.responses:SPURIOUS",
    "premature_endpoint": "metrics.turn_taking.endpoints:PREMATURE",
    "interruption_ignored": "metrics.turn_taking.stop:IGNORED",
    "false_interruption": "metrics.turn_taking.false_interruptions:FALSE_INTERRUPTION",
    "answered_backchannel": "metrics.turn_taking.false_interruptions:ANSWERED",
    "stayed_quiet": "metrics.turn_taking.silence:STAYED_QUIET",
    "barge_in_stop_ms": "metrics.turn_taking.stop:STOP",
    "interrupted_heard_ms": "metrics.turn_taking.stop:HEARD",
    "interrupted_generated_ms": "metrics.turn_taking.stop:GENERATED",
    "reprompt_ms": "metrics.turn_taking.silence:REPROMPT",
    "overlap_ms": "metrics.turn_taking.overlap:OVERLAP",
    "agent_over_user_ms": "metrics.turn_taking.overlap:AGENT_OVER_USER",
    "user_over_agent_ms": "metrics.turn_taking.overlap:USER_OVER_AGENT",
    "agent_backchannels": "metrics.turn_taking.responses:BACKCHANNELS",
}
CURVE = "pause_curve/2"


@cache
def turn_taking(name: str) -> TurnTakingMeasure:
    """The measure of that name. Raises `SetupError` that lists the known ones and the nearest."""
    return load_a(TurnTakingMeasure, TURN_TAKING, name, "measure of turn-taking")


def take_all(lanes: Lanes, sound: Sound) -> dict[str, Measured]:
    """Every measure that a turn of this kind has."""
    return {name: _take(name, lanes, sound) for name in TURN_TAKING if sound.kind in turn_taking(name).kinds}


def _take(name: str, lanes: Lanes, sound: Sound) -> Measured:
    try:
        return turn_taking(name).measure(lanes, sound)
    except MetricUnavailable as why:
        return Unavailable(str(why))
    except (ArithmeticError, LookupError, ValueError, TypeError) as error:
        return Failed(f"{type(error).__name__}: {error}")


def turn_taking_definitions() -> dict[str, str]:
    """Name → version, as `metrics.table.definitions` has them for the others."""
    shared = dict(item.split("/") for item in (AGENT_BACKCHANNEL, CURVE))
    return shared | {name: turn_taking(name).version for name in TURN_TAKING}
