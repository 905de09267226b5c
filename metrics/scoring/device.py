"""The device that models run on, as the engine says it to the processes that run them."""

from __future__ import annotations

import os
from typing import Any

DEVICE = "DUOLOGUE_DEVICE"


def torch_device() -> Any:
    """The `torch.device` to load a model on. Raises `RuntimeError` where torch does not have it."""
    import torch

    name = os.environ.get(DEVICE) or "cpu"
    device = torch.device(name)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise RuntimeError(f"torch {torch.__version__} finds no CUDA device")
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise RuntimeError(f"torch {torch.__version__} finds no MPS device")
    return device
