"""Silences inside the speech, and words that last too long, from the recogniser's word times."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Final

from metrics.text.alignment import align
from metrics.text.artefacts.tokens import Token
from metrics.transcript import Transcript, Word

PAUSE_S: Final = 1.0
BETWEEN_SENTENCES_S: Final = 2.0
"""Where a sentence of the text ends, a speaker may take longer."""
STRETCHED_S: Final = (0.5, 0.05)
"""No word may last longer than the first, and the second for each letter. In clean speech of ours each keeps 150 ms
clear of that. Where a recogniser swallows a word that is said again, or a noise, its neighbour lasts."""
_USUAL: Final = 0.4
"""The share of that limit which the middle word of a reply may last; slower speakers have more time for each."""
_SPELLED: Final = 3
"""Letters in the name of one letter: "ORG" is spelled."""


@dataclass(frozen=True, slots=True)
class Pause:
    """A silence. after: the word before it · at_s: when it begins."""

    after: str
    at_s: float
    seconds: float


def pauses(transcript: Transcript, heard: Sequence[Token], own: Sequence[Token]) -> list[Pause]:
    """Silences over 1 s between two words, over 2 s where the text's own sentence ends. All words are timed."""
    between = _sentence_ends(heard, own)
    found = []
    for word, following in pairwise(transcript.words):
        before, after = _times(word), _times(following)
        limit = BETWEEN_SENTENCES_S if after[0] in between else PAUSE_S
        if after[0] - before[1] > limit:
            found.append(Pause(word.text, before[1], after[0] - before[1]))
    return found


def stretched(transcript: Transcript) -> list[Word]:
    """Words that last too long for their letters at the reply's own pace. Numbers are left out: a written one is many
    spoken words; so are characters that stand for syllables."""
    base, each = STRETCHED_S
    shares = [
        (word, (_times(word)[1] - _times(word)[0]) / (base + each * letters))
        for word in transcript.words
        if (letters := _letters(word.text))
    ]
    slower = max(1.0, median([share for _, share in shares]) / _USUAL) if shares else 1.0
    return [word for word, share in shares if share > slower]


def _letters(word: str) -> int:
    """0 where its length says nothing of how long it lasts."""
    letters = [letter for letter in word if letter.isalpha()]
    if any(map(str.isdigit, word)) or any(ord(letter) >= 0x2E80 for letter in letters):
        return 0
    return len(letters) * (_SPELLED if len(letters) > 1 and word.isupper() else 1)


def longest_s(transcript: Transcript) -> float:
    """The longest silence between two words, 0 where they leave none."""
    gaps = [_times(after)[0] - _times(before)[1] for before, after in pairwise(transcript.words)]
    return round(max(0.0, *gaps), 6) if gaps else 0.0


def _times(word: Word) -> tuple[float, float]:
    return word.start_s or 0.0, word.end_s or 0.0


def _sentence_ends(heard: Sequence[Token], own: Sequence[Token]) -> set[float]:
    """When the words begin before which a sentence of the text ends; of the transcript, where there is no text."""
    found = set()
    if not own:
        pairs = pairwise(heard)
        return {after.start_s or 0.0 for before, after in pairs if before.ends}
    of_own, of_heard = iter(own), iter(heard)
    ended = False
    for step in align([token.text for token in own], [token.text for token in heard]):
        meant = next(of_own) if step.edit != "insert" else None
        token = next(of_heard) if step.edit != "delete" else None
        if token and ended:
            found.add(token.start_s or 0.0)
        ended = bool(meant and meant.ends) or (ended and token is None)
    return found
