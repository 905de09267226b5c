"""The metric `asr`, loaded: silence settled, long sounds cut, words joined again, and what looks wrong flagged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import msgspec

from harness.from_recording.segments import Stretch
from harness.recognise.backend import RATE_HZ, Backend, Heard
from harness.recognise.languages import joined, spoken
from harness.recognise.loops import loops
from harness.recognise.speech import pieces, silence, stretches
from harness.recognise.word_times import in_sound
from metrics.result import Failed, Measured, Unavailable, Value
from metrics.scoring import FloatPcm, Piece, Score
from metrics.speech_quality.opinion import wrong_scale
from metrics.transcript import WORDS, Transcript, Word
from sessions.audio import resample, to_float
from sessions.errors import DuologueError, MetricUnavailable, SetupError
from sessions.scripts import load_script

_BUILT_IN: Final = ("facts", ("capital", "france"))
"""A shipped script, and words of its first turn that any recogniser of English hears."""


class Recogniser:
    """A `Scorer`. speech: how speech is told, see `SPEECH` · gate: whether silence is settled before the back end is
    asked · language: of samples whose language nobody said."""

    def __init__(self, backend: Backend, name: str, speech: str, *, gate: bool = True, language: str = "") -> None:
        self._backend, self._name, self._language = backend, name, spoken(language)
        self._speech = speech if gate else "none"
        self._gate = gate

    def check(self) -> str:
        """The first turn of a shipped script must be heard as what it says. An endpoint, which may charge for it, is
        not asked, nor is a back end that does not hear English."""
        if self._backend.at_once > 1:
            return ""
        script, wanted = _BUILT_IN
        clip = load_script(script).turns[0].clip
        try:
            text = self._backend.hear(to_float(resample(clip.pcm, clip.rate_hz, RATE_HZ)), "en").text
        except MetricUnavailable:
            return ""
        heard = text.lower()
        return "" if all(word in heard for word in wanted) else f"self-check: heard {text!r} in the built-in question"

    def score(self, pieces: Sequence[Piece]) -> Sequence[Score]:
        speech = [self._spoken(piece) for piece in pieces]
        if self._backend.at_once > 1 and len(pieces) > 1:
            with ThreadPoolExecutor(self._backend.at_once) as pool:
                heard = list(pool.map(self._hear, pieces, speech))
        else:
            heard = [self._hear(piece, found) for piece, found in zip(pieces, speech, strict=True)]
        return [self._flagged(one) for one in heard]

    def _spoken(self, piece: Piece) -> list[Stretch] | str:
        """Where somebody speaks, or why nobody does."""
        if self._gate and (why := silence(piece.samples)):
            return why
        found = stretches(piece.samples, self._speech)
        return found or f"it is audible, but no voice is in it ({self._speech})"

    def _hear(self, piece: Piece, speech: list[Stretch] | str) -> Transcript | DuologueError:
        if why := wrong_scale(piece.samples):  # clipped to noise, it would be heard as words that nobody said
            return MetricUnavailable(why)
        asked = spoken(piece.sample.language) or self._language
        if isinstance(speech, str):
            return self._transcript("", "", asked, no_speech=speech)
        parts = pieces(piece.samples, speech, self._backend.longest_s)
        try:
            heard, language, detected = self._all(piece.samples, parts, asked)
        except SetupError:
            raise
        except DuologueError as error:
            return error
        words = list[Word]()
        for part, one in zip(parts, heard, strict=True):
            samples, after_s = piece.samples[part.first : part.stop], part.first / RATE_HZ
            said = one.words or tuple(_untimed(one.text))
            words += in_sound(said, samples, after_s) if self._gate else said
        return self._transcript(joined((one.text for one in heard), language), detected, asked, words)

    def _all(self, samples: FloatPcm, parts: Sequence[Stretch], asked: str) -> tuple[list[Heard], str, str]:
        """What each part was heard as, the language that it was told, and the one that it takes the sound for.

        The longest part says which language that is: a sound that is cut is in one, and a "hmm" is in any.
        """
        longest = max(parts, key=lambda part: part.stop - part.first)
        first = self._backend.hear(samples[longest.first : longest.stop], asked)
        language = asked or first.language
        heard = [
            first if part is longest else self._backend.hear(samples[part.first : part.stop], language)
            for part in parts
        ]
        return heard, language, first.language

    def _transcript(
        self, text: str, language: str, asked: str, words: Sequence[Word] = (), *, no_speech: str = ""
    ) -> Transcript:
        return Transcript(text, language, asked, self._name, self._backend.model, list(words), no_speech)

    def _flagged(self, heard: Transcript | DuologueError) -> Score:
        if isinstance(heard, MetricUnavailable):
            return Score({WORDS: Unavailable(str(heard))})
        if isinstance(heard, DuologueError):
            return Score({WORDS: Failed(str(heard))})
        figure: Measured = Value(float(len(heard.words) or len(heard.text.split())))
        if heard.no_speech:
            figure = Unavailable(f"no speech: {heard.no_speech}")
        flags = [f"loop: {loop}" for loop in loops(heard.text)]
        if heard.language and heard.asked_language and heard.language != heard.asked_language:
            flags.append(f"sounds like {heard.language}: transcribed as {heard.asked_language}")
        if not heard.text and not heard.no_speech:
            flags.append("nothing understood")
        return Score({WORDS: figure}, flags, msgspec.to_builtins(heard))


def _untimed(text: str) -> Iterator[Word]:
    """The words of a part for which the back end gives none, so that those of the other parts do not pass for all."""
    return (Word(word) for word in text.split() if any(letter.isalnum() for letter in word))
