"""Words of a transcript and of a text in one spelling, with what is known of each."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass

from metrics.text.alignment import Unit
from metrics.text.normalisers import normalise
from metrics.text.printed import printed
from metrics.transcript import Transcript

_IN_NUMBER = re.compile(r"(?<=\d)[^\w\s]+(?=\d)")
"""What parts the digits of one number: "1,000.5", "555-0123"."""
_TITLES = frozenset({"dr.", "fr.", "hr.", "mr.", "mrs.", "ms.", "prof.", "sr.", "sra.", "srta."})
"""Their full stop ends no sentence."""
_SENTENCE_END = re.compile(r"""[.!?…。！？｡]+["'”’»)\]」』）]*$""")


@dataclass(frozen=True, slots=True)
class Token:
    """One unit. text: in the spelling of `basic`, a number without marks inside · written: the word that it is part of;
    the unit itself where words have no spaces · start_s, end_s: of that word; None where there are none · ends: whether
    a sentence ends with it, by the punctuation."""

    text: str
    written: str
    start_s: float | None = None
    end_s: float | None = None
    ends: bool = False


def of_transcript(transcript: Transcript, unit: Unit) -> list[Token]:
    """In order; without times where the recogniser has none."""
    if not transcript.words:
        return of_text(transcript.text, unit)
    return [
        Token(text, word.text if unit == "words" else text, word.start_s, word.end_s, last and _ends(word.text))
        for word in printed(transcript)
        for text, last in _cut(word.text, unit)
    ]


def of_text(text: str, unit: Unit) -> list[Token]:
    """In order, without times."""
    words = text.split() if unit == "words" else _sentences(text)
    return [
        Token(part, word if unit == "words" else part, ends=last and _ends(word))
        for word in words
        for part, last in _cut(word, unit)
    ]


def _sentences(text: str) -> list[str]:
    """Cut after each sentence end; the point of a number is none."""
    return re.findall(r"(?:[^.!?…。！？｡]|(?<=\d)\.(?=\d))+[^\w\s]*|[^\w\s]+", text)


def _cut(word: str, unit: Unit) -> Iterable[tuple[str, bool]]:
    """The normalised units of one word, and whether each is its last."""
    plain = normalise("basic")(_IN_NUMBER.sub("", word))
    parts = plain.split() if unit == "words" else _characters(plain)
    return [(part, at == len(parts) - 1) for at, part in enumerate(parts)]


def _characters(text: str) -> list[str]:
    """Characters with the marks that belong to them, spaces left out; a Latin word or a number is one unit."""
    found: list[str] = []
    joined = False
    for letter in text:
        latin = letter.isascii() and letter.isalnum()
        mark = unicodedata.category(letter)[0] == "M"
        if found and (mark or (latin and joined)):
            found[-1] += letter
        elif not letter.isspace():
            found.append(letter)
        joined = latin
    return found


def _ends(word: str) -> bool:
    return bool(_SENTENCE_END.search(word.strip())) and word.strip().lower() not in _TITLES
