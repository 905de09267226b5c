"""Signs that a recogniser has lost hold of the sound: a transcript that goes round in circles."""

from __future__ import annotations

import re
from typing import Final

REPEATS: Final = 5
"""So often in a row nobody says the same: a recogniser's loop, or a broken reply. Either way a person must look."""
_LONGEST: Final = 8
_TOKENS: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|[^\W_]+(?:['’][^\W_]+)*")


def loops(text: str) -> list[str]:
    """Each run of words (characters, of scripts without spaces) that stands at least five times in a row, at most eight
    words long: "'you know' 7 times in a row". The shortest run is told where a longer one is made of it."""
    tokens = _TOKENS.findall(text.lower())
    found, at = [], 0
    while at < len(tokens):
        size, times = _run(tokens, at)
        if times >= REPEATS:
            found.append(f"{' '.join(tokens[at : at + size])!r} {times} times in a row")
            at += size * times
        else:
            at += 1
    return found


def _run(tokens: list[str], at: int) -> tuple[int, int]:
    """(words, how often in a row) of the shortest run that is repeated often enough from `at` on; (0, 0) if none."""
    for size in range(1, _LONGEST + 1):
        unit, times = tokens[at : at + size], 1
        while len(unit) == size and tokens[at + size * times : at + size * (times + 1)] == unit:
            times += 1
        if times >= REPEATS:
            return size, times
    return 0, 0
