"""Whisper through faster-whisper (CTranslate2, int8, CPU), from a folder, never from the network."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import soxr

from servers.engines import runtime
from servers.speech_model import Pcm

RATE_HZ: Final = 16_000
_FULL_SCALE: Final = np.float32(32768.0)
_SHORTEST_S: Final = 0.1  # below this Whisper can only invent
_ONE_WINDOW_S: Final = 28.0  # Whisper sees 30 s at once; longer audio is cut by its timestamps


@dataclass(frozen=True, slots=True)
class Transcript:
    """What was understood.

    text: "" where nothing was said · language: ISO 639-1, "" where nothing was said · log_probability: mean per token
    of the least certain segment, None where nothing was said.
    """

    text: str
    language: str = ""
    log_probability: float | None = None


class WhisperEngine:
    """Speech to text. `folder` holds a CTranslate2 Whisper: model.bin, config.json, tokenizer.json, vocabulary.txt.

    language: ISO 639-1; None detects it, which costs a second pass of the encoder. Calls from several threads are
    safe; the model takes them one after another, as one call already fills `threads` cores.
    """

    def __init__(self, folder: Path, *, threads: int = 2, language: str | None = "en") -> None:
        runtime.prepare()
        from faster_whisper import WhisperModel

        self._model: Any = WhisperModel(str(folder), device="cpu", compute_type="int8", cpu_threads=threads)
        self._language = language

    def warm_up(self) -> None:
        """Run the voice detector, encoder and decoder once, so that the first turn does not pay for it."""
        silence = np.zeros(RATE_HZ, np.float32)
        self._decode(silence, only_speech=True)
        self._decode(silence, only_speech=False)

    def transcribe(self, pcm: Pcm, rate_hz: int) -> Transcript:
        """The words in `pcm`: int16 (samples,) mono at `rate_hz`.

        Whisper invents words for silence and noise, so a voice detector is asked first: no speech, no text.
        """
        if len(pcm) < _SHORTEST_S * rate_hz:
            return Transcript("")
        audio = pcm.astype(np.float32) / _FULL_SCALE
        if rate_hz != RATE_HZ:
            audio = soxr.resample(audio, rate_hz, RATE_HZ)
        return self._decode(audio, only_speech=True)

    def _decode(self, audio: np.ndarray[Any, np.dtype[np.float32]], *, only_speech: bool) -> Transcript:
        segments, info = self._model.transcribe(
            audio,
            language=self._language,
            beam_size=1,
            temperature=0.0,
            condition_on_previous_text=False,  # one invention must not lead to the next
            without_timestamps=len(audio) <= _ONE_WINDOW_S * RATE_HZ,
            vad_filter=only_speech,
        )
        found = list(segments)  # decoding happens here
        text = " ".join(segment.text.strip() for segment in found).strip()
        if not text:
            return Transcript("")
        return Transcript(text, str(info.language), min(float(segment.avg_logprob) for segment in found))
