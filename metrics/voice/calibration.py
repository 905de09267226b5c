"""Where the line between the same voice and another one lies, and how often a turn is on its wrong side.

Measured, as docs/voice-and-emotion.md tells: turns of 1.0 to 5 s, one engine's voices against each other (the hardest
case: they share a vocoder) and real speakers.
"""

from __future__ import annotations

from dataclasses import dataclass

WRONG_BELOW = 0.80


@dataclass(frozen=True, slots=True)
class Errors:
    """In percent: of turns in the same voice that fall below the line, of turns in another voice that do not."""

    same_below: float
    other_above: float


TO_OTHERS = Errors(same_below=2.4, other_above=5.1)
"""Against the mean of other turns."""
TO_REFERENCE = Errors(same_below=4.3, other_above=2.0)
"""Against a single file."""
