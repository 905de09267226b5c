"""Whether a metric can be had on this machine now: packages, weights, environment. Nothing is downloaded for it."""

from __future__ import annotations

import importlib
from collections.abc import Mapping

from harness.score.engine import Chosen, chosen_with_needs
from harness.score.engine.environment import NoEnvironment, python_of
from sessions.errors import MissingExtra, MissingWeights, SetupError


def missing(name: str, options: Mapping[str, Mapping[str, str]] | None = None) -> str:
    """Why the metric, or one that it needs, cannot be had, with the mend; "" where it can.

    options: by metric, as given. Raises `SetupError` for an unknown metric or option, and for an option whose value is
    itself the mistake.
    """
    given = options or {}
    needed = [each.name for each in chosen_with_needs([name])]
    for each in chosen_with_needs([name], {one: given[one] for one in needed if one in given}):
        try:
            _ask(each)
        except (NoEnvironment, MissingExtra, MissingWeights) as why:
            told = f"{str(why).rstrip('.')}."
            return told if each.name == name else f"it needs {each.name}: {told}"
        except SetupError as why:
            if given.get(each.name):
                raise
            return str(why)
    return ""


def _ask(each: Chosen) -> None:
    """Raise what stands in the way of it."""
    environment = each.metric.environment
    python_of(environment, {})
    if not each.metric.identify:
        return
    module, _, attribute = each.metric.identify.partition(":")
    try:
        getattr(importlib.import_module(module), attribute)(each.options)
    except MissingExtra:
        if not environment:  # packages of another environment are not ours to look for; its worker says what it lacks
            raise
