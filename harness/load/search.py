"""The highest load that still holds: doubling until one level fails, then bisection."""

from __future__ import annotations

from collections.abc import Callable

NARROW = 0.05
"""The search ends when the level that failed is within this share of the one that held, or the next whole number."""


def highest_that_holds(holds: Callable[[int], bool], *, most: int) -> int:
    """The highest number in 1 to `most` for which `holds`, 0 where not even 1 does. Each number is asked once.

    It takes for granted that what fails at one level fails at every higher one.
    """
    good, level = 0, 1
    while holds(level):
        good = level
        if level == most:
            return most
        level = min(2 * level, most)
    bad = level
    while bad - good > max(1, int(NARROW * good)):
        middle = (good + bad) // 2
        if holds(middle):
            good = middle
        else:
            bad = middle
    return good
