"""Distill-MOS: general quality of speech, by a small model distilled from XLS-R.

Model: Microsoft's, as the package `distillmos` 0.9.1 ships it (B. Stahl, H. Gamper, arXiv:2502.05356). Its network is
built by that package; cutting into windows is done here by the same rule, so that an hour takes no more memory than a
minute. The numbers are those of `distillmos.ConvTransformerSQAModel`, to 1e-4.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import math
import sys
import types
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from metrics.scoring import Figure, FloatPcm, Metric, Options, Scorer
from metrics.scoring.device import torch_device
from metrics.scoring.extras import require, weight_hashes
from metrics.speech_quality.opinion import MosScorer, Opinion
from metrics.speech_quality.windows import spread
from sessions.weights import folder

RATE_HZ = 16_000
PACKAGES = "distillmos==0.9.1 xls-r-sqa==0.1.0"
_WINDOW_SAMPLES = 122_880
_HOP_SAMPLES = 16_000
_MOST_WINDOWS = 600
_AT_ONCE = 32
"""Windows per pass, except on a CPU, where several at once are no faster and take 0.1 GB each."""

METRIC = Metric(
    name="distillmos",
    version="1",
    purpose="Distill-MOS: general quality of speech; the nearest to UTMOS where its weights are not to be had",
    figures=(
        Figure(
            "distillmos",
            "MOS",
            "higher",
            "Distill-MOS",
            "mean over 7.68 s windows at most 1 s apart; arXiv:2502.05356",
        ),
    ),
    make="metrics.speech_quality.distillmos:make",
    identify="metrics.speech_quality.distillmos:identify",
    rate_hz=RATE_HZ,
    reads=(),
    languages=("en",),
    extra="score",
    on_device=True,
    batch=8,
)


def identify(options: Options) -> dict[str, str]:
    """Raises `MissingExtra`, `MissingWeights`."""
    for package in ("torch", "distillmos", "xls_r_sqa"):
        # Their own requirements name torchaudio, which breaks beside a CPU torch: an extra cannot install them.
        require(package, METRIC.extra, f"Run: make score (pip install --no-deps {PACKAGES})")
    return {**weight_hashes("distillmos"), "network": PACKAGES}


def make(options: Options) -> Scorer:
    return MosScorer(METRIC, Distillmos(folder("distillmos") / "distill_mos_v7.pt"), "distillmos", margin=1.0)


class Distillmos:
    """weights: the checkpoint; only its tensors are read."""

    def __init__(self, weights: Path) -> None:
        import torch

        self._device = torch_device()
        model = _network()
        model.load_state_dict(torch.load(weights, map_location="cpu", weights_only=True)["model"])
        self._model = model.eval().requires_grad_(False).to(self._device)

    def listen(self, sounds: Sequence[FloatPcm], rates_hz: Sequence[int]) -> list[Opinion]:
        """At 16 kHz. A sound shorter than 7.68 s is filled with zeros, as published."""
        return [self._opinion(sound) for sound in sounds]

    def _opinion(self, sound: FloatPcm) -> Opinion:
        import torch

        if len(sound) < _WINDOW_SAMPLES:
            sound = np.pad(sound, (0, _WINDOW_SAMPLES - len(sound)))
        starts, flags = spread(window_starts(len(sound)), _MOST_WINDOWS)
        heard: list[float] = []
        at_once = 1 if self._device.type == "cpu" else _AT_ONCE
        for at in range(0, len(starts), at_once):
            windows = np.stack([sound[start : start + _WINDOW_SAMPLES] for start in starts[at : at + at_once]])
            with torch.inference_mode():
                heard += self._model(torch.from_numpy(windows).to(self._device)).flatten().tolist()
        return Opinion({"distillmos": math.fsum(heard) / len(heard)}, flags)


def window_starts(samples: int) -> list[int]:
    """Where the windows of a sound of so many samples (at least one window long) begin: evenly, at most 1 s apart."""
    over = samples - _WINDOW_SAMPLES
    hops = math.ceil(over / _HOP_SAMPLES) + 1
    return [int(place * over) for place in np.linspace(0, 1, hops)]


def _network() -> Any:
    """The network without its weights, for windows of 7.68 s."""
    with _without_torchaudio(), contextlib.redirect_stdout(io.StringIO()):
        package = importlib.import_module("distillmos")
        return package.ConvTransformerSQAModel(load_weights=False, segmenting_in_forward=False)


@contextlib.contextmanager
def _without_torchaudio() -> Iterator[None]:
    """While the package is imported an empty module stands for torchaudio, which it needs for its command line only."""
    kept = sys.modules.get("torchaudio")
    sys.modules["torchaudio"] = types.ModuleType("torchaudio")
    try:
        yield
    finally:
        sys.modules.pop("torchaudio")
        if kept is not None:
            sys.modules["torchaudio"] = kept
