"""Whether a metric can be had on this machine now: packages, weights, environment. Nothing is downloaded for it."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from harness.score.engine import Chosen, chosen_with_needs
from sessions.errors import DuologueError, MissingExtra, MissingWeights


def missing(name: str, options: Mapping[str, Mapping[str, str]] | None = None) -> str:
    """Why the metric, or one that it needs, cannot be had, with the mend; "" where it can.

    options: by metric, as given. Raises `SetupError` for an unknown metric or option.
    """
    every = chosen_with_needs([name])
    given = {each.name: (options or {}).get(each.name, {}) for each in every}
    for each in chosen_with_needs([name], given):
        why = _missing(each)
        if why:
            return why if each.name == name else f"it needs {each.name}: {why}"
    return ""


def _missing(each: Chosen) -> str:
    if not each.metric.identify:
        return ""
    module, _, attribute = each.metric.identify.partition(":")
    try:
        getattr(importlib.import_module(module), attribute)(each.options)
    except (MissingExtra, MissingWeights) as error:
        return _in_a_sentence(error)
    return ""


def _in_a_sentence(error: DuologueError) -> str:
    return str(error).rstrip(".") + "."
