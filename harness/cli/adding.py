"""Adding the same options to several commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

Command = Callable[..., Any]


def with_options(options: Sequence[Callable[[Command], Command]], command: Command) -> Command:
    """`command` with all of them, in the order in which `--help` is to show them."""
    for option in reversed(options):
        command = option(command)
    return command
