"""Which versions of packages are installed, without importing them."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from pathlib import Path

from sessions.errors import MissingExtra, MissingWeights
from sessions.weights.store import sha256_of


def versions(extra: str, **modules: str) -> dict[str, str]:
    """Distribution → version. modules: module name → distribution. Raises `MissingExtra` for one that is not there."""
    found = {}
    for module, distribution in modules.items():
        if importlib.util.find_spec(module) is None:
            raise MissingExtra(distribution, extra)
        found[distribution] = importlib.metadata.version(distribution)
    return found


def hash_of(path: Path, what: str, mend: str) -> str:
    """sha256 of a weight file. Raises `MissingWeights` where it is not there."""
    try:
        return sha256_of(path)
    except OSError as error:
        raise MissingWeights(f"{what}: {path} cannot be read ({error.strerror})", mend) from error
