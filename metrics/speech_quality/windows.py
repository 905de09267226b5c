"""Long sounds, cut evenly, so that no model needs memory that grows with an hour of audio."""

from __future__ import annotations

import itertools
from collections.abc import Iterable


def even_cuts(samples: int, longest_samples: int) -> list[tuple[int, int]]:
    """(start, stop) of the fewest windows of at most `longest_samples` that cover all, alike in length to one sample.

    No window is a short rest, which a model would judge by its edges.
    """
    windows = max(1, -(-samples // longest_samples))
    marks = [samples * window // windows for window in range(windows + 1)]
    return list(itertools.pairwise(marks))


def mean_by_length(values: Iterable[float], cuts: Iterable[tuple[int, int]]) -> float:
    """The mean of what each window got, weighed by its length."""
    pairs = [(value, stop - start) for value, (start, stop) in zip(values, cuts, strict=True)]
    return sum(value * length for value, length in pairs) / sum(length for _, length in pairs)


def windowed(cuts: list[tuple[int, int]], rate_hz: int) -> list[str]:
    """The flag of a sound that was judged in windows; nothing for one that was judged whole."""
    if len(cuts) == 1:
        return []
    return [f"windowed: {len(cuts)} of {(cuts[0][1] - cuts[0][0]) / rate_hz:.1f} s"]


def spread(starts: list[int], most: int) -> tuple[list[int], list[str]]:
    """At most so many of the windows that begin there, evenly over all, and the flag that says so.

    Models that are published with overlapping windows would take half an hour for an hour of audio.
    """
    if len(starts) <= most:
        return starts, []
    kept = [starts[index * (len(starts) - 1) // (most - 1)] for index in range(most)]
    return kept, [f"sampled: {most} of {len(starts)} windows"]
