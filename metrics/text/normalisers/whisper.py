"""OpenAI Whisper's two normalisers (A. Radford et al., "Robust Speech Recognition via Large-Scale Weak Supervision",
2022, appendix C), as the package `whisper-normalizer` carries them: without torch."""

from __future__ import annotations

from metrics.text.normalisers.base import Normalise, Normaliser
from metrics.text.packages import versions

PACKAGE = "whisper-normalizer"


def packages() -> dict[str, str]:
    return versions(PACKAGE)


def english() -> Normalise:
    packages()
    from whisper_normalizer.english import EnglishTextNormalizer

    made: Normalise = EnglishTextNormalizer()
    return made


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
