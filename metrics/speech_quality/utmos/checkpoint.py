"""Reading a checkpoint of UTMOS22-strong, and saying in one line what is wrong with one that is not."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from metrics.speech_quality.utmos.model import Utmos22Strong
from sessions.errors import SetupError

_NAMED = 3
_FETCH = "Fetch the published one: duologue weights fetch utmos22-strong"


def load(path: Path, device: torch.device) -> Utmos22Strong:
    """The model with the weights of that file, in float32. Raises `SetupError` for a file that does not hold them.

    Only tensors are read (`weights_only`): a checkpoint cannot run code.
    """
    with torch.device("meta"):
        model = Utmos22Strong()
    state = _read(path)
    if wrong := _misfit(state, model.state_dict()):
        raise SetupError(f"{path} is not a UTMOS22-strong checkpoint: {wrong}", _FETCH)
    floats = {name: tensor.to(torch.float32) for name, tensor in state.items()}
    model.load_state_dict(floats, assign=True)
    return model.eval().requires_grad_(False).to(device)


def _read(path: Path) -> dict[str, Tensor]:
    try:
        size = path.stat().st_size
        path.open("rb").close()
    except OSError as error:
        raise SetupError(f"cannot read {path} ({error.strerror})", _FETCH) from error
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:
        # torch seeks beyond the end of a file that was cut short, and trips over one that holds something else (a
        # sound, a page) in whatever way its bytes happen to be read.
        why = "it is cut short, or no checkpoint of tensors"
        raise SetupError(f"cannot take {path} ({size:,} bytes) as a checkpoint: {why}", _FETCH) from error
    if not isinstance(state, dict) or not all(isinstance(tensor, Tensor) for tensor in state.values()):
        what = "holds no tensors by name" if not isinstance(state, dict) else f"holds {_some(map(str, state))} instead"
        raise SetupError(f"{path} is not a UTMOS22-strong checkpoint: it {what}", _FETCH)
    return {str(name): tensor for name, tensor in state.items()}


def _misfit(state: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> str:
    """What of the layout is missing, too much or of another shape; "" where it fits."""
    lacks = [name for name in wanted if name not in state]
    more = [name for name in state if name not in wanted]
    other = [
        f"{name} of {_shape(state[name])} where {_shape(tensor)} belongs"
        for name, tensor in wanted.items()
        if name in state and state[name].shape != tensor.shape
    ]
    parts = [("lacks", lacks), ("has besides", more), ("has", other)]
    return "; ".join(f"it {verb} {_some(names)}" for verb, names in parts if names)


def _some(names: Any) -> str:
    names = list(names)
    rest = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {rest} more" if rest > 0 else "")


def _shape(tensor: Tensor) -> str:
    return "×".join(map(str, tensor.shape)) or "one number"
