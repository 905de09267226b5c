"""Where the line between the same voice and another one lies, and how often a turn is on its wrong side.

Measured on cut turns of 1.0 to 3.0 s by 31 speakers (docs/voice-and-emotion.md): each against others of its own
speaker, and of every speaker of the same sex. Most are voices of one synthesiser, the hardest case: they share all but
the voice. The more turns one is compared with and the longer they are, the steadier is their mean, and the higher the
line may lie.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Line:
    """below: a likeness that counts as another voice · same_below: percent of turns in the same voice that are below
    all the same · other_above: percent of turns in another voice that are not. Both at the worst of the lengths."""

    below: float
    same_below: float
    other_above: float


LONG_S = 2.2
"""Of speech: what was measured at 2.2 and 3.0 s holds from here on, below it what was at 1.0, 1.3 and 1.6 s."""
_SHORT = ((4, Line(0.80, 4.6, 3.7)), (2, Line(0.75, 2.5, 8.9)), (1, Line(0.70, 3.4, 12.1)))
_LONG = ((2, Line(0.80, 1.1, 6.7)), (1, Line(0.75, 2.2, 8.9)))
"""(turns compared with, at least; measured with just so many) · line."""


def line_for(turns: int, speech_s: float) -> Line:
    """turns: how many a turn is compared with (a reference file counts as one) · speech_s: how much speech there is in
    the turn, or in each of those on average, whichever is less."""
    by_turns = _LONG if speech_s >= LONG_S else _SHORT
    return next(line for least, line in by_turns if turns >= least)
