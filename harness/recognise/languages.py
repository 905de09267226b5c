"""Languages as Whisper calls them, what others call the same ones, and how their texts are joined."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from metrics.transcript import UNSPACED, primary

_WHISPERS: Final = {"nb": "no", "fil": "tl", "jv": "jw"}
"""Tags of languages that Whisper, and the services that run it, know by another."""
_NAMES: Final = {
    "af": "afrikaans", "am": "amharic", "ar": "arabic", "as": "assamese", "az": "azerbaijani", "ba": "bashkir",
    "be": "belarusian", "bg": "bulgarian", "bn": "bengali", "bo": "tibetan", "br": "breton", "bs": "bosnian",
    "ca": "catalan, valencian", "cs": "czech", "cy": "welsh", "da": "danish", "de": "german", "el": "greek",
    "en": "english", "es": "spanish, castilian", "et": "estonian", "eu": "basque", "fa": "persian, farsi",
    "fi": "finnish", "fo": "faroese", "fr": "french", "gl": "galician", "gu": "gujarati", "ha": "hausa",
    "haw": "hawaiian", "he": "hebrew", "hi": "hindi", "hr": "croatian", "ht": "haitian creole, haitian",
    "hu": "hungarian", "hy": "armenian", "id": "indonesian", "is": "icelandic", "it": "italian", "ja": "japanese",
    "jw": "javanese", "ka": "georgian", "kk": "kazakh", "km": "khmer", "kn": "kannada", "ko": "korean", "la": "latin",
    "lb": "luxembourgish, letzeburgesch", "ln": "lingala", "lo": "lao", "lt": "lithuanian", "lv": "latvian",
    "mg": "malagasy", "mi": "maori", "mk": "macedonian", "ml": "malayalam", "mn": "mongolian", "mr": "marathi",
    "ms": "malay", "mt": "maltese", "my": "myanmar, burmese", "ne": "nepali", "nl": "dutch, flemish", "nn": "nynorsk",
    "no": "norwegian, bokmål", "oc": "occitan", "pa": "punjabi, panjabi", "pl": "polish", "ps": "pashto, pushto",
    "pt": "portuguese", "ro": "romanian, moldavian, moldovan", "ru": "russian", "sa": "sanskrit", "sd": "sindhi",
    "si": "sinhala, sinhalese", "sk": "slovak", "sl": "slovenian", "sn": "shona", "so": "somali", "sq": "albanian",
    "sr": "serbian", "su": "sundanese", "sv": "swedish", "sw": "swahili", "ta": "tamil", "te": "telugu", "tg": "tajik",
    "th": "thai", "tk": "turkmen", "tl": "tagalog, filipino", "tr": "turkish", "tt": "tatar", "uk": "ukrainian",
    "ur": "urdu", "uz": "uzbek", "vi": "vietnamese", "yi": "yiddish", "yo": "yoruba", "yue": "cantonese",
    "zh": "chinese, mandarin",
}  # fmt: skip
_CODES: Final = {name: code for code, names in _NAMES.items() for name in names.split(", ")}


def spoken(tag: str) -> str:
    """What Whisper calls the language of a BCP 47 tag: "no" of "nb-NO", "zh" of "zh-Hans"; "" of ""."""
    language = primary(tag)
    return _WHISPERS.get(language, language)


def named(said: str) -> str:
    """The same of what a service calls a language, in English ("swedish") or by a tag; "" where nobody knows it."""
    name = said.strip().lower()
    code = _CODES.get(name) or spoken(name)
    return code if len(code) == 2 or code in _NAMES else ""


def joined(texts: Iterable[str], language: str) -> str:
    """Parts of one transcript in a row: a language without spaces between words has none between them either."""
    return ("" if language in UNSPACED else " ").join(text for text in texts if text)
