"""Whisper through faster-whisper (CTranslate2), from a folder, never from the network.

Greedy, at temperature 0, each window by itself: what was heard before never shapes what is heard next, and the same
sound gives the same words. A window is encoded once, for its language, its words and their times. Timestamp tokens are
decoded though none is used: without them Whisper drops sentences that are said again, and a reply that repeats itself
must be heard to do so (2 to 7 times the same sentence, 16 such sounds: none dropped with them, in 6 without).
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any, Final

from harness.recognise.backend import RATE_HZ, WINDOW_S, Asked, Heard, Kind
from harness.recognise.languages import joined
from harness.recognise.packages import hash_of, versions
from metrics.scoring import FloatPcm
from metrics.transcript import Word
from servers.engines import runtime
from sessions.errors import MetricUnavailable, SetupError
from sessions.weights import MANIFEST, found

DEFAULT_MODEL: Final = "whisper-base"
SETTINGS: Final = "greedy-1: beam 1, temperature 0, no earlier text, timestamp tokens, windows of at most 28 s"
PROMPTS: Final = {"zh": "以下是普通话的句子。"}
"""What the decoder reads first. Without it Whisper writes Mandarin in traditional characters as often as not."""
_WEIGHTS: Final = "model.bin"
_PREPENDED: Final = "\"'“¿([{-"
_APPENDED: Final = "\"'.。,，!！?？:：”)]}、"
_SUPPRESS: Final = [-1]
_INITIAL_TIMESTAMP: Final = 50
"""The first timestamp is at most 1 s, as OpenAI's own decoder has it."""
_STAMP_S: Final = 0.02
_UNHEARD_S: Final = 1.0
"""What is left of a window after its last timestamp and is worth another look."""


class FasterWhisper:
    """`folder` holds model.bin, config.json, tokenizer.json and a vocabulary. name: of the model, in transcripts."""

    longest_s = WINDOW_S
    at_once = 1

    def __init__(self, folder: Path, name: str, *, device: str = "cpu", threads: int = 0) -> None:
        runtime.prepare()
        from faster_whisper import WhisperModel

        self._whisper: Any = WhisperModel(
            str(folder), device=device, compute_type=compute_type(device), cpu_threads=threads, local_files_only=True
        )
        self.model = name
        many, token = self._whisper.model.is_multilingual, self._whisper.hf_tokenizer.token_to_id
        # Those of the largest model: not each has a token for all.
        known = self._whisper.supported_languages
        self._languages = {one for one in known if not many or token(f"<|{one}|>") is not None}
        self._lock = threading.Lock()

    def hear(self, samples: FloatPcm, language: str) -> Heard:
        heard, covered_s = self._window(samples, language)
        left_s = len(samples) / RATE_HZ - covered_s
        if not _UNHEARD_S <= left_s <= len(samples) / RATE_HZ - _UNHEARD_S:
            return heard
        # Whisper leaves what it takes for the beginning of a sentence to its next window.
        spoken = language or heard.language
        later = self.hear(samples[int(covered_s * RATE_HZ) :], spoken)
        words = (*heard.words, *(word.later(covered_s) for word in later.words))
        return Heard(joined((heard.text, later.text), spoken), heard.language, words)

    def _window(self, samples: FloatPcm, language: str) -> tuple[Heard, float]:
        """What one window was heard as, and up to which second of it Whisper said that it had listened."""
        from faster_whisper.transcribe import pad_or_trim

        with self._lock:
            features = self._whisper.feature_extractor(samples)
            frames = features.shape[-1] - 1
            encoded = self._whisper.encode(pad_or_trim(features))
            detected = self._detected(encoded)
            tokenizer = self._tokenizer(language or detected)
            decoded = self._decode(encoded, tokenizer, PROMPTS.get(language or detected, ""))
            tokens = [token for token in decoded if token < tokenizer.eot]
            words = self._words(encoded, tokenizer, tokens, frames)
        stamps = [token - tokenizer.timestamp_begin for token in decoded if token >= tokenizer.timestamp_begin]
        covered_s = _STAMP_S * stamps[-1] if stamps else len(samples) / RATE_HZ
        return Heard(str(tokenizer.decode(tokens)).strip(), detected, words), covered_s

    def _detected(self, encoded: Any) -> str:
        if not self._whisper.model.is_multilingual:
            return "en"
        token, _ = self._whisper.model.detect_language(encoded)[0][0]
        return str(token)[2:-2]

    def _tokenizer(self, language: str) -> Any:
        from faster_whisper.tokenizer import Tokenizer

        many = bool(self._whisper.model.is_multilingual)
        if language not in self._languages:
            hears = "English alone" if not many else f"not {language!r}"
            raise MetricUnavailable(f"the recogniser {self.model} hears {hears}; the sample is {language!r}")
        return Tokenizer(self._whisper.hf_tokenizer, many, task="transcribe", language=language)

    def _decode(self, encoded: Any, tokenizer: Any, prompt: str) -> list[int]:
        from faster_whisper.transcribe import get_suppressed_tokens

        before = tokenizer.encode(f" {prompt}") if prompt else []
        result = self._whisper.model.generate(
            encoded,
            [self._whisper.get_prompt(tokenizer, before, without_timestamps=False)],
            beam_size=1,
            sampling_temperature=0.0,
            max_length=self._whisper.max_length,
            suppress_blank=True,
            max_initial_timestamp_index=_INITIAL_TIMESTAMP,
            suppress_tokens=list(get_suppressed_tokens(tokenizer, list(_SUPPRESS))),
        )[0]
        return list(result.sequences_ids[0])

    def _words(self, encoded: Any, tokenizer: Any, tokens: list[int], frames: int) -> tuple[Word, ...]:
        """Times by the alignment of cross-attention and tokens, in steps of 20 ms."""
        from faster_whisper.transcribe import merge_punctuations

        aligned = self._whisper.find_alignment(tokenizer, [tokens], encoded, frames)
        found_words = aligned[0] if aligned else []
        merge_punctuations(found_words, _PREPENDED, _APPENDED)
        return tuple(
            Word(entry["word"].strip(), float(entry["start"]), float(entry["end"]), float(entry["probability"]))
            for entry in found_words
            if entry["word"].strip()
        )


