"""Stand-in weights and waves of UTMOS22-strong, made from nothing by a seeded recipe.

The published weights are 411 MB and are not to be had on every machine. The scores in `tests/data/scoring/utmos/` were
made by the published code (tarepan/SpeechMOS v1.2.0, float32, CPU) with these weights, for these waves.
"""

from __future__ import annotations

import json
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

DATA = Path(__file__).parent.parent / "data" / "scoring" / "utmos"
RATE_HZ = 16_000

Floats = NDArray[np.float32]


def expected(name: str = "expected") -> dict[str, Any]:
    found: dict[str, Any] = json.loads((DATA / f"{name}.json").read_text())
    return found


def state() -> dict[str, torch.Tensor]:
    """A state dict of the checkpoint's layout."""
    shapes = json.loads((DATA / "tensors.json").read_text())
    return {name: torch.from_numpy(weight(name, tuple(shape))) for name, shape in shapes.items()}


def weight(name: str, shape: tuple[int, ...]) -> Floats:
    """float32 array of `shape`, a pure function of the tensor's name and shape."""
    rng = np.random.Generator(np.random.PCG64(zlib.crc32(name.encode())))
    values = rng.standard_normal(shape)
    if name.endswith("weight_g"):
        return np.ones(shape, np.float32)
    if name.endswith("weight") and len(shape) == 1:  # norms
        return (1.0 + 0.05 * values).astype(np.float32)
    fan_in = int(np.prod(shape[1:])) if len(shape) > 1 else shape[0]
    scaled: Floats = (values / np.sqrt(fan_in)).astype(np.float32)
    return scaled


def wave(seed: int, seconds: float) -> Floats:
    """float32 (samples,) at 16 kHz: two gliding tones under slow amplitude modulation, plus noise."""
    rng = np.random.Generator(np.random.PCG64(seed))
    t = np.arange(int(seconds * RATE_HZ)) / RATE_HZ
    f0, f1 = rng.uniform(90, 260), rng.uniform(500, 2500)
    tone = np.sin(2 * np.pi * (f0 * t + 20 * t**2)) + 0.3 * np.sin(2 * np.pi * f1 * t)
    envelope = 0.5 * (1 + np.sin(2 * np.pi * rng.uniform(1, 4) * t))
    return (0.2 * tone * envelope + 0.005 * rng.standard_normal(t.size)).astype(np.float32)
