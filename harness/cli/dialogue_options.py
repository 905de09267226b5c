"""The options that every command that holds dialogues has: whom to talk to and how, and when to stop waiting."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import click

from harness.cli.adding import Command, with_options


class _Limit(click.FloatRange):
    """A positive number that is one."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value} is not a number.", param, ctx)
        return number


_LIMIT = _Limit(0, 1e6, min_open=True)

_SESSION = (
    click.option(
        "--vad",
        "vad",
        multiple=True,
        metavar="NAME=NUMBER",
        help="A setting of server_vad, as silence_duration_ms=300.",
    ),
    click.option(
        "--speech-end",
        type=click.Choice(["energy-1", "floor-1", "silero"]),
        default="energy-1",
        show_default=True,
        help="How to find the end of speech that nobody annotated.",
    ),
    click.option("--voice", default="", help="The server's voice."),
    click.option(
        "--transcribe", default="", metavar="MODEL", help="Ask the server for a transcript of the user, by this model."
    ),
    click.option(
        "--header", "headers", multiple=True, metavar="'NAME: VALUE'", help="Sent at connect; never written down."
    ),
    click.option("--api-key-env", default="", metavar="NAME", help="Environment variable that holds the key."),
)

_LIMITS = (
    click.option(
        "--resume", type=click.Path(path_type=Path), metavar="RUN", help="Go on with a run that was interrupted."
    ),
    click.option(
        "--limit-lateness",
        type=_LIMIT,
        default=20.0,
        show_default=True,
        metavar="MS",
        help="Above it a turn is invalid.",
    ),
    click.option("--limit-reply", type=_LIMIT, default=120.0, show_default=True, metavar="S", help="A whole reply."),
    click.option(
        "--limit-idle", type=_LIMIT, default=45.0, show_default=True, metavar="S", help="Without any message."
    ),
    click.option(
        "--limit-connect", type=_LIMIT, default=15.0, show_default=True, metavar="S", help="Connection, set-up."
    ),
    click.option(
        "--limit-bytes",
        type=click.IntRange(10_000),
        default=256 * 2**20,
        show_default=True,
        metavar="N",
        help="Received per dialogue.",
    ),
    click.option("--no-calibration", is_flag=True, help="Leave out the checks of this machine's clock, 4 s each."),
    click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON on standard output."),
)


def session_options(command: Command) -> Command:
    """How the session is set up, and who may open it."""
    return with_options(_SESSION, command)


def limit_options(command: Command) -> Command:
    """Going on with a run, when to stop waiting, what is printed."""
    return with_options(_LIMITS, command)
