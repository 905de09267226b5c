"""Whether what a model needs is here, asked without importing it."""

from __future__ import annotations

import importlib.util

from sessions.errors import MissingExtra
from sessions.weights import found


def require(package: str, extra: str, mend: str = "") -> None:
    """Raise `MissingExtra` where the package is not installed."""
    if importlib.util.find_spec(package) is None:
        raise MissingExtra(package, extra, mend)


def weight_hashes(name: str) -> dict[str, str]:
    """What the weights of that entry are, for a metric's identity. Raises `MissingWeights` where they are not here."""
    return {f"weights {file}": sha256 for file, sha256 in found(name).sha256s.items()}
