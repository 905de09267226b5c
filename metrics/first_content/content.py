"""Where a reply begins to say something: the first word that no list of fillers explains."""

from __future__ import annotations

import functools
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from metrics.first_content.fillers import UNSPACED, Fillers
from metrics.transcript import Word

_OPENING_UNITS: Final = 16
"""An opening whose clause runs on for longer has no mark that ends it: it fills as far as its own words go."""
_LONG_RUN: Final = re.compile(r"(.)\1{2,}")


@dataclass(frozen=True, slots=True)
class Unit:
    """What is compared: a word, or a character where nobody writes spaces. text: folded · marked: a punctuation mark
    follows · word: the index of its word · part: how far into that word it begins, 0 to 1."""

    text: str
    marked: bool
    word: int
    part: float = 0.0


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
    at = _filled(units, fillers, language in UNSPACED)
    if at == len(units):
        return None
    unit = units[at]
    word = words[unit.word]
    assert word.start_s is not None and word.end_s is not None
    space = "" if language in UNSPACED else " "
    before = space.join(word.text for word in words[: unit.word])
    return Content(word.start_s + unit.part * (word.end_s - word.start_s), word.text, before)


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
    opens: bool = False


@functools.cache
def _table(fillers: Fillers, by_characters: bool) -> tuple[_Entry, ...]:
    def split(text: str) -> tuple[str, ...]:
        return tuple(unit.text for unit in _units([Word(part) for part in text.split()], by_characters))

    return (
        *(_Entry(split(text)) for text in (*fillers.sounds, *fillers.phrases)),
        *(_Entry(split(text), needs_mark=True) for text in fillers.marked),
        *(_Entry(split(text), opens=True) for text in fillers.openings),
    )


def _taken(units: Sequence[Unit], at: int, entry: _Entry) -> int:
    """How many units from `at` on the entry explains."""
    size = len(entry.units)
    stretch = units[at : at + size]
    if tuple(unit.text for unit in stretch) != entry.units:
        return 0
    last = at + size == len(units)
    if entry.needs_mark:
        return size if stretch[-1].marked or last else 0
    if entry.opens:
        for more in range(size, min(_OPENING_UNITS, len(units) - at) + 1):
            if units[at + more - 1].marked:
                return more
    return size


def _units(words: Sequence[Word], by_characters: bool) -> list[Unit]:
    units: list[Unit] = []
    for index, word in enumerate(words):
        letters = _folded(word.text)
        if not letters:
            if units:  # a mark that stands alone
                units[-1] = Unit(units[-1].text, True, units[-1].word, units[-1].part)
            continue
        ends = not word.text.rstrip()[-1].isalnum()
        if by_characters:
            units += _characters(word.text, index)
        else:
            units.append(Unit(_LONG_RUN.sub(r"\1\1", letters), ends, index))
    return units


def _characters(text: str, index: int) -> list[Unit]:
    units: list[Unit] = []
    for place, character in enumerate(text):
        if folded := _folded(character):
            units.append(Unit(folded, False, index, place / len(text)))
        elif units and not character.isspace():
            units[-1] = Unit(units[-1].text, True, index, units[-1].part)
    return units


def _folded(text: str) -> str:
    composed = unicodedata.normalize("NFKC", text).lower()
    return "".join(character for character in composed if character.isalnum() or character == "ー")
