"""`duologue talk --mic`: its options, and what it starts."""

from __future__ import annotations

import sys
from typing import Any

import click
from click.core import ParameterSource

from harness.cli.adding import Command, with_options
from sessions.errors import SetupError
from sessions.secrets import Secrets

_END_AFTER_MS = 800
_NEVER_WITH_MIC = {
    "scripts": "script",
    "audio": "audio",
    "repeat": "repeat",
    "perturb": "perturb",
    "perturb_seed": "perturb-seed",
    "limit_reply": "limit-reply",
    "limit_idle": "limit-idle",
    "resume": "resume",
}
"""A person says what there is to say, and waits for as long as they like."""

_OPTIONS = (
    click.option("--mic", is_flag=True, help="Converse yourself, by microphone and loudspeaker, until Ctrl-C."),
    click.option(
        "--end-after",
        type=click.IntRange(200, 10_000),
        metavar="MS",
        help=f"With --mic: so much quiet ends your turn  [default: {_END_AFTER_MS}]",
    ),
    click.option("--input-device", default="", metavar="NAME|NUMBER", help="With --mic: the microphone."),
    click.option("--output-device", default="", metavar="NAME|NUMBER", help="With --mic: the loudspeaker."),
    click.option("--devices", is_flag=True, help="List the sound devices, and do nothing else."),
)


def microphone_options(command: Command) -> Command:
    """Who speaks, and through which devices."""
    return with_options(_OPTIONS, command)


def only_with_a_microphone(options: dict[str, Any]) -> None:
    """Raise `SetupError` for an option that would silently be left out."""
    for name in ("end_after", "input_device", "output_device"):
        if options[name]:
            raise SetupError(f"--{name.replace('_', '-')} goes with --mic", "Add it, or leave the option out")


def converse_with(secrets: Secrets, target: str | None, options: dict[str, Any], *, as_json: bool) -> int:
    """The command's exit code. Raises `SetupError` before anything is made."""
    from harness.microphone.sound_card import device_table

    if options["devices"]:
        click.echo(device_table())
        return 0
    context = click.get_current_context()
    for name, option in _NEVER_WITH_MIC.items():
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise SetupError(f"--{option} does not go with --mic", "Leave one of them out")
    if target is None:
        raise SetupError("no target", "Give the server's address, for example ws://127.0.0.1:8765")
    return _converse(secrets, target, options, as_json)


def _converse(secrets: Secrets, target: str, options: dict[str, Any], as_json: bool) -> int:
    from harness.cli.asking import ask_of, secrets_of
    from harness.microphone.run import Talk, converse, empty_script
    from harness.microphone.screen import TerminalScreen
    from harness.microphone.sound_card import SoundCard
    from harness.runs.measuring import begin_run
    from harness.runs.run import Access
    from harness.speech_end_error.methods import finder
    from sessions.clock import MonotonicClock, TimerWheel
    from sessions.runs import MicrophoneUse

    headers, api_key = secrets_of(secrets, options["headers"], options["api_key_env"])
    ask = ask_of(target, headers, {**options, "warmup": 0, "reflector": ""}, [empty_script()])
    clock = TimerWheel(MonotonicClock())
    rate_hz, flows = _wire(ask)
    card = SoundCard(rate_hz, clock, options["input_device"], options["output_device"])
    run = begin_run(ask, secrets, options["out"], "talk")
    use = MicrophoneUse(
        microphone=card.microphone.name,
        loudspeaker=card.loudspeaker.name,
        microphone_hz=card.microphone.rate_hz,
        loudspeaker_hz=card.loudspeaker.rate_hz,
        end_after_ms=options["end_after"] or _END_AFTER_MS,
    )
    ends = "the server hears where your turns end" if flows else f"{use.end_after_ms} ms of quiet, or Enter, end a turn"
    is_asked = click.get_current_context().get_parameter_source("speech_end") is ParameterSource.COMMANDLINE
    find_end = finder(options["speech_end"]) if is_asked and options["speech_end"] != "floor-1" else None
    talk = Talk(card, use, find_end, TerminalScreen(clock, quiet=as_json and not sys.stderr.isatty(), ends=ends))
    access = Access(target, headers, api_key, secrets)
    return converse(run, access, clock, talk, as_json=as_json, check_clock=not options["no_calibration"])


def _wire(ask: Any) -> tuple[int, bool]:
    """The rate of the audio, and whether silence flows. Raises `SetupError` where a microphone has no way in."""
    from clients.dialect import CLIENTS, SessionOptions
    from sessions.tables import load

    dialect = load(CLIENTS, ask.protocol, "protocol")(SessionOptions(turn_detection=ask.turn_detection))
    if dialect.protocol_class == "C":
        raise SetupError(f"--mic does not go with --protocol {ask.protocol}, which takes whole turns", "Choose another")
    return dialect.rate_hz, dialect.protocol_class != "A"
