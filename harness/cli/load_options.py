"""The options of `duologue measure` that say how many dialogues are held at once."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from harness.cli.adding import Command, with_options
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
    click.option(
        "--think",
        metavar="SPAN",
        help="Pause between the dialogues of a session: 2s, 1s-5s (evenly drawn) or exp:3s (exponential).",
    ),
    click.option("--seed", type=int, metavar="N", help="Of the arrivals, and of drawn pauses.  [default: 1]"),
    click.option("--duration", metavar="SPAN", help="Begin whole rounds for 90s, 30m or 2h, in place of --repeat."),
    click.option("--prometheus", metavar="[HOST:]PORT", default="", help="Serve /metrics there while the run goes on."),
    click.option("--sweep", metavar="1,2,4,…", help="A run for each number of sessions; --repeat is per session."),
    click.option(
        "--slo",
        multiple=True,
        metavar="'voice_to_voice p95 < 800ms'",
        help="Search the most sessions that hold it (with --sweep: judge each level); may be repeated.",
    ),
)


def load_options(command: Command) -> Command:
    """Adds them to a command."""
    return with_options(_OPTIONS, command)


def load_of(options: dict[str, Any], dialogues: int) -> Load:
    """What was asked for. dialogues: those of the plan by its rounds, warm-up included. Raises `SetupError`."""
    from harness.load.descriptors import room_for
    from sessions.runs import Load

    lasting = lasting_of(options)
    given = {name: options[name] for name in ("sessions", "ramp", "rate", "arrivals", "max_sessions", "seed", "think")}
    given = {name: value for name, value in given.items() if value is not None}
    if "rate" in given:
        for name in ("sessions", "ramp", "think"):
            if name in given:
                raise SetupError(f"--{name} goes with a closed loop, --rate asks for an open one", "Leave one out")
        rate_per_s = given.pop("rate")
        if duration_s := lasting.get("duration_s"):
            dialogues = math.ceil(duration_s * rate_per_s)
        room_for(given.get("max_sessions", 0) or dialogues)
        return Load(rate_per_s=rate_per_s, **given, **lasting)
    for name in ("arrivals", "max_sessions"):
        if name in given:
            raise SetupError(f"--{name.replace('_', '-')} goes with --rate", "Give --rate too, or leave it out")
    sessions = given.get("sessions", 1)
    if sessions > dialogues and not lasting:
        raise SetupError(
            f"{sessions} sessions at once, but only {dialogues} to hold in all", "Raise --repeat, or lower --sessions"
        )
    if sessions == 1 and given.get("ramp"):
        raise SetupError("--ramp spreads the beginning of several sessions", "Give --sessions too, or leave --ramp out")
    room_for(sessions)
    return Load(sessions=sessions, ramp_s=given.get("ramp", 0.0), **pauses_of(options), **lasting)


def pauses_of(options: dict[str, Any]) -> dict[str, Any]:
    """The fields of `Load` that tell of pauses, those that were asked for. Raises `SetupError`."""
    from harness.load.think import is_drawn, pauses_ns

    think = (options["think"] or "").strip()
    pauses_ns(think, 0, 0)
    if options["seed"] is None:
        return {"think": think} if think else {}
    if not is_drawn(think):
        raise SetupError("--seed goes with --rate, or with a --think that is drawn", "Leave it out")
    return {"think": think, "seed": options["seed"]}


def lasting_of(options: dict[str, Any]) -> dict[str, Any]:
    """The field of `Load` that tells how long rounds are begun, if that was asked for. Raises `SetupError`."""
    from harness.load.think import span_s

    if options["duration"] is None:
        return {}
    if click.get_current_context().get_parameter_source("repeat") is ParameterSource.COMMANDLINE:
        raise SetupError("--repeat asks for a number of rounds, --duration for a time", "Leave one out")
    duration_s = span_s(options["duration"], "--duration")
    if duration_s < 1:
        raise SetupError(f"--duration {options['duration']}: shorter than a second", "For example --duration 30m")
    return {"duration_s": duration_s}
