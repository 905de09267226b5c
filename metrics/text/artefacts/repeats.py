"""Words that stand twice or more in a row where the text has them less often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_LONGEST = 200
_SHORT = 4


@dataclass(frozen=True, slots=True)
class Repeat:
    """units: what is repeated · times: how often it stands in a row · first: its first unit's place."""

    units: tuple[str, ...]
    times: int
    first: int


def repeats(heard: Sequence[str], own: Sequence[str]) -> list[Repeat]:
    """Runs that stand twice or more in a row in what was heard, unless the reply's own text has as many in a row.

    One short unit counts from three times on: recognisers double such words where two of their windows meet.
    """
    allowed = Counter[tuple[str, ...]]()
    for found in _runs(own):
        allowed[found.units] = max(allowed[found.units], found.times)
    return [found for found in _runs(heard) if found.times > max(allowed[found.units], _harmless(found.units))]


def _harmless(units: tuple[str, ...]) -> int:
    return 2 if len(units) == 1 and len(units[0]) < _SHORT else 1


def _runs(units: Sequence[str]) -> Iterator[Repeat]:
    """Each run that is followed by itself, the shortest that is, from left to right."""
    places: dict[str, list[int]] = {}
    for place, unit in enumerate(units):
        places.setdefault(unit, []).append(place)
    at = 0
    while at < len(units):
        found = _run(units, at, places[units[at]])
        if found is None:
            at += 1
            continue
        yield found
        at = found.first + len(found.units) * (found.times - 1) + 1


def _run(units: Sequence[str], at: int, places: Sequence[int]) -> Repeat | None:
    for other in places:
        size = other - at
        if size <= 0:
            continue
        if size > _LONGEST:
            return None
        if (times := _times(units, at, size)) > 1:
            return Repeat(tuple(units[at:other]), times, at)
    return None


def _times(units: Sequence[str], at: int, size: int) -> int:
    """How often units[at : at + size] stands in a row from `at` on."""
    run, times = units[at : at + size], 1
    while units[at + size * times : at + size * (times + 1)] == run:
        times += 1
    return times
