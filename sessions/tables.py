"""Explicit tables of `name → "module:object"`, loaded when used; plugins through entry points of the same shape."""

from __future__ import annotations

import difflib
import importlib
import importlib.metadata
from collections.abc import Mapping
from typing import Any

from sessions.errors import SetupError


def load(table: Mapping[str, str], name: str, kind: str) -> Any:
    """The object that `name` stands for in `table`, or in the entry-point group `duologue.<kind>s`.

    Raises `SetupError` that lists the known names and the nearest one.
    """
    target = table.get(name) or _from_entry_points(name, kind)
    if target is None:
        near = difflib.get_close_matches(name, table, n=1)
        hint = f"Did you mean {near[0]!r}? " if near else ""
        raise SetupError(f"unknown {kind} {name!r}", f"{hint}Known: {', '.join(sorted(table))}")
    module, _, attribute = target.partition(":")
    return getattr(importlib.import_module(module), attribute)


def _from_entry_points(name: str, kind: str) -> str | None:
    for point in importlib.metadata.entry_points(group=f"duologue.{kind}s"):
        if point.name == name:
            return point.value
    return None
