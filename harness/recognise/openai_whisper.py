"""Whisper through OpenAI's own package, from a checkpoint on this machine, never from the network.

Greedy, at temperature 0, each window by itself, with timestamp tokens, as our other Whispers.
"""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any, Final

from harness.recognise.backend import WINDOW_S, Asked, Heard, Kind
from harness.recognise.packages import hash_of, versions
from metrics.scoring import FloatPcm
from metrics.scoring.device import torch_device
from metrics.transcript import Word
from servers.engines import runtime
from sessions.errors import MetricUnavailable, MissingWeights, SetupError

SETTINGS: Final = "greedy-1: no beams, temperature 0, no earlier text, timestamp tokens, windows of at most 28 s"


class OpenaiWhisper:
    """path: a checkpoint, `.pt` · name: of the model, in transcripts."""

    longest_s = WINDOW_S
    at_once = 1

    def __init__(self, path: Path, name: str) -> None:
        runtime.prepare()
        import whisper

        device = torch_device()
        self._fp16 = device.type == "cuda"
        self._whisper: Any = whisper.load_model(str(path), device=device)
        self.model = name

    def hear(self, samples: FloatPcm, language: str) -> Heard:
        from whisper.tokenizer import LANGUAGES

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            detected = self._detected(samples)
        spoken = language or detected
        many = self._whisper.is_multilingual
        # The end of the table is known to the largest model alone.
        if spoken not in (list(LANGUAGES)[: self._whisper.num_languages] if many else ["en"]):
            hears = f"not {spoken!r}" if many else "English alone"
            raise MetricUnavailable(f"the recogniser {self.model} hears {hears}; the sample is {spoken!r}")
        with warnings.catch_warnings():
            # Without Triton it takes the slower of its two ways to the same times; its vocabulary it leaves open.
            warnings.filterwarnings("ignore", message="Failed to launch Triton kernels")
            warnings.simplefilter("ignore", ResourceWarning)
            found: Any = self._whisper.transcribe(
                samples,
                language=spoken,
                temperature=0.0,
                condition_on_previous_text=False,
                no_speech_threshold=None,
                logprob_threshold=None,
                compression_ratio_threshold=None,
                word_timestamps=True,
                fp16=self._fp16,
                verbose=None,
            )
        words = tuple(
            Word(word["word"].strip(), float(word["start"]), float(word["end"]), float(word["probability"]))
            for segment in found["segments"]
            for word in segment["words"]
            if word["word"].strip()
        )
        return Heard(str(found["text"]).strip(), detected, words)

    def _detected(self, samples: FloatPcm) -> str:
        if not self._whisper.is_multilingual:
            return "en"
        from whisper.audio import N_FRAMES, log_mel_spectrogram, pad_or_trim

        mel = log_mel_spectrogram(samples, self._whisper.dims.n_mels)
        window = pad_or_trim(mel, N_FRAMES).to(self._whisper.device)
        _, probabilities = self._whisper.detect_language(window.half() if self._fp16 else window)
        return str(max(probabilities, key=probabilities.get))


def _path(model: str) -> Path:
    """A checkpoint: as given, else the one of that name where the package keeps what it has downloaded."""
    if not model:
        raise SetupError("the recogniser 'openai-whisper' needs a model", "Ask for openai-whisper:FILE.pt")
    cache = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser() / "whisper" / f"{model}.pt"
    for path in (Path(model).expanduser(), cache):
        if path.is_file():
            return path
    raise MissingWeights(f"{model!r} is no file, and {cache} is not there", "Give the path of a checkpoint (.pt)")


def _make(asked: Asked) -> OpenaiWhisper:
    path = _path(asked.model)
    return OpenaiWhisper(path, path.stem)


def _identify(asked: Asked) -> dict[str, str]:
    packages = versions("whisper", whisper="openai-whisper", torch="torch")
    path = _path(asked.model)
    sha256 = hash_of(path, "the recogniser's weights", "Give the path of a checkpoint (.pt)")
    return {**packages, "model": path.stem, "weights": sha256, "decoding": SETTINGS}


KIND: Final = Kind(_make, _identify)