def compute_type(device: str) -> str:
    """How the weights are used on a device."""
    return "float16" if device == "cuda" else "int8"


def _device() -> str:
    # CTranslate2 knows no other accelerator.
    return "cuda" if os.environ.get("DUOLOGUE_DEVICE", "cpu").startswith("cuda") else "cpu"


def _folder(model: str) -> tuple[Path, str, str]:
    """Where a model lies, its name, and the sha256 of its weights. Raises `MissingWeights` or `SetupError`."""
    name = model or DEFAULT_MODEL
    if name in MANIFEST:
        place = found(name)
        return place.path, name, place.sha256s[_WEIGHTS]
    path = Path(name).expanduser()
    if not path.is_dir():
        known = ", ".join(sorted(entry.name for entry in MANIFEST.values() if entry.role == "asr"))
        raise SetupError(f"faster-whisper has no model {name!r}", f"Known: {known}; or give a folder that holds one")
    mend = "Give the folder of a CTranslate2 Whisper"
    return path, path.name, hash_of(path / _WEIGHTS, "the recogniser's weights", mend)


def _make(asked: Asked) -> FasterWhisper:
    folder, name, _ = _folder(asked.model)
    try:
        return FasterWhisper(folder, name, device=_device())
    except RuntimeError as error:
        if _WEIGHTS not in str(error):
            raise
        what = str(error).partition("\n")[0]
        raise SetupError(f"the recogniser's weights in {folder} cannot be loaded ({what})", "Copy them anew") from error


def _identify(asked: Asked) -> dict[str, str]:
    packages = versions("embedded", faster_whisper="faster-whisper", ctranslate2="ctranslate2")
    _, name, sha256 = _folder(asked.model)
    return {
        **packages,
        "model": name,
        "weights": sha256,
        "decoding": SETTINGS,
        **{f"prompt {language}": prompt for language, prompt in PROMPTS.items()},
        "compute": compute_type(_device()),
    }


KIND: Final = Kind(_make, _identify)
