"""`duologue replay`: the user's side of a recorded run again, against a server."""

from __future__ import annotations

from pathlib import Path

import click

from sessions.errors import DuologueError
from sessions.secrets import Secrets

_EXAMPLES = """
\b
Examples:
  duologue replay runs/2026-11-29T10-15-00-talk --against ws://127.0.0.1:8765
  duologue replay runs/2026-11-29T10-15-00-talk/dialogues/d0003 \\
      --against ws://new:8765 --as scripted
  duologue replay RUN --api-key-env OPENAI_API_KEY \\
      --against "wss://api.openai.com/v1/realtime?model=gpt-realtime"
"""


@click.command(epilog=_EXAMPLES)
@click.argument("recorded", type=click.Path(path_type=Path), metavar="RUN|DIALOGUE")
@click.option("--against", "target", required=True, metavar="TARGET", help="The server, as for duologue measure.")
@click.option(
    "--as",
    "how",
    type=click.Choice(["performed", "scripted"]),
    default="performed",
    show_default=True,
    help="Speak at the recorded instants, or wait anew for what the script waits for.",
)
@click.option("--voice", default="", help="The server's voice  [default: as recorded]")
@click.option(
    "--header", "headers", multiple=True, metavar="'NAME: VALUE'", help="Sent at connect; never written down."
)
@click.option("--api-key-env", default="", metavar="NAME", help="Environment variable that holds the key.")
@click.option("--out", type=click.Path(path_type=Path), help="Run folder  [default: runs/<now>-replay]")
@click.option("--no-calibration", is_flag=True, help="Leave out the checks of this machine's clock, 4 s each.")
@click.option("--json", "as_json", is_flag=True, help="Print the turns side by side as JSON on standard output.")
@click.pass_obj
def replay(
    secrets: Secrets,
    /,
    recorded: Path,
    target: str,
    how: str,
    voice: str,
    headers: tuple[str, ...],
    api_key_env: str,
    out: Path | None,
    no_calibration: bool,
    as_json: bool,
) -> int:
    """Say again to TARGET what was said in the run folder RUN (or in RUN/dialogues/ID), and compare turn by turn.

    The same audio over the same protocol, with the same turn detection and limits; one dialogue at a time, warm-up left
    out. As performed: each utterance begins as long after the session was ready as it did then, whatever the server
    says meanwhile, and a dialogue that broke off is said as far as it came. As scripted: each turn waits for what its
    script says, so that a slower server is waited for. The new run folder is one like any other, with the turns of both
    side by side in beside.json.

    Exit code: 0 replayed, 1 no turn was completed, 2 set-up error, 130 interrupted (a readable run remains).
    """
    from harness.cli.asking import secrets_of
    from harness.replay.again import SCRIPTED, as_performed, as_scripted, ask_again
    from harness.replay.beside import recorded_place
    from harness.replay.run import replay_run
    from harness.runs.measuring import begin_run
    from harness.runs.run import Access

    old, ids = recorded_place(recorded)
    access_headers, api_key = secrets_of(secrets, headers, api_key_env)
    again = as_scripted(old, ids) if how == SCRIPTED else as_performed(old, ids)
    ask = ask_again(old.plan, again, target, access_headers, api_key_env, voice)
    run = begin_run(ask, secrets, out, "replay")
    access = Access(target, access_headers, api_key, secrets)
    try:
        return replay_run(
            old, again.ids, run, access, how, named=str(recorded), as_json=as_json, check_clock=not no_calibration
        )
    except DuologueError:
        run.discard()  # no session came about: the next try may have the same --out
        raise
