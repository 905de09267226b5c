"""URO-Bench's normalisers, as its `mark_wer.py` applies them (revision 9e74bc0, 2025-09-02), oddities included.

Chinese: punctuation goes before numbers are spelled, so "3.5" is read as 35 and "20%" as 20; spaces are not removed and
count as characters. cn2an is held to the version of the publication: the next one spells 101000 otherwise.
"""

from __future__ import annotations

import string
import warnings

from metrics.text.normalisers import whisper
from metrics.text.normalisers.base import Normalise, Normaliser
from metrics.text.packages import exactly, versions

_CN2AN = "0.5.23"


def _english() -> Normalise:
    normalised = whisper.english()
    return lambda text: normalised(text.strip().lower())


def _chinese_packages() -> dict[str, str]:
    return exactly("cn2an", _CN2AN, "the normaliser uro-zh") | versions("zhon")


def _chinese() -> Normalise:
    _chinese_packages()
    import cn2an
    from zhon.hanzi import punctuation

    without = str.maketrans("", "", punctuation + string.punctuation)

    def normalised(text: str) -> str:
        bare = text.translate(without).replace("  ", " ").strip().lower()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it warns of a number that it cannot spell, and leaves it as it is
            return str(cn2an.transform(bare, "an2cn"))

    return normalised


ENGLISH = Normaliser("uro-en", "1", "URO-Bench, English: strip, lower case, whisper-en", _english, whisper.packages)
CHINESE = Normaliser(
    "uro-zh",
    "1",
    "URO-Bench, Chinese: punctuation out, strip, lower case, numbers in characters; no conversion of traditional ones",
    _chinese,
    _chinese_packages,
)
