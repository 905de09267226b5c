"""`duologue talk`: whole dialogues in full duplex: by scripts that interrupt, pause and cough, or by you."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from harness.cli.asking import ask_of, resumed, secrets_of
from harness.cli.dialogue_options import limit_options, session_options
from harness.cli.microphone_options import converse_with, microphone_options, only_with_a_microphone
from harness.cli.perturb_option import perturb_option
from harness.cli.resuming import refuse_changes
from sessions.errors import DuologueError
from sessions.secrets import Secrets

_MAY_COME_WITH_RESUME = frozenset({"headers", "api_key_env", "no_calibration"})
_ALL = "all"

_EXAMPLES = """
\b
Examples:
  duologue talk ws://127.0.0.1:8765 --script barge-in
  duologue talk ws://127.0.0.1:8765 --script all
  duologue talk "wss://api.openai.com/v1/realtime?model=gpt-realtime" \\
      --api-key-env OPENAI_API_KEY --script backchannel --repeat 5
  duologue talk ws://127.0.0.1:8765 --script mid-sentence-pauses \\
      --vad silence_duration_ms=700
  duologue talk --resume runs/2026-11-29T10-15-00-talk
  duologue talk ws://127.0.0.1:8765 --mic
"""


@click.command(epilog=_EXAMPLES)
@click.argument("target", required=False)
@click.option("--script", "scripts", multiple=True, metavar="NAME|FILE|all", help="A session script; may be repeated.")
@click.option("--audio", multiple=True, metavar="FILE", help="One dialogue, one turn per file; may be repeated.")
@click.option("--protocol", default="openai-realtime", show_default=True, help="What the server speaks.")
@click.option("--repeat", type=click.IntRange(1), default=1, show_default=True, help="Rounds of all scripts.")
@click.option(
    "--turn-detection",
    type=click.Choice(["server_vad", "manual"]),
    default="server_vad",
    show_default=True,
    help="Who ends the user's turn: the server's voice detection, or this client (commit).",
)
@microphone_options
@session_options
@perturb_option
@click.option("--out", type=click.Path(path_type=Path), help="Run folder  [default: runs/<now>-talk]")
@limit_options
@click.pass_obj
def talk(secrets: Secrets, /, target: str | None, resume: Path | None, as_json: bool, **options: Any) -> int:
    """Talk with the server at TARGET as the scripts say: when the user speaks is judged by what is heard.

    The user interrupts, says mm-hm, coughs, pauses in mid-sentence and stays silent; the table and report.html tell who
    talked over whom, what stopped the assistant and what did not. `--script all` performs every shipped script. The run
    folder is that of `duologue measure`; docs/talk.md tells what is sent when. With --mic you converse yourself, until
    Ctrl-C, and get the same.

    Exit code: 0 measured, 1 no turn was completed, 2 set-up error, 130 interrupted (a readable run remains).
    """
    from harness.runs.measuring import begin_run, measure_run
    from harness.runs.run import Access

    if options["mic"] or options["devices"]:
        return converse_with(secrets, target, options, as_json=as_json)
    only_with_a_microphone(options)
    headers, api_key = secrets_of(secrets, options["headers"], options["api_key_env"])
    if resume is not None:
        refuse_changes(_MAY_COME_WITH_RESUME)
        run, full_target = resumed(secrets, resume, target)
        if not api_key and run.plan.api_key_env:
            headers, api_key = secrets_of(secrets, options["headers"], run.plan.api_key_env)
    else:
        ask = ask_of(target, headers, {**options, "scripts": _named(options["scripts"]), "warmup": 0, "reflector": ""})
        run, full_target = begin_run(ask, secrets, options["out"], "talk"), ask.target
    access = Access(full_target, headers, api_key, secrets)
    try:
        return measure_run(run, access, command="talk", as_json=as_json, check_clock=not options["no_calibration"])
    except DuologueError:
        if resume is None:  # no session came about: the next try may have the same --out
            run.discard()
        raise


def _named(scripts: tuple[str, ...]) -> tuple[str, ...]:
    """The scripts by name or file; `all` stands for the shipped ones."""
    from sessions.scripts import library

    named = [name for one in scripts for name in (library() if one == _ALL else [one])]
    return tuple(dict.fromkeys(named))
