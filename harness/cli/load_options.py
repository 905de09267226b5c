"""The options of `duologue measure` that say how many dialogues are held at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import click

from sessions.errors import SetupError

if TYPE_CHECKING:
    from sessions.runs import Load

_OPTIONS = (
    click.option("--sessions", type=click.IntRange(1), metavar="N", help="Dialogues at once (closed loop)."),
    click.option(
        "--ramp", type=click.FloatRange(0, 3600), metavar="S", help="Begin the first sessions over S seconds."
    ),
    click.option(
        "--rate",
        type=click.FloatRange(0, 1000, min_open=True),
        metavar="R",
        help="Begin R dialogues a second, whether or not earlier ones are over (open loop).",
    ),
    click.option("--arrivals", type=click.Choice(["poisson", "constant"]), help="With --rate.  [default: poisson]"),
    click.option(
        "--max-sessions",
        type=click.IntRange(1),
        metavar="N",
        help="With --rate: dialogues beyond it begin late; with --slo: where the search ends.",
    ),
    click.option("--seed", type=int, metavar="N", help="With --rate: of the arrivals.  [default: 1]"),
    click.option("--sweep", metavar="1,2,4,…", help="A run for each number of sessions; --repeat is per session."),
    click.option(
        "--slo",
        multiple=True,
        metavar="'voice_to_voice p95 < 800ms'",
        help="Search the most sessions that hold it (with --sweep: judge each level); may be repeated.",
    ),
)


def load_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Adds them to a command."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def load_of(options: dict[str, Any], dialogues: int) -> Load:
    """What was asked for. dialogues: those of the plan, warm-up included. Raises `SetupError`."""
    from harness.load.descriptors import room_for
    from sessions.runs import Load

    given = {name: options[name] for name in ("sessions", "ramp", "rate", "arrivals", "max_sessions", "seed")}
    given = {name: value for name, value in given.items() if value is not None}
    if "rate" in given:
        for name in ("sessions", "ramp"):
            if name in given:
                raise SetupError(f"--{name} goes with a closed loop, --rate asks for an open one", "Leave one out")
        room_for(given.get("max_sessions", 0) or dialogues)
        rate_per_s = given.pop("rate")
        return Load(rate_per_s=rate_per_s, **given)
    for name in ("arrivals", "max_sessions", "seed"):
        if name in given:
            raise SetupError(f"--{name.replace('_', '-')} goes with --rate", "Give --rate too, or leave it out")
    sessions = given.get("sessions", 1)
    if sessions > dialogues:
        raise SetupError(
            f"{sessions} sessions at once, but only {dialogues} to hold in all", "Raise --repeat, or lower --sessions"
        )
    room_for(sessions)
    return Load(sessions=sessions, ramp_s=given.get("ramp", 0.0))
