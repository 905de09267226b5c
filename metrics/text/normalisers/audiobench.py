"""AudioBench's normalisers of speech recognition, from the rules of its revision e991641 (2025-06-17), our own code.

English: lower case, whisper-en, whole numbers 0 to 20 and the tens to words, brackets out, jiwer's transforms,
fillers out. The word border of a number is that of a regular expression, so "3.5" becomes "threefive". Its own list of
contractions is left out: whisper-en has expanded every one of them before. Nothing becomes the word "empty" there, on
both sides: `metrics.text.published.audiobench_counts`.
"""

from __future__ import annotations

import re
from typing import Any

from metrics.text.normalisers import whisper
from metrics.text.normalisers.base import Normalise, Normaliser
from metrics.text.packages import versions
from sessions.errors import MissingExtra, SetupError

_TO_TWENTY = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen"
    " eighteen nineteen twenty"
)
_TENS = "thirty forty fifty sixty seventy eighty ninety"
_WORDS = {str(number): word for number, word in enumerate(_TO_TWENTY.split())}
_WORDS |= {str(10 * tens): word for tens, word in enumerate(_TENS.split(), 3)}
_NUMBER = re.compile(r"\b(?:" + "|".join(sorted(_WORDS, key=len, reverse=True)) + r")\b")
_BRACKETED = re.compile(r"[\[({<][^()\\n\[\]]*[\])}>]")
"""A bracketed span, of any brackets. Published with a slip: one that holds the letter n, or a backslash, stays."""
_FILLERS = re.compile(r"\b(?:uh|umm|um|er|ah)\b")
_HAN_BEFORE_HAN = re.compile("([\u4e00-\u9fff])(?=[\u4e00-\u9fff])")


def _after_whisper() -> Normalise:
    """The steps that follow Whisper's normaliser."""
    import jiwer

    names = ("RemoveMultipleSpaces", "ExpandCommonEnglishContractions", "RemoveKaldiNonWords", "RemovePunctuation")
    transforms = jiwer.Compose([getattr(jiwer, name)() for name in names])

    def normalised(text: str) -> str:
        spelled = _NUMBER.sub(lambda found: _WORDS[found[0]], text)
        return _FILLERS.sub("", str(transforms(_BRACKETED.sub("", spelled)))).strip()

    return normalised


def _english() -> Normalise:
    first, then = whisper.english(), _after_whisper()
    return lambda text: then(first(text.lower()))


def _spaced(text: str) -> str:
    """A space between two Han characters; none between one and what is not Han."""
    return _HAN_BEFORE_HAN.sub(r"\1 ", text)


def _code_switch() -> Normalise:
    english = _english()
    return lambda text: _spaced(english(text))


def _imda_part_4() -> Normalise:
    """As code-switch, but Whisper's normaliser leaves symbols and marks alone: Tamil and Malay keep theirs."""
    whole: Any = whisper.english()
    then = _after_whisper()

    def normalised(text: str) -> str:
        text = re.sub(r"[<\[][^>\]]*[>\]]|\([^)]+?\)", "", text.lower())
        text = re.sub(r"\s+'", "'", re.sub(whole.ignore_patterns, "", text))
        for pattern, replacement in whole.replacers.items():
            text = re.sub(pattern, replacement, text)
        text = re.sub(r"\.([^0-9]|$)", r" \1", re.sub(r"(\d),(\d)", r"\1\2", text))
        text = whole.standardize_spellings(whole.standardize_numbers(text))
        text = re.sub(r"([^0-9])%", r"\1 ", re.sub(r"[.$¢€£]([^0-9])", r" \1", text))
        return " ".join(_spaced(then(text)).split())

    return normalised


def _thai_packages() -> dict[str, str]:
    try:
        return versions("pythainlp")
    except MissingExtra:
        raise SetupError(
            "the normaliser audiobench-th needs the package 'pythainlp', which is not installed",
            "Install it with: pip install pythainlp",
        ) from None


def _thai() -> Normalise:
    """Words by pythainlp's `newmm`; nothing else is changed, as published."""
    _thai_packages()
    from pythainlp.tokenize import word_tokenize

    return lambda text: " ".join(" ".join(word_tokenize(text, engine="newmm")).split())


def _vietnamese() -> Normalise:
    return lambda text: " ".join("".join(c if c.isalnum() else " " for c in text.lower()).split())


ENGLISH = Normaliser(
    "audiobench-en",
    "1",
    "AudioBench, English: whisper-en, small whole numbers as words, punctuation and fillers out",
    _english,
    lambda: whisper.packages() | versions("jiwer"),
)
CODE_SWITCH = Normaliser(
    "audiobench-zh",
    "1",
    "AudioBench, Chinese and code-switching: audiobench-en, then a space between Han characters",
    _code_switch,
    lambda: whisper.packages() | versions("jiwer"),
)
IMDA_PART_4 = Normaliser(
    "audiobench-imda4",
    "1",
    "AudioBench, IMDA part 4: audiobench-zh that keeps symbols and marks; by the rules, not held against the original",
    _imda_part_4,
    lambda: whisper.packages() | versions("jiwer"),
)
INDONESIAN = Normaliser(
    "audiobench-id",
    "1",
    "AudioBench, Indonesian: audiobench-en, as published",
    _english,
    lambda: whisper.packages() | versions("jiwer"),
)
THAI = Normaliser("audiobench-th", "1", "AudioBench, Thai: words by pythainlp's newmm", _thai, _thai_packages)
VIETNAMESE = Normaliser(
    "audiobench-vi", "1", "AudioBench, Vietnamese: lower case, all but letters and digits to spaces", _vietnamese
)
