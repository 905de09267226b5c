"""Every normaliser of text: name → "module:object", loaded when used; and which one a language gets."""

from __future__ import annotations

import unicodedata
from functools import cache

from metrics.text.normalisers.base import Normalise, Normaliser
from metrics.transcript import written
from sessions.tables import load

__all__ = ["AUTO", "NORMALISERS", "Normalise", "Normaliser", "for_language", "normalise", "normaliser", "words_alone"]

_ROOM = "metrics.text.normalisers"
NORMALISERS: dict[str, str] = {
    "none": f"{_ROOM}.plain:NONE",
    "basic": f"{_ROOM}.plain:BASIC",
    "whisper-en": f"{_ROOM}.whisper:ENGLISH",
    "whisper-basic": f"{_ROOM}.whisper:OTHERS",
    "uro-en": f"{_ROOM}.uro:ENGLISH",
    "uro-zh": f"{_ROOM}.uro:CHINESE",
    "audiobench-en": f"{_ROOM}.audiobench:ENGLISH",
    "audiobench-zh": f"{_ROOM}.audiobench:CODE_SWITCH",
    "audiobench-imda4": f"{_ROOM}.audiobench:IMDA_PART_4",
    "audiobench-id": f"{_ROOM}.audiobench:INDONESIAN",
    "audiobench-th": f"{_ROOM}.audiobench:THAI",
    "audiobench-vi": f"{_ROOM}.audiobench:VIETNAMESE",
}
AUTO = "auto"
_BY_LANGUAGE = {"en": "whisper-en", "zh": "uro-zh"}


def normaliser(name: str) -> Normaliser:
    """The normaliser of that name. Raises `SetupError` that lists the known ones and the nearest."""
    found = load(NORMALISERS, name, "normaliser")
    if not isinstance(found, Normaliser):
        raise TypeError(f"normaliser {name!r} is a {type(found).__name__}, not a Normaliser")
    return found


@cache
def normalise(name: str) -> Normalise:
    """Its function, made once per process. Raises what `make` raises."""
    return normaliser(name).make()


def for_language(language: str) -> str:
    """Whisper's for English, URO-Bench's for Chinese, `basic` for all others and where nobody said."""
    return _BY_LANGUAGE.get(written(language), "basic")


def words_alone(name: str, text: str) -> str:
    """`text` in the spelling of that normaliser, without what nobody says; for figures of ours.

    Published ones count it: `whisper-en` knows three full stops and no "…", of which it leaves one as a word; `uro-zh`
    keeps emoji.
    """
    normalised = normalise(name)(text.replace("…", "..."))
    spoken = "".join(letter for letter in normalised if not _pictures(letter))
    return " ".join(word for word in spoken.split() if any(map(str.isalnum, word)))


def _pictures(letter: str) -> bool:
    """Whether it is an emoji, or what picks the look of one."""
    return unicodedata.category(letter) in ("So", "Sk") or letter == "\u200d" or "\ufe00" <= letter <= "\ufe0f"
