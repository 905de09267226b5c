"""Where a reply begins to say something: the first word that no list of fillers explains."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from metrics.first_content.fillers import Fillers
from metrics.transcript import UNSPACED, Word

_OPENING_UNITS: Final = 16
"""An opening whose clause runs on for longer has no mark that ends it: it fills as far as its own words go."""
PAUSE_S: Final = 0.2
"""Between two words it parts them as a punctuation mark does, which recognisers set by words more than by the voice."""
_CLOSE_S: Final = 1e-6
_UNCLEAR: Final = 0.3
"""A recogniser that must write a hum as words gives them 0.1 to 0.29; short real words get 0.36 to 0.8, rarely less."""
_UNCLEAR_S, _UNCLEAR_WORDS = 0.6, 3
_LONG_RUN: Final = re.compile(r"(.)\1{2,}")


@dataclass(frozen=True, slots=True)
class Unit:
    """What is compared: a word, or a character where nobody writes spaces. text: folded · word: the index of its word ·
    part: how far into that word it begins, 0 to 1 · marked: a punctuation mark or a pause follows · paused: a pause."""

    text: str
    word: int
    part: float = 0.0
    marked: bool = False
    paused: bool = False


@dataclass(frozen=True, slots=True)
class Content:
    """start_s: when it begins, from the first sample of the sound · word: the one that it begins with · fillers: what
    was heard before it."""

    start_s: float
    word: str
    fillers: str


def first_content(words: Sequence[Word], fillers: Fillers, language: str) -> Content | None:
    """The first content of `words`, each with times; None where all are fillers."""
    units = _units(words, language in UNSPACED)
    unclear = _unclear(words)
    at = next((index for index, unit in enumerate(units) if unit.word >= unclear), len(units))
    at += _filled(units[at:], fillers, language in UNSPACED)
    if at == len(units):
        return None
    unit = units[at]
    word = words[unit.word]
    assert word.start_s is not None and word.end_s is not None
    space = "" if language in UNSPACED else " "
    before = space.join(word.text for word in words[: unit.word])
    return Content(word.start_s + unit.part * (word.end_s - word.start_s), word.text, before)


def _unclear(words: Sequence[Word]) -> int:
    """How many words at the beginning are a short sound by itself that the recogniser itself doubts."""
    for count in range(1, min(_UNCLEAR_WORDS + 1, len(words))):
        if _pause_after(words, count - 1):
            start_s, end_s = words[0].start_s, words[count - 1].end_s
            sure = [word.probability for word in words[:count] if word.probability is not None]
            if start_s is None or end_s is None or end_s - start_s > _UNCLEAR_S or len(sure) < count:
                return 0
            return count if sum(sure) / count < _UNCLEAR else 0
    return 0


def _filled(units: Sequence[Unit], fillers: Fillers, by_characters: bool) -> int:
    """How many units, from the first on, are fillers."""
    table = _table(fillers, by_characters)
    at = 0
    while at < len(units):
        taken = max((_taken(units, at, entry) for entry in table), default=0)
        if not taken:
            break
        at += taken
    return at


@dataclass(frozen=True, slots=True)
class _Entry:
    units: tuple[str, ...]
    needs_mark: bool = False
    needs_pause: bool = False
    opens: bool = False
    promises: bool = False


@functools.cache
def _table(fillers: Fillers, by_characters: bool) -> tuple[_Entry, ...]:
    def split(text: str) -> tuple[str, ...]:
        return tuple(unit.text for unit in _units([Word(part) for part in text.split()], by_characters))

    return (
        *(_Entry(split(text)) for text in (*fillers.sounds, *fillers.phrases)),
        *(_Entry(split(text), needs_mark=True) for text in fillers.marked),
        *(_Entry(split(text), needs_pause=True) for text in fillers.misheard),
        *(_Entry(split(text), opens=True) for text in fillers.openings),
        *(_Entry(split(text), promises=True) for text in fillers.promises),
    )


def _taken(units: Sequence[Unit], at: int, entry: _Entry) -> int:
    """How many units from `at` on the entry explains."""
    size = len(entry.units)
    stretch = units[at : at + size]
    if tuple(unit.text for unit in stretch) != entry.units:
        return 0
    last = at + size == len(units)
    if (entry.needs_mark and not (stretch[-1].marked or last)) or (entry.needs_pause and not stretch[-1].paused):
        return 0
    if not (entry.opens or entry.promises):
        return size
    ends = range(at + size, min(at + _OPENING_UNITS, len(units)) + 1)
    clause = next((end - at for end in ends if units[end - 1].marked), 0)
    if entry.promises and not last and clause != size and at + clause in (at, len(units)):
        return 0  # nothing that it puts off comes after it
    return clause or size


def _units(words: Sequence[Word], by_characters: bool) -> list[Unit]:
    units: list[Unit] = []
    for index, word in enumerate(words):
        letters = _folded(word.text)
        if not letters:
            if units:  # a mark that stands alone
                units[-1] = replace(units[-1], marked=True)
            continue
        if by_characters:
            units += _characters(word.text, index)
        else:
            ends = not word.text.rstrip()[-1].isalnum()
            units.append(Unit(_LONG_RUN.sub(r"\1\1", letters), index, marked=ends))
        if _pause_after(words, index):
            units[-1] = replace(units[-1], marked=True, paused=True)
    return units


def _pause_after(words: Sequence[Word], index: int) -> bool:
    if index + 1 == len(words):
        return False
    ends_s, begins_s = words[index].end_s, words[index + 1].start_s
    return ends_s is not None and begins_s is not None and begins_s - ends_s >= PAUSE_S - _CLOSE_S


def _characters(text: str, index: int) -> list[Unit]:
    units: list[Unit] = []
    for place, character in enumerate(text):
        if folded := _folded(character):
            units.append(Unit(folded, index, place / len(text)))
        elif units and not character.isspace():
            units[-1] = replace(units[-1], marked=True)
    return units


def _folded(text: str) -> str:
    composed = unicodedata.normalize("NFKC", text).lower()
    return "".join(character for character in composed if character.isalnum() or character == "ー")
