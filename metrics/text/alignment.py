"""How two texts differ: the cheapest way from the one to the other, unit by unit, and the rates that it gives.

The alignment is jiwer's (rapidfuzz's Levenshtein, every edit costs 1). What jiwer gives for an empty reference has
changed with its versions, so that case never reaches it: it is counted here, and has no rate.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from metrics.transcript import UNSPACED

Unit = Literal["words", "characters"]
Edit = Literal["equal", "substitute", "delete", "insert"]
_SPACES = re.compile(r"\s\s+")


class Step(msgspec.Struct, frozen=True, array_like=True):
    """One unit's fate. reference: "" for an insertion · hypothesis: "" for a deletion."""

    edit: Edit
    reference: str
    hypothesis: str


class Counts(msgspec.Struct, frozen=True):
    """Edits that lead from the reference to the hypothesis, in units."""

    hits: int = 0
    substitutions: int = 0
    deletions: int = 0
    insertions: int = 0

    @property
    def errors(self) -> int:
        return self.substitutions + self.deletions + self.insertions

    @property
    def units(self) -> int:
        """How long the reference is."""
        return self.hits + self.substitutions + self.deletions

    @property
    def rate(self) -> float | None:
        """(S + D + I) / (S + D + H): the word or character error rate, over 1 where much is inserted. None where the
        reference is empty: there is nothing that it could be a share of."""
        return self.errors / self.units if self.units else None

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            self.hits + other.hits,
            self.substitutions + other.substitutions,
            self.deletions + other.deletions,
            self.insertions + other.insertions,
        )


def unit_of(language: str) -> Unit:
    """What errors are counted in. language: as `metrics.transcript.primary` names it."""
    return "characters" if language in UNSPACED else "words"


def units(text: str, unit: Unit) -> list[str]:
    """The text cut as jiwer does: words between spaces; characters, the spaces inside counted, those around not."""
    if unit == "characters":
        return list(text.strip())
    return _SPACES.sub(" ", text).strip().split(" ") if text.strip() else []


def _as_it_is(cut: list[list[str]]) -> list[list[str]]:
    return cut


def align(reference: Sequence[str], hypothesis: Sequence[str]) -> list[Step]:
    """Unit by unit, in order. Either may be empty."""
    if not reference or not hypothesis:
        return [*(Step("delete", unit, "") for unit in reference), *(Step("insert", "", unit) for unit in hypothesis)]
    import jiwer

    process: Any = jiwer.process_words  # typed for texts that it cuts itself; ours are cut
    found = process([list(reference)], [list(hypothesis)], _as_it_is, _as_it_is)
    steps = []
    for chunk in found.alignments[0]:
        before = reference[chunk.ref_start_idx : chunk.ref_end_idx]
        after = hypothesis[chunk.hyp_start_idx : chunk.hyp_end_idx]
        if chunk.type == "delete":
            steps += [Step("delete", unit, "") for unit in before]
        elif chunk.type == "insert":
            steps += [Step("insert", "", unit) for unit in after]
        else:
            steps += [Step(chunk.type, old, new) for old, new in zip(before, after, strict=True)]
    return steps


def count(steps: Sequence[Step]) -> Counts:
    """How many of each edit."""
    kinds = [step.edit for step in steps]
    return Counts(*(kinds.count(kind) for kind in ("equal", "substitute", "delete", "insert")))


def compare(reference: str, hypothesis: str, unit: Unit) -> Counts:
    """Edits between two normalised texts."""
    return count(align(units(reference, unit), units(hypothesis, unit)))
