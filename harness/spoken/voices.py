"""The voices that can say a script's texts, and what each needs."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final

import numpy as np
from numpy.typing import NDArray

from sessions.errors import MissingExtra

Say = Callable[[str], NDArray[np.float32]]
"""Text → float32 (samples,) mono at the voice's rate."""


@dataclass(frozen=True, slots=True)
class Voice:
    """One of the voices.

    language: what it speaks · rate_hz: of its sound · weights: entries of the manifest · packages: by import name, all
    in the extra "embedded" · engine: name and version of how it is run · about: one line for people ·
    load: from the folders of the weights, in their order, to what speaks.
    """

    language: str
    rate_hz: int
    weights: tuple[str, ...]
    packages: tuple[str, ...]
    engine: str
    about: str
    load: Callable[..., Say]


def _michael(model: Path, voices: Path) -> Say:
    from servers.engines.kokoro import KokoroEngine

    return KokoroEngine(model / "kokoro-v1.0.int8.onnx", voices / "am_michael.bin").speak


def _heart(folder: Path) -> Say:
    from servers.engines.hibari import HibariEngine
    from sessions.audio import to_float

    engine = HibariEngine(folder)
    return lambda text: to_float(engine.speak(text))


VOICES: Final = MappingProxyType(
    {
        "michael": Voice(
            "en",
            24_000,
            ("kokoro-v1.0-int8", "kokoro-voices"),
            ("onnxruntime", "hibari"),
            "kokoro/1",
            "Kokoro's male voice, unlike the embedded assistant's",
            _michael,
        ),
        "heart": Voice(
            "en",
            24_000,
            ("hibari",),
            ("onnxruntime", "hibari"),
            "hibari/1",
            "hibari's female voice, which the embedded assistant has too",
            _heart,
        ),
    }
)
DEFAULTS: Final = MappingProxyType({"en": "michael"})
"""Language → the voice that is taken where a script names none."""


def check_packages(voice: Voice) -> None:
    """Raise `MissingExtra` where a package of the voice is not installed."""
    for package in voice.packages:
        if importlib.util.find_spec(package) is None:
            raise MissingExtra("hibari-tts" if package == "hibari" else package, "embedded")
