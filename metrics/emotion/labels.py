"""The nine emotions of emotion2vec, in the order in which they are published.

Copies of the same model give other lists (five classes, or none named): a list that is not this one is refused, since
an index into it would name the wrong emotion.
"""

from __future__ import annotations

from collections.abc import Sequence

EMOTIONS = ("angry", "disgusted", "fearful", "happy", "neutral", "other", "sad", "surprised", "unknown")


def name_of(label: str) -> str:
    """A label is bilingual ("生气/angry"): the part after the slash; "<unk>" is unknown."""
    return "unknown" if label.strip() == "<unk>" else label.rpartition("/")[2].strip().lower()


def refusal(labels: Sequence[str]) -> str:
    """Why these labels cannot be indexed by position; "" where they are the nine in their order."""
    names = tuple(map(name_of, labels))
    if names == EMOTIONS:
        return ""
    if sorted(names) == sorted(EMOTIONS):
        at = next(place for place, (got, want) in enumerate(zip(names, EMOTIONS, strict=True)) if got != want)
        return f"its nine emotions come in another order than the published one: place {at} is {names[at]!r}"
    return (
        f"it gives {len(names)} classes ({', '.join(names) or 'none'}), not the published nine ({', '.join(EMOTIONS)})"
    )
