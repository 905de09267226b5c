"""Whisper through transformers, from a folder or from the hub's cache on this machine, never from the network.

`transformers` decodes as our other Whispers do: greedy, each window by itself, timestamp tokens. `uro-bench` is the
published form: its pipeline as it stands, the whole sound at once, whatever language it takes it for.
"""

from __future__ import annotations

import contextlib
import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from harness.recognise.backend import RATE_HZ, WINDOW_S, Asked, Heard, Kind
from harness.recognise.packages import hash_of, versions
from metrics.scoring import FloatPcm
from metrics.scoring.device import torch_device
from metrics.transcript import Word
from servers.engines import runtime
from sessions.errors import JudgeError, MetricUnavailable, MissingWeights, SetupError

SETTINGS: Final = "greedy-1: 1 beam, no sampling, no earlier text, timestamp tokens, windows of at most 28 s"
PUBLISHED: Final = "uro-bench-1: pipeline with transformers 4.44's defaults, no language, no chunks, no timestamps"
_PUBLISHED_DEFAULTS: Final = {"num_beams": 1, "max_new_tokens": 444}
"""Those of the transformers that it was published with; later pipelines search with 5 beams and stop at 256 tokens."""
_PUBLISHED_LONGEST_S: Final = 30
PUBLISHED_MODEL: Final = "openai/whisper-large-v3"
_FILES: Final = ("model.safetensors", "pytorch_model.bin")
"""Where the weights lie; those of large models in parts, which FILE.index.json names."""
_WEIGHTS: Final = "the recogniser's weights"
_MEND: Final = "Give a folder that save_pretrained made"


class TransformersWhisper:
    """place: a folder as `save_pretrained` makes it · name: of the model, in transcripts."""

    longest_s: float | None = WINDOW_S
    at_once = 1

    def __init__(self, place: Path, name: str) -> None:
        runtime.prepare()
        with _quiet():
            import transformers

            library: Any = transformers  # untyped in part
            device = torch_device()
            processor = library.AutoProcessor.from_pretrained(place, local_files_only=True)
            model = library.AutoModelForSpeechSeq2Seq.from_pretrained(
                place, local_files_only=True, dtype=_dtype(device.type), low_cpu_mem_usage=True
            )
            self._pipeline = library.pipeline(
                "automatic-speech-recognition",
                model=model.eval(),
                tokenizer=processor.tokenizer,
                feature_extractor=processor.feature_extractor,
                device=device,
            )
        self.model = name
        languages = getattr(model.generation_config, "lang_to_id", None) or {}
        self._languages = {token.strip("<|>"): number for token, number in languages.items()}

    def hear(self, samples: FloatPcm, language: str) -> Heard:
        detected = self._detected(samples)
        spoken = language or detected
        if spoken not in (self._languages or ("en",)):
            hears = f"not {spoken!r}" if self._languages else "English alone"
            raise MetricUnavailable(f"the recogniser {self.model} hears {hears}; the sample is {spoken!r}")
        settings: dict[str, Any] = {"num_beams": 1, "do_sample": False, "condition_on_prev_tokens": False}
        if self._languages:
            settings |= {"language": spoken, "task": "transcribe"}
        found = self._ask(samples, return_timestamps="word", generate_kwargs=settings)
        return Heard(found["text"].strip(), detected, tuple(_words(found.get("chunks", []), len(samples) / RATE_HZ)))

    def _ask(self, samples: FloatPcm, **asked: Any) -> Any:
        with _quiet():
            return self._pipeline({"raw": samples, "sampling_rate": RATE_HZ}, **asked)

    def _detected(self, samples: FloatPcm) -> str:
        """ISO 639-1 of what the model takes the sound for."""
        if not self._languages:
            return "en"
        with _quiet():
            features = self._pipeline.feature_extractor(samples, sampling_rate=RATE_HZ, return_tensors="pt")
            model = self._pipeline.model
            token = int(model.detect_language(features.input_features.to(model.device, model.dtype))[0])
        return next((name for name, number in self._languages.items() if number == token), "")


