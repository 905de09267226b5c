"""`duologue measure`: a live server, over whole spoken dialogues, in real time."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import click

from harness import exits
from harness.cli.asking import ask_of, resumed, secrets_of
from harness.cli.dialogue_options import limit_options, session_options
from harness.cli.load_options import load_of, load_options
from harness.cli.perturb_option import perturb_option
from harness.cli.resuming import refuse_changes
from harness.cli.several_options import kind_of, several_options
from harness.cli.sharing import check_sharing, shard_of, sharing_options
from sessions.errors import DuologueError, SetupError
from sessions.secrets import Secrets

_MAY_COME_WITH_RESUME = frozenset({"headers", "api_key_env", "no_calibration", "prometheus", "beside"})

_EXAMPLES = """
\b
Examples:
  duologue measure ws://127.0.0.1:8765 --script small-talk --repeat 10
  duologue measure wss://api.openai.com/v1/realtime?model=gpt-realtime \\
      --api-key-env OPENAI_API_KEY --script facts --turn-detection server_vad
  duologue measure ws://localhost:8765 --audio hello.wav --audio and-then.wav
  duologue measure ws://localhost:8765 --script facts \\
      --slo 'voice_to_voice p95 < 800ms'
  duologue measure ws://old:8765 ws://new:8765 --interleave \\
      --script facts --repeat 20
  duologue measure ws://localhost:8765 --trials 5 --script facts --repeat 10
  duologue measure --resume runs/2026-11-29T10-15-00-measure
"""


@click.command(epilog=_EXAMPLES)
@click.argument("targets", nargs=-1, metavar="[TARGET [B]]")
@click.option("--script", "scripts", multiple=True, metavar="NAME|FILE", help="A session script; may be repeated.")
@click.option("--audio", multiple=True, metavar="FILE", help="One dialogue, one turn per file; may be repeated.")
@click.option("--protocol", default="openai-realtime", show_default=True, help="What the server speaks.")
@click.option("--repeat", type=click.IntRange(1), default=1, show_default=True, help="Whole rounds that count.")
@click.option(
    "--warmup", type=click.IntRange(0), default=0, show_default=True, help="Whole rounds first, in no figure."
)
@click.option(
    "--turn-detection",
    type=click.Choice(["manual", "server_vad"]),
    default="manual",
    show_default=True,
    help="Who ends the user's turn: this client (commit), or the server's voice detection.",
)
@session_options
@perturb_option
@load_options
@sharing_options
@click.option(
    "--reflector",
    default="",
    metavar="ws://HOST:PORT",
    help="Tell the network's share: `duologue serve --reflector` runs there, on the server's host.",
)
@several_options
@click.option(
    "--beside",
    type=click.Path(path_type=Path),
    metavar="RUN|DIALOGUE",
    help="Show each turn beside that of a recorded run, as of the one that `duologue serve --replay` serves.",
)
@click.option("--out", type=click.Path(path_type=Path), help="Run folder  [default: runs/<now>-measure]")
@limit_options
@click.pass_obj
def measure(secrets: Secrets, /, targets: tuple[str, ...], resume: Path | None, as_json: bool, **options: Any) -> int:
    """Speak whole dialogues to the server at TARGET in real time and measure every turn.

    TARGET is ws://… or wss://…; a target without a path gets the protocol's own (/v1/realtime). Each round performs
    every script on its own connection. Ends with a table and the path of report.html; the run folder keeps all of it.
    Two targets with --interleave are measured in alternation and compared.

    Exit code: 0 measured, 1 no turn was completed, 2 set-up error, 130 interrupted (a readable run remains).
    """
    from harness.runs.measuring import begin_run, measure_run

    kind = kind_of(targets, options, resume)
    if options["prometheus"] and kind != "single":
        raise SetupError(f"--prometheus does not go with --{kind}", "Leave one out")
    if kind == "interleave":
        from harness.cli.interleave import measure_interleaved

        return measure_interleaved(secrets, targets, options, resume, as_json)
    if options["beside"] is not None:
        _refuse_beside(kind, options)
    target = targets[0] if targets else None
    access_headers, api_key = secrets_of(secrets, options["headers"], options["api_key_env"])
    run: Any = None
    ask: Any = None
    if resume is not None:
        refuse_changes(_MAY_COME_WITH_RESUME)
        run, full_target = resumed(secrets, resume / "trial-1" if kind == "trials" else resume, target)
        if not api_key and run.plan.api_key_env:
            access_headers, api_key = secrets_of(secrets, options["headers"], run.plan.api_key_env)
    else:
        ask = ask_of(target, access_headers, options)
        ask = dataclasses.replace(ask, shard=shard_of(options["shard"]), workers=options["workers"])
        if options["sweep"] or options["slo"]:
            return _measure_levels(secrets, ask, api_key, options, as_json)
        ask, full_target = _loaded(ask, options), ask.target
    from harness.runs.run import Access

    access = Access(full_target, access_headers, api_key, secrets)
    check_clock = not options["no_calibration"]
    if kind == "trials":
        from harness.cli.trials import measure_trials

        place = resume or options["out"]
        return measure_trials(ask, access, place, options["trials"], as_json=as_json, check_clock=check_clock)
    run = run or begin_run(ask, secrets, options["out"], "measure")
    try:
        watched = options["prometheus"]
        code = measure_run(run, access, as_json=as_json, check_clock=check_clock, prometheus=watched)
    except DuologueError:
        if resume is None:  # no session came about: the next try may have the same --out
            run.discard()
        raise
    if options["beside"] is not None and code != exits.INTERRUPTED:
        from harness.replay.run import tell_beside

        tell_beside(run, options["beside"], quiet=as_json)
    return code


def _refuse_beside(kind: str, options: dict[str, Any]) -> None:
    """Before anything is spoken: runs that have no one recording beside them, and what is no recording."""
    from harness.replay.beside import recorded_place

    if kind != "single" or options["sweep"] or options["slo"]:
        raise SetupError("--beside goes with one run", "Leave it out, or measure once")
    recorded_place(options["beside"])


def _measure_levels(secrets: Secrets, ask: Any, api_key: str, options: dict[str, Any], as_json: bool) -> int:
    from harness.cli.levels import measure_levels, only_what_goes_with_levels
    from harness.runs.run import Access

    only_what_goes_with_levels(options)
    return measure_levels(secrets, ask, Access(ask.target, ask.headers, api_key, secrets), options, as_json)


def _loaded(ask: Any, options: dict[str, Any]) -> Any:
    """With the load that was asked for."""
    dialogues = (ask.repeat + ask.warmup) * len(ask.scripts)
    load = load_of(options, dialogues)
    check_sharing(ask.shard, ask.workers, load, 0 if load.duration_s else dialogues)
    return dataclasses.replace(ask, load=load)
