"""Stretches of the text that were not heard, or heard beside it, and ends that are cut off."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, Literal

from metrics.text.alignment import Step, Unit

Where = Literal["start", "within", "end", "all"]


@dataclass(frozen=True, slots=True)
class Limits:
    """From where on a difference counts: units and, so that "a lot of" for "lots" does not, letters.

    within, at_ends: (units, letters) · digits: units, where a number is in the shorter side, which the other may
    spell, a digit in two of them · unlike: units, where the two have nothing in common
    """

    within: tuple[int, int]
    at_ends: tuple[int, int]
    digits: int
    unlike: int


LIMITS: Final[dict[Unit, Limits]] = {
    "words": Limits(within=(2, 6), at_ends=(2, 4), digits=5, unlike=5),
    "characters": Limits(within=(3, 3), at_ends=(2, 2), digits=6, unlike=6),
}


@dataclass(frozen=True, slots=True)
class Run:
    """One stretch. reference, hypothesis: its units on either side · before: the unit before it, "" at the start."""

    reference: tuple[str, ...]
    hypothesis: tuple[str, ...]
    where: Where
    before: str = ""

    @property
    def missing(self) -> int:
        """Units that the speech has fewer than the text; negative where it has more."""
        return len(self.reference) - len(self.hypothesis)


def runs(steps: Sequence[Step], unit: Unit) -> list[Run]:
    """Stretches between two units that agree, on which one side is so much longer that words are missing."""
    return [run for run in _stretches(steps) if _counts(run, LIMITS[unit])]


def _stretches(steps: Sequence[Step]) -> Iterator[Run]:
    at, before = 0, ""
    for agree, grouped in groupby(steps, key=lambda step: step.edit == "equal"):
        part = list(grouped)
        first, last = at == 0, at + len(part) == len(steps)
        at += len(part)
        if agree:
            before = part[-1].reference
            continue
        where: Where = "all" if first and last else "start" if first else "end" if last else "within"
        reference = tuple(step.reference for step in part if step.reference)
        yield Run(reference, tuple(step.hypothesis for step in part if step.hypothesis), where, before)


def _counts(run: Run, limits: Limits) -> bool:
    reference, hypothesis = "".join(run.reference), "".join(run.hypothesis)
    units, letters = abs(run.missing), abs(len(reference) - len(hypothesis))
    if reference == hypothesis or (letters and (len(reference) > len(hypothesis)) != (run.missing > 0)):
        return False
    if reference and not hypothesis and run.where == "all":
        return True  # of the whole text nothing is heard, however short it is
    if reference and hypothesis:
        if digits := sum(map(str.isdigit, hypothesis if run.missing > 0 else reference)):
            return units >= max(limits.digits, 2 * digits)
        if run.where == "all":
            return units >= limits.unlike
    needed, of_letters = limits.at_ends if run.where in ("start", "end") else limits.within
    return units >= needed and letters >= of_letters
