"""`duologue demo`: the main job on real parts, on this machine, without keys."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness import exits
from harness.cli.resuming import refuse_changes
from sessions.errors import SetupError
from sessions.secrets import Secrets

if TYPE_CHECKING:
    from sessions.runs import Plan

SCRIPTS = ("small-talk", "trip-planning", "facts")

SCORES = ("asr_wer", "first_content", "dnsmos", "distillmos", "signal")
"""By what the replies are scored, whether or not it can be had: what is missing is told with the mend."""

_MAY_COME_WITH_RESUME = frozenset({"no_calibration", "no_scores"})

_EXAMPLES = """
\b
Examples:
  duologue demo
  duologue demo --asr whisper-tiny.en --turn-detection server_vad
  duologue demo --resume runs/2026-11-29T10-15-00-demo
"""


@click.command(epilog=_EXAMPLES)
@click.option("--asr", default="whisper-base", show_default=True, help="Speech recognition of the server.")
@click.option(
    "--turn-detection",
    type=click.Choice(["manual", "server_vad"]),
    default="manual",
    show_default=True,
    help="Who ends the user's turn.",
)
@click.option("--repeat", type=click.IntRange(1), default=1, show_default=True, help="Rounds of the three dialogues.")
@click.option("--out", type=click.Path(path_type=Path), help="Run folder  [default: runs/<now>-demo]")
@click.option(
    "--resume", type=click.Path(path_type=Path), metavar="RUN", help="Go on with a demo that was interrupted."
)
@click.option("--no-calibration", is_flag=True, help="Leave out the checks of this machine's clock, 4 s each.")
@click.option("--no-scores", is_flag=True, help="Leave out the scores of the replies (some 20 s).")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON on standard output.")
@click.pass_obj
def demo(
    secrets: Secrets,
    /,
    asr: str,
    turn_detection: str,
    repeat: int,
    out: Path | None,
    resume: Path | None,
    no_calibration: bool,
    no_scores: bool,
    as_json: bool,
) -> int:
    """Start the embedded server (VAD, ASR, LLM, TTS: small real models on the CPU) and measure it.

    The server is a process of its own. Three spoken dialogues of three turns are held with it in real time, over the
    OpenAI Realtime protocol, as with any other server. Its replies are scored at the end, when nothing is timed any
    more. The first start fetches the models (0.65 GB; it says what and under which licence); later ones take seconds.

    Exit code: 0 measured, 1 no turn was completed, 2 set-up error, 130 interrupted (it says how to go on).
    """
    import tempfile

    from harness.runs.measuring import begin_run, measure_run
    from harness.runs.own_server import own_server
    from harness.runs.planning import Ask
    from harness.runs.run import Access
    from servers.models.cascade import check_installed
    from sessions.runs import RunFolder
    from sessions.scripts import load_script

    check_installed()
    begun, port = None, 0
    if resume is not None:
        refuse_changes(_MAY_COME_WITH_RESUME)
        begun = RunFolder.open(resume)
        asr, port = _served(begun.plan)
    weights = _weights(asr)
    click.echo("starting the embedded server ...", err=True)
    with tempfile.TemporaryDirectory(prefix="duologue-demo-") as scratch:
        arguments = ["--asr", asr, "--nice", "10", "--port", str(port)]
        with own_server(arguments, Path(scratch) / "server.log") as url:
            click.echo(f"it serves {url}", err=True)
            ask = Ask(
                target=url,
                scripts=[load_script(name) for name in SCRIPTS],
                repeat=repeat,
                turn_detection=turn_detection,
                weights=weights,
            )
            run = begun or begin_run(ask, secrets, out, "demo")
            access = Access(url, {}, "", secrets)
            code = measure_run(run, access, command="demo", as_json=as_json, check_clock=not no_calibration)
    if code != exits.INTERRUPTED and not no_scores:
        code = _score(run.path, asr, as_json, code)
    return code


def _score(run: Path, asr: str, quiet: bool, measured: int) -> int:
    """Score the replies, with the recogniser whose weights are here. The exit code of both: that of measuring, unless
    scoring was interrupted."""
    import shlex

    from harness.cli.score import score_run
    from harness.score.asking import asked

    recogniser = f"faster-whisper:{asr}"
    what = asked(SCORES, {}, everywhere={"asr": recogniser})
    same = f"duologue score {shlex.quote(str(run))} --metrics {','.join(SCORES)} --asr {recogniser}"
    click.echo("scoring the replies ...", err=True)
    scored = score_run(run, what, told="nothing" if quiet else "table", go_on=f"Go on with: {same}")
    return exits.INTERRUPTED if scored == exits.INTERRUPTED else measured


def _served(plan: Plan) -> tuple[str, int]:
    """The recogniser and the port of the server that the plan was begun with."""
    from urllib.parse import urlsplit

    asr = next((name for name in plan.weights if name.startswith("whisper-")), None)
    port = urlsplit(plan.target).port
    if asr is None or port is None:
        raise SetupError("that run was not made by the demo", "Go on with it by: duologue measure --resume RUN")
    return asr, port


def _weights(asr: str) -> dict[str, str]:
    """Fetch what is missing. By entry: the place that serves it and the hashes of its files, for the plan."""
    from harness.fetch import bars, fetch
    from sessions.weights import SETS

    names = [asr, *(name for name in SETS["embedded"] if not name.startswith("whisper-"))]
    with bars() as progress:
        found = fetch(names, progress=progress)
    return {one.name: f"{one.place}: " + ", ".join(one.sha256s.values()) for one in found}
