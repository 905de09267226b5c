"""From a turn of the file to its sound: one file, spoken text, or several pieces with pauses between them.

A pause lasts from the last speech sample of the piece before it to the first one of the piece after it: what a piece
has of decay and of lead-in sounds within the pause. Speech is what `speech_end/energy-1` calls so: 5 ms blocks within
35 dB of the piece's loudest.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from sessions import audio, sidecar
from sessions.audio import Clip, Pcm, Source
from sessions.gate import find_onset
from sessions.scripts.format import TurnFile
from sessions.scripts.script import ScriptTurn, Start
from sessions.speech_end import ANNOTATION, RANGE_DB, FindEnd, SpeechEnd, block_edges, block_powers

_FADE_MS = 5


class Speak(Protocol):
    """A voice. Its sound comes as a file, so that it is made once."""

    def __call__(self, text: str, *, voice: str, language: str) -> Path:
        """An audio file in which `text` is said, with the sidecar that tells where it ends.

        voice: "" for the one that the language has. Raises `SetupError` where no voice is installed for it.
        """
        ...


@dataclass(frozen=True, slots=True)
class Piece:
    """A sound and what a script says of it. end_sample: of its speech, at the file's own rate; None: to be found."""

    path: Path
    source: Source
    end_sample: int | None = None


@dataclass(frozen=True, slots=True)
class Utterance:
    """clip: as sent · end: of its speech · pauses: (first sample, samples), indices into the clip."""

    clip: Clip
    end: SpeechEnd
    pauses: tuple[tuple[int, int], ...] = ()


def one_piece(piece: Piece, rate_hz: int, find_end: FindEnd) -> Utterance:
    """The whole file at `rate_hz`. Raises `BadAudio` where no speech is found in it."""
    end = _speech_end(piece, find_end).at_rate(rate_hz)
    return Utterance(_long_enough(piece.source.to_clip(rate_hz), end), end)


def joined(pieces: Sequence[tuple[Utterance, int]]) -> Utterance:
    """Sounds at one rate, each with the pause before it in milliseconds (the first one has none), as one utterance."""
    sounds = [sound for sound, _ in pieces]
    rate_hz = sounds[0].clip.rate_hz
    gaps = [pause_ms * rate_hz // 1000 for _, pause_ms in pieces[1:]]
    pcm = sounds[0].clip.pcm.astype(np.int64)
    stop = sounds[0].end.index_samples + 1
    pauses = []
    for gap, sound in zip(gaps, sounds[1:], strict=True):
        first = _first_speech_sample(sound.clip)
        lead = min(first, gap)
        offset = stop + gap - lead
        kept = _fade(sound.clip.pcm[first - lead :].astype(np.int64), rate_hz, into=lead < first)
        pcm = _fade(pcm[: stop + gap], rate_hz, into=False, out=stop + gap < len(pcm) and gap > 0)
        pcm = np.pad(pcm, (0, offset + len(kept) - len(pcm)))
        pcm[offset:] += kept
        if gap:
            pauses.append((stop, gap))
        stop = offset + sound.end.index_samples + 1 - (first - lead)
    notes = tuple(dict.fromkeys(note for sound in sounds for note in sound.clip.notes))
    clip = Clip(np.clip(pcm, -32768, 32767).astype(np.int16), rate_hz, notes)
    end = SpeechEnd(stop - 1, rate_hz, sounds[-1].end.method)
    return Utterance(_long_enough(clip, end), end, tuple(pauses))


def silence(duration_ms: int, rate_hz: int) -> Utterance:
    """Nothing, for so long. Its speech ends before its first sample: at its start."""
    samples = duration_ms * rate_hz // 1000
    return Utterance(Clip(np.zeros(samples, dtype=np.int16), rate_hz), SpeechEnd(-1, rate_hz, ANNOTATION))


def script_turn(utterance: Utterance, path: Path | None, turn: TurnFile, text: str, language: str) -> ScriptTurn:
    """An utterance with all that its turn says of it."""
    clip, at_ms = utterance.clip, turn.start.at_ms
    start = Start(turn.start.after, turn.start.gap_ms, None, turn.start.timeout_s)
    silent = turn.silence_ms is not None
    return ScriptTurn(
        clip=clip,
        audio_path=path,
        text=text,
        speech_end=utterance.end,
        start=start if at_ms is None else replace(start, after="at", gap_ms=0, at_ms=at_ms),
        sha256=audio.sha256(clip),
        kind="silence" if silent else turn.kind,
        onset_sample=0 if silent else onset_sample(clip),
        pauses=utterance.pauses,
        watch_ms=turn.watch_ms,
        reference=turn.reference,
        keywords=turn.keywords,
        rubric=turn.rubric,
        language=turn.language or language,
    )


def onset_sample(clip: Clip) -> int:
    """The first audible sample of a clip by `gate/1`; where nothing in it reaches the gate, its first speech sample."""
    found = find_onset(clip.pcm, clip.rate_hz).index
    return _first_speech_sample(clip) if found is None else found


def _first_speech_sample(clip: Clip) -> int:
    """The first sample of the first block within 35 dB of the loudest one."""
    edges = block_edges(len(clip.pcm), clip.rate_hz)
    powers = block_powers(clip.pcm, edges)
    return int(edges[np.flatnonzero(powers >= powers.max() * 10 ** (-RANGE_DB / 10))[0]])


def _fade(pcm: NDArray[np.int64], rate_hz: int, *, into: bool, out: bool = False) -> NDArray[np.int64]:
    """A ramp of 5 ms where sound was cut, so that the cut is no click."""
    ramp = np.linspace(0.0, 1.0, min(rate_hz * _FADE_MS // 1000, len(pcm)))
    faded = pcm.astype(np.float64)
    if into:
        faded[: len(ramp)] *= ramp
    if out:
        faded[len(pcm) - len(ramp) :] *= ramp[::-1]
    return np.rint(faded).astype(np.int64)


def _speech_end(piece: Piece, find_end: FindEnd) -> SpeechEnd:
    if piece.end_sample is not None:
        return SpeechEnd(piece.end_sample, piece.source.rate_hz, ANNOTATION)
    noted = sidecar.read(piece.path, piece.source)
    if noted is not None:
        return noted
    return find_end(piece.source.samples, piece.source.rate_hz, name=str(piece.path))


def _long_enough(clip: Clip, end: SpeechEnd) -> Clip:
    """The clip with the sample of its speech end in it.

    Lengths are rounded and the end is rounded up: speech up to a file's last sample can end one sample after the clip.
    """
    missing = end.index_samples + 1 - len(clip.pcm)
    if missing <= 0:
        return clip
    pcm: Pcm = np.pad(clip.pcm, (0, missing))
    return Clip(pcm, clip.rate_hz, (*clip.notes, f"{missing} sample of silence added"))
