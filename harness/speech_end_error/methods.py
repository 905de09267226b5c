"""The methods that find the end of speech, by the name that a user asks for them with."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from functools import partial
from types import MappingProxyType

from sessions.audio import FloatPcm, Pcm
from sessions.errors import MissingExtra
from sessions.speech_end import ENERGY_1, FLOOR_1, SILERO_1, FindEnd, FrameDetector, SpeechEnd, energy_1, silero_1

_SILERO_WEIGHTS = "silero-vad-v6"


def load_energy() -> FindEnd:
    """`speech_end/energy-1`: always at hand."""
    return energy_1


def load_silero() -> FindEnd:
    """`speech_end/silero-1`. Raises `MissingExtra` or `MissingWeights`, each naming the command that mends it."""
    return partial(silero_1, silero_detector())


def load_floor() -> FindEnd:
    """`speech_end/floor-1`: always at hand; what a microphone's turns end by."""
    from harness.microphone.detector import floor_1

    return floor_1


LOADERS = MappingProxyType({"energy-1": load_energy, "floor-1": load_floor, "silero": load_silero})
VERSIONED = MappingProxyType({"energy-1": ENERGY_1, "floor-1": FLOOR_1, "silero": SILERO_1})
"""Short name → the method's name in results."""


def finder(name: str) -> FindEnd:
    """The method that `name` stands for; it loads what it needs when it is used first."""
    return partial(_find, LOADERS[name])


def _find(load: Callable[[], FindEnd], samples: Pcm | FloatPcm, rate_hz: int, *, name: str) -> SpeechEnd:
    return load()(samples, rate_hz, name=name)


@functools.cache
def silero_detector() -> FrameDetector:
    """Silero's detector, loaded once. Raises `MissingExtra` or `MissingWeights`."""
    if importlib.util.find_spec("onnxruntime") is None:
        raise MissingExtra("onnxruntime", "embedded")
    from servers.engines.silero import SileroModel
    from sessions.weights import folder

    return SileroModel(folder(_SILERO_WEIGHTS)).detector()
