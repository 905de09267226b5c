"""OpenAI Whisper's two normalisers (A. Radford et al., "Robust Speech Recognition via Large-Scale Weak Supervision",
2022, appendix C), as the package `whisper-normalizer` carries them: without torch."""

from __future__ import annotations

from typing import Any

from metrics.text.normalisers.base import Normalise, Normaliser
from metrics.text.packages import versions

PACKAGE = "whisper-normalizer"
_NOT_WHISPERS = (r"\bcause\b", r"\bkinda\b", r"\bsorta\b", r"\bdunno\b")
"""Contractions that the package has added to Whisper's; the first of them makes "because" of every cause."""


def packages() -> dict[str, str]:
    return versions(PACKAGE)


def english() -> Normalise:
    packages()
    from whisper_normalizer.english import EnglishTextNormalizer

    made: Any = EnglishTextNormalizer()
    for pattern in _NOT_WHISPERS:
        made.replacers.pop(pattern, None)
    normalised: Normalise = made
    return normalised


def _others() -> Normalise:
    packages()
    from whisper_normalizer.basic import BasicTextNormalizer

    made: Normalise = BasicTextNormalizer()
    return made


ENGLISH = Normaliser(
    "whisper-en",
    "1",
    "Whisper's English normaliser: fillers out, contractions spelled out, numbers as digits, American spelling",
    english,
    packages,
)
OTHERS = Normaliser(
    "whisper-basic",
    "1",
    "Whisper's normaliser for other languages: brackets out, punctuation and marks to spaces; takes vowels from Indic",
    _others,
    packages,
)
