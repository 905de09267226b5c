"""The device that models run on, as the engine says it to the processes that run them."""

from __future__ import annotations

import os
from typing import Any

DEVICE = "DUOLOGUE_DEVICE"


def torch_device() -> Any:
    """The `torch.device` to load a model on. Raises `RuntimeError` where torch does not have it.

    CUDA would round what goes into convolutions to 10 bits (TF32), and scores would be a little off those of a CPU: it
    may not.
    """
    import torch

    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
    name = os.environ.get(DEVICE) or "cpu"
    device = torch.device(name)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise RuntimeError(f"torch {torch.__version__} finds no CUDA device")
    if device.type == "mps" and not torch.backends.mps.is_available():
        raise RuntimeError(f"torch {torch.__version__} finds no MPS device")
    return device
