"""What a normaliser is: a named, versioned way to make two spellings of the same words equal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

Normalise = Callable[[str], str]


def nothing_needed() -> dict[str, str]:
    """The packages of a normaliser that needs none."""
    return {}


@dataclass(frozen=True, slots=True)
class Normaliser:
    """One way to normalise.

    make: loads what it needs and gives the function; raises `MissingExtra` · packages: what it depends on, by version,
    found without loading anything · does: its rules in a line, with their source
    """

    name: str
    version: str
    does: str
    make: Callable[[], Normalise]
    packages: Callable[[], dict[str, str]] = field(default=nothing_needed)