class Published(TransformersWhisper):
    """The recogniser of URO-Bench for English: what its pipeline gives, and its failure on more than 30 s."""

    longest_s = None

    def hear(self, samples: FloatPcm, language: str) -> Heard:
        if language == "zh":
            raise MetricUnavailable("as published, Chinese is heard by Paraformer: ask for the recogniser 'paraformer'")
        if len(samples) > _PUBLISHED_LONGEST_S * RATE_HZ:
            raise JudgeError("as published this fails: transformers 4.44 refuses more than 30 s without timestamps")
        # To transcribe is the default of OpenAI's repositories; a folder that lost it writes nonsense.
        task = {"task": "transcribe"} if self._languages else {}
        found = self._ask(samples, generate_kwargs=_PUBLISHED_DEFAULTS | task)
        return Heard(found["text"].strip())


def _words(chunks: list[dict[str, Any]], end_s: float) -> Iterator[Word]:
    for chunk in chunks:
        start_s, stop_s = chunk["timestamp"]
        if text := chunk["text"].strip():
            start = 0.0 if start_s is None else float(start_s)
            # The last word's end is left open where the sound ends in it.
            yield Word(text, start, max(start, end_s if stop_s is None else float(stop_s)))


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without remarks to developers about settings that are on their way out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)
        warnings.simplefilter("ignore", DeprecationWarning)
        warnings.filterwarnings("ignore", module=r"transformers\..*")
        yield


def _dtype(device: str) -> Any:
    import torch

    return torch.float16 if device == "cuda" else torch.float32


def _place(model: str) -> Path:
    """The folder of a model: as given, else that of the hub's cache. Raises `SetupError` or `MissingWeights`."""
    if not model:
        raise SetupError(
            "the recogniser 'transformers' needs a model", "Ask for transformers:FOLDER or transformers:NAME"
        )
    folder = Path(model).expanduser()
    if folder.is_dir():
        return folder
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HFValidationError, LocalEntryNotFoundError

    try:
        return Path(snapshot_download(model, local_files_only=True))
    except (LocalEntryNotFoundError, HFValidationError) as error:
        what = f"{model!r} is no folder, and no such model is in the hub's cache on this machine"
        raise MissingWeights(what, f"Run: hf download {model}") from error


def _make(asked: Asked) -> TransformersWhisper:
    return TransformersWhisper(_place(asked.model), _name(asked.model))


def _make_published(asked: Asked) -> Published:
    model = asked.model or PUBLISHED_MODEL
    return Published(_place(model), _name(model))


def _name(model: str) -> str:
    folder = Path(model).expanduser()
    return folder.name if folder.is_dir() else model


def _identified(asked: Asked, settings: str) -> dict[str, str]:
    packages = versions("score", transformers="transformers", torch="torch")
    return {**packages, "model": _name(asked.model), **_hashes(_place(asked.model)), "decoding": settings}


def _hashes(place: Path) -> dict[str, str]:
    """sha256 of what transformers would load, of each part where the weights lie in several."""
    files = next((files for name in _FILES if (files := _parts(place, name))), _FILES[:1])
    return {
        "weights" if file in _FILES else f"weights {file}": hash_of(place / file, _WEIGHTS, _MEND) for file in files
    }


def _parts(place: Path, name: str) -> list[str]:
    """The files that hold the weights of that name; none where there are none."""
    index = place / f"{name}.index.json"
    if (place / name).exists() or not index.exists():
        return [name] if (place / name).exists() else []
    try:
        return sorted(set(json.loads(index.read_bytes())["weight_map"].values()))
    except (ValueError, KeyError, AttributeError, TypeError) as error:
        raise MissingWeights(f"{_WEIGHTS}: {index} names no files", _MEND) from error


def _identify(asked: Asked) -> dict[str, str]:
    return _identified(asked, SETTINGS)


def _identify_published(asked: Asked) -> dict[str, str]:
    return _identified(Asked(asked.model or PUBLISHED_MODEL), PUBLISHED)


KIND: Final = Kind(_make, _identify)
PUBLISHED_KIND: Final = Kind(_make_published, _identify_published, settles_silence=False)
