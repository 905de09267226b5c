"""What a measure of turn-taking is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from metrics.measures.base import Direction
from metrics.result import Measured, Unavailable, Value
from metrics.turn_taking.lanes import NEEDS_LOG, Lanes, Sound

TO_BE_ANSWERED = frozenset({"speech", "interruption", "overlap"})
NOT_TO_BE_ANSWERED = frozenset({"backchannel", "noise"})
INTERRUPTION = frozenset({"interruption"})
SILENCE = frozenset({"silence"})
ALL_SOUNDS = TO_BE_ANSWERED | NOT_TO_BE_ANSWERED

Unit = Literal["ms", "yes", "count"]
"""yes: 1 or 0; its turns add up to a rate."""


@dataclass(frozen=True, slots=True)
class TurnTakingMeasure:
    """One figure of one turn of these kinds. needs_log: audio alone cannot give it; class D has no replies either.

    asks_server: of the server's own turn-taking, so unavailable where the client alone ends turns (A, C).
    """

    name: str
    version: str
    unit: Unit
    direction: Direction
    formula: str
    kinds: frozenset[str]
    figure: Callable[[Lanes, Sound], Measured]
    needs_log: bool = False
    asks_server: bool = False

    def measure(self, lanes: Lanes, sound: Sound) -> Measured:
        """The turn's value. Only of a sound whose kind is one of `kinds`."""
        client_ends = lanes.why_client_ends() if self.asks_server else None
        if client_ends is not None:
            return client_ends
        if self.needs_log and lanes.log is None:
            return Unavailable(NEEDS_LOG)
        return self.figure(lanes, sound)


def yes(is_so: bool) -> Value:
    """1 or 0, for a rate."""
    return Value(1.0 if is_so else 0.0)
