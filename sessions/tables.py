"""Explicit tables of `name → "module:object"`, loaded when used; plugins through entry points of the same shape."""

from __future__ import annotations

import difflib
import importlib
import importlib.metadata
from collections.abc import Mapping
from typing import Any, TypeVar

from sessions.errors import SetupError

T = TypeVar("T")


def load(table: Mapping[str, str], name: str, kind: str) -> Any:
    """The object that `name` stands for in `table`, or in the entry-point group `duologue.<kind>s`.

    Raises `SetupError` that lists the known names and the nearest one.
    """
    target = table.get(name) or _from_entry_points(name, kind)
    if target is None:
        known = sorted({*table, *(point.name for point in _entry_points(kind))})
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"Did you mean {near[0]!r}? " if near else ""
        raise SetupError(f"unknown {kind} {name!r}", f"{hint}Known: {', '.join(known)}")
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)


def load_a(wanted: type[T], table: Mapping[str, str], name: str, kind: str) -> T:
    """As `load`, of a table (and of plugins) whose objects are all of one type."""
    found = load(table, name, kind)
    if not isinstance(found, wanted):
        raise TypeError(f"{kind} {name!r} is a {type(found).__name__}, not a {wanted.__module__}.{wanted.__name__}")
    return found


def _from_entry_points(name: str, kind: str) -> str | None:
    return next((point.value for point in _entry_points(kind) if point.name == name), None)


def _entry_points(kind: str) -> importlib.metadata.EntryPoints:
    return importlib.metadata.entry_points(group=f"duologue.{kind}s")
