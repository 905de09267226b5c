"""Words put where there is sound.

A recogniser's word times come from where its attention lay, and run over into the pauses beside a word. What can be
heard is known to 5 ms, so each word is narrowed to the stretch of sound that holds most of it.

The first word is another matter: the alignment begins with the sound, so whatever the recogniser left out before it, a
"hmm" or a beep, lies in that word's time too, and may be longer than the word. It lies in the last stretch that leaves
time enough to say it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from harness.recognise.backend import RATE_HZ
from metrics.scoring import FloatPcm
from metrics.transcript import Word
from sessions.audio import to_pcm16
from sessions.gate import audible_runs

WORD_TIMES: Final = "word-times/1"
_LETTER_S: Final = 0.025
"""Nobody says a letter faster."""
_BRIDGE: Final = RATE_HZ * 150 // 1000
"""The closure of a stop inside a word is no pause."""


def in_sound(words: Sequence[Word], samples: FloatPcm, after_s: float = 0.0) -> tuple[Word, ...]:
    """`words` of float32 (n,) mono at 16 kHz, narrowed to what is audible, and `after_s` later.

    A word in whose time nothing is audible, or that has no time, keeps what it has.
    """
    sounds = _sounds(samples)
    placed = (_narrowed(word, sounds, first=at == 0) for at, word in enumerate(words))
    return tuple(word.later(after_s) for word in placed)


def _sounds(samples: FloatPcm) -> list[tuple[float, float]]:
    """Start and end, in seconds, of each stretch of sound."""
    joined: list[tuple[int, int]] = []
    for first, stop in audible_runs(to_pcm16(samples), RATE_HZ):
        if joined and first - joined[-1][1] < _BRIDGE:
            joined[-1] = (joined[-1][0], stop)
        else:
            joined.append((first, stop))
    return [(first / RATE_HZ, stop / RATE_HZ) for first, stop in joined]


def _narrowed(word: Word, sounds: Sequence[tuple[float, float]], *, first: bool) -> Word:
    if word.start_s is None or word.end_s is None:
        return word
    shares = [(max(word.start_s, start), min(word.end_s, end)) for start, end in sounds]
    start, end = max(shares, key=lambda share: share[1] - share[0], default=(0.0, 0.0))
    if first:
        enough_s = _LETTER_S * len(word.text)
        start, end = next((share for share in reversed(shares) if share[1] - share[0] >= enough_s), (start, end))
    return Word(word.text, start, end, word.probability) if end > start else word
