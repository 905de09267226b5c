"""The speaker encoder: three LSTM layers and a linear one, trained with the GE2E loss.

L. Wan, Q. Wang, A. Papir, I. Lopez Moreno: "Generalized End-to-End Loss for Speaker Verification", arXiv:1710.10467.
Weights: those of the package Resemblyzer 0.1.4 (Apache-2.0), whose embeddings these are, to 1e-4.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metrics.mel import HOP_SAMPLES, power_mel
from metrics.scoring import FloatPcm
from metrics.scoring.device import torch_device
from metrics.speech_quality.windows import spread
from metrics.voice.speech import WINDOW_FRAMES, window_starts

FLOATS = 256
MOST_WINDOWS = 600
"""Of a long sound so many are taken, evenly: more than 7 minutes of speech tell no more of a voice."""
_LAYERS = 3
_MELS, _FFT_SAMPLES = 40, 400
_AT_ONCE = 64

Embedding = NDArray[np.float32]


class Encoder:
    """weights: pretrained.pt; only its tensors are read."""

    def __init__(self, weights: Path) -> None:
        import torch

        self._device = torch_device()
        state = torch.load(weights, map_location="cpu", weights_only=True)["model_state"]
        self._lstm = torch.nn.LSTM(_MELS, FLOATS, _LAYERS, batch_first=True)
        self._linear = torch.nn.Linear(FLOATS, FLOATS)
        for name, module in (("lstm.", self._lstm), ("linear.", self._linear)):
            own = {key.removeprefix(name): value for key, value in state.items() if key.startswith(name)}
            module.load_state_dict(own)
            module.eval().requires_grad_(False).to(self._device)

    def embed(self, sounds: Sequence[FloatPcm]) -> list[Embedding]:
        """(256,) of length 1 for each: the mean of those of its windows. sounds: float32 (n,) at 16 kHz, n ≥ 1."""
        windows = [_windows(sound) for sound in sounds]
        heard = self._forward(np.concatenate(windows))
        marks = np.cumsum([len(own) for own in windows])[:-1]
        return [_unit(own.mean(axis=0)) for own in np.split(heard, marks)]

    def _forward(self, windows: NDArray[np.float32]) -> NDArray[np.float32]:
        """(windows, 160, 40) → (windows, 256), each of length 1."""
        import torch

        heard: list[Any] = []
        with torch.inference_mode():
            for at in range(0, len(windows), _AT_ONCE):
                some = torch.from_numpy(windows[at : at + _AT_ONCE]).to(self._device)
                _, (hidden, _) = self._lstm(some)
                raw = torch.relu(self._linear(hidden[-1]))
                heard.append(torch.nn.functional.normalize(raw, dim=1).cpu().numpy())
        return np.concatenate(heard)


def _windows(sound: FloatPcm) -> NDArray[np.float32]:
    """(windows, 160, 40)"""
    starts = window_starts(len(sound))
    missing = (starts[-1] + WINDOW_FRAMES) * HOP_SAMPLES - len(sound)
    mel = power_mel(np.pad(sound, (0, max(0, missing))), fft_samples=_FFT_SAMPLES, mels=_MELS)
    kept, _ = spread(starts, MOST_WINDOWS)
    return np.stack([mel[start : start + WINDOW_FRAMES] for start in kept])


def _unit(vector: Embedding) -> Embedding:
    return np.asarray(vector / np.linalg.norm(vector), dtype=np.float32)
