"""Normalisers that need no library: none at all, and one that suits any script."""

from __future__ import annotations

import unicodedata

from metrics.text.normalisers.base import Normalise, Normaliser


def basic(text: str) -> str:
    """NFKC, folded case, punctuation and symbols to spaces, runs of spaces to one. Marks stay: vowels of many scripts.

    An apostrophe inside a word goes without a space, so that "don't" is one word in every language; so do joiners and
    what only picks the look of an emoji.
    """
    kept = []
    folded = unicodedata.normalize("NFKC", text).casefold()
    for at, letter in enumerate(folded):
        kind = unicodedata.category(letter)
        within = folded[at - 1 : at].isalnum() and folded[at + 1 : at + 2].isalnum()
        if kind in ("Cf", "Me") or "\ufe00" <= letter <= "\ufe0f" or (letter in "'’" and within):
            continue
        kept.append(" " if kind[0] in "PSC" else letter)
    return " ".join("".join(kept).split())


def _as_it_is() -> Normalise:
    return lambda text: text


NONE = Normaliser("none", "1", "the text as it is; words are what lies between spaces", _as_it_is)
BASIC = Normaliser("basic", "1", basic.__doc__ or "", lambda: basic)
