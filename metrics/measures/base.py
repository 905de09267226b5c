"""What a measure is, and the difference of two instants that most of them are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from metrics.result import Measured, Unavailable, Value
from metrics.view import TurnView
from sessions.clock import NS_PER_MS

Direction = Literal["lower", "higher", "none"]
"""Which way is better; "none" where the number only describes."""


@dataclass(frozen=True, slots=True)
class Measure:
    """One figure of one turn. formula: in one line, for people; the module's docstring has the whole definition."""

    name: str
    version: str
    unit: str
    direction: Direction
    formula: str
    measure: Callable[[TurnView], Measured]


def between(later: str, earlier: str) -> Callable[[TurnView], Measured]:
    """`later` − `earlier` in ms; unavailable with the reason of the one that is missing. Negative values are data."""

    def measure(view: TurnView) -> Measured:
        for name in (later, earlier):
            if (reason := view.instants.why_not.get(name)) is not None:
                return Unavailable(reason)
        return Value((view.instants.at_ns[later] - view.instants.at_ns[earlier]) / NS_PER_MS)

    return measure


def latency(name: str, later: str, earlier: str, *, direction: Direction = "lower") -> Measure:
    """A measure that is the difference of two instants, in ms."""
    return Measure(name, "1", "ms", direction, f"{later} − {earlier}", between(later, earlier))


def of_audio(figure: Callable[[TurnView], Measured]) -> Callable[[TurnView], Measured]:
    """`figure` where the turn's reply has audio; unavailable, with the reason of `first_packet`, where it has none."""

    def measure(view: TurnView) -> Measured:
        reason = view.instants.why_not.get("first_packet")
        return figure(view) if reason is None else Unavailable(reason)

    return measure
