"""The options that perturb the user's side, for every command that speaks scripts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from sessions.scripts import Script


def perturb_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds --perturb and --perturb-seed (parameters `perturb`, `perturb_seed`) to a command."""
    seed = click.option(
        "--perturb-seed",
        type=click.IntRange(0),
        default=1,
        show_default=True,
        metavar="N",
        help="Of its noise and loss.",
    )
    words = click.option(
        "--perturb",
        default="",
        metavar="EFFECTS",
        help="Speak in noise, in a room, over a telephone …: noise@10dB,reverb,mulaw8k,loss2%,clip, in that order.",
    )
    return words(seed(command))


def perturb_scripts(scripts: list[Script], words: str, seed: int) -> list[Script]:
    """The scripts as the options ask for them. Raises `SetupError` for an effect that is not known."""
    from sessions.perturb import parse, perturbed

    if not words:
        return scripts
    effects = parse(words)
    return [perturbed(script, effects, seed) for script in scripts]
