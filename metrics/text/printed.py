"""Words of a transcript as they are printed: recognisers cut them at apostrophes, hyphens and inside numbers.

Whisper hears "l'eau" as "l" and "'eau", "laissez-moi" as "laissez" and "-moi", "3.5" as "3" and ".5"; each piece with
its own times. Others do not, so words that are counted or compared are joined first.
"""

from __future__ import annotations

import re
from typing import Final

from metrics.transcript import Transcript, Word

_LETTER: Final = r"[^\W_]"
_INSIDE: Final = re.compile(rf"{_LETTER}['’‐‑-]{_LETTER}|\d[.,:]\d")
"""What is one word though a mark stands in it: letters around an apostrophe or a hyphen, digits around a point."""


def printed(transcript: Transcript) -> list[Word]:
    """Its words in order, pieces of one joined as the text has them: from the first one's start to the last one's end,
    with the mean of their probabilities. Where the text has a space or no such mark, nothing is joined."""
    groups: list[list[Word]] = []
    texts: list[str] = []
    text, first, stop = transcript.text, -1, 0
    for word in transcript.words:
        at = _place(text, word.text, stop)
        if at >= 0 and first >= 0 and _one_word(text, stop, at):
            groups[-1].append(word)
            texts[-1] = text[first : at + len(word.text)]
        else:
            groups.append([word])
            texts.append(word.text)
            first = at
        stop = at + len(word.text) if at >= 0 else stop
    return [_joined(group, as_printed) for group, as_printed in zip(groups, texts, strict=True)]


def _place(text: str, word: str, stop: int) -> int:
    """Where `word` is printed, from `stop` on: right there, or where no letter stands before it; -1 for nowhere."""
    at = text.find(word, stop)
    while at > stop and text[at - 1].isalnum():
        at = text.find(word, at + 1)
    return at


def _one_word(text: str, stop: int, at: int) -> bool:
    """Whether what ends at `stop` and what begins at `at` are printed as one; the mark may be in either, or in none."""
    around = _INSIDE.search(text, max(stop - 2, 0), at + 2) if at - stop <= 1 else None
    return around is not None and around.start() < stop and around.end() > at


def _joined(pieces: list[Word], text: str) -> Word:
    if len(pieces) == 1:
        return pieces[0]
    sure = [piece.probability for piece in pieces if piece.probability is not None]
    mean = sum(sure) / len(sure) if len(sure) == len(pieces) else None
    return Word(text, pieces[0].start_s, pieces[-1].end_s, mean)
