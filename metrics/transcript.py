"""What a recogniser heard: the text, and when each word was said. Made in `harness.recognise`, read by text metrics."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from metrics.result import Failed, Unavailable
from metrics.scoring import Sample, Score

WORDS: Final = "words"
"""The one figure of the metric `asr`; it says why there is no transcript, where there is none."""
UNSPACED: Final = frozenset({"zh", "yue", "ja", "th", "lo", "my", "km", "bo"})
"""Languages whose words are not told apart by spaces, as `primary` names them."""
_ISO: Final = {
    "ara": "ar", "bod": "bo", "bur": "my", "chi": "zh", "cmn": "zh", "deu": "de", "dut": "nl", "eng": "en", "fra": "fr",
    "fre": "fr", "ger": "de", "hin": "hi", "ind": "id", "ita": "it", "jpn": "ja", "khm": "km", "kor": "ko", "lao": "lo",
    "mya": "my", "nld": "nl", "pol": "pl", "por": "pt", "rus": "ru", "spa": "es", "swe": "sv", "tha": "th", "tib": "bo",
    "tur": "tr", "vie": "vi", "zho": "zh",
}  # fmt: skip
"""ISO 639-2 and 639-3 → 639-1. What is not here stays as it is: Cantonese ("yue") has no code of two letters."""


class Word(msgspec.Struct, frozen=True):
    """One word as it was heard. start_s, end_s: from the first sample of the sound; None where the back end has none.

    probability: 0 to 1, the recogniser's own; None where it gives none.
    """

    text: str
    start_s: float | None = None
    end_s: float | None = None
    probability: float | None = None

    def later(self, by_s: float) -> Word:
        """The same word in a sound that begins so much earlier."""
        start_s, end_s = (None if at_s is None else round(at_s + by_s, 4) for at_s in (self.start_s, self.end_s))
        return Word(self.text, start_s, end_s, self.probability)


class Transcript(msgspec.Struct, frozen=True):
    """One sound as text.

    text: stripped, "" where nothing was heard · language: what the recogniser took it for, "" where it does not say ·
    asked_language: what it was told, the sample's own; "" where nobody knew, so that it had to detect · backend,
    model: what heard it · words: in order; without times where the back end has none · no_speech: why the recogniser
    was not asked at all; then `text` is "", and nothing of what the reply should say was heard.
    """

    text: str
    language: str = ""
    asked_language: str = ""
    backend: str = ""
    model: str = ""
    words: list[Word] = []
    no_speech: str = ""

    @property
    def timed(self) -> bool:
        """Whether every word has its times."""
        return bool(self.words) and all(word.start_s is not None and word.end_s is not None for word in self.words)


def transcript_of(heard: Score) -> Transcript | Unavailable | Failed:
    """What the metric `asr` gave for a sample, or why there is nothing that could be compared with a text: nobody
    speaks in it, its language is not the recogniser's, the recogniser failed."""
    figure = heard.figures[WORDS]
    if isinstance(figure, Unavailable | Failed):
        return figure
    return msgspec.convert(heard.details, Transcript)


def primary(tag: str) -> str:
    """ISO 639-1 of a BCP 47 tag: "zh" of "zh-Hans-CN" and of "cmn"; "" of ""."""
    first = re.split(r"[-_]", tag.strip().lower())[0]
    return _ISO.get(first, first)


def written(tag: str) -> str:
    """The same for a text: Cantonese is written as Chinese is, though it is another language to a recogniser."""
    language = primary(tag)
    return "zh" if language == "yue" else language


def language_of(sample: Sample, transcript: Transcript) -> str:
    """How a reply is `written`: as the sample says, else as the recogniser was told, else as what it took the sound
    for. "" where nobody knows."""
    return written(sample.language or transcript.asked_language or transcript.language)
