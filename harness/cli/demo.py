"""`duologue demo`: the main job on real parts, on this machine, without keys."""

from __future__ import annotations

from pathlib import Path

import click

from sessions.secrets import Secrets

SCRIPTS = ("small-talk", "trip-planning", "facts")

_EXAMPLES = """
\b
Examples:
  duologue demo
  duologue demo --asr whisper-tiny.en --turn-detection server_vad --out runs/fast
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
@click.option("--json", "as_json", is_flag=True, help="Print the summary as JSON on standard output.")
@click.pass_obj
def demo(secrets: Secrets, /, asr: str, turn_detection: str, repeat: int, out: Path | None, as_json: bool) -> int:
    """Start the embedded server (VAD, ASR, LLM, TTS: small real models on the CPU) and measure it.

    The server is a process of its own. Three spoken dialogues of three turns are held with it in real time, over the
    OpenAI Realtime protocol, as with any other server. The first start fetches the models (0.65 GB; it says what and
    under which licence); later ones take seconds.
    """
    import tempfile

    from harness.measuring import begin_run, measure_run
    from harness.own_server import own_server
    from harness.planning import Ask
    from harness.run import Access
    from sessions.scripts import load_script

    weights = _weights(asr)
    click.echo("starting the embedded server ...", err=True)
    with tempfile.TemporaryDirectory(prefix="duologue-demo-") as scratch:
        log = Path(scratch) / "server.log"
        with own_server(["--asr", asr, "--nice", "10"], log) as url:
            click.echo(f"it serves {url}", err=True)
            ask = Ask(
                target=url,
                scripts=[load_script(name) for name in SCRIPTS],
                repeat=repeat,
                turn_detection=turn_detection,
                weights=weights,
            )
            run = begin_run(ask, secrets, out, "demo")
            code = measure_run(run, Access(url, {}, "", secrets), as_json=as_json)
    return code


def _weights(asr: str) -> dict[str, str]:
    """Fetch what is missing. By entry: the place that serves it and the hashes of its files, for the plan."""
    from harness.fetch import bars, fetch
    from sessions.weights import SETS

    names = [asr, *(name for name in SETS["embedded"] if not name.startswith("whisper-"))]
    with bars() as progress:
        found = fetch(names, progress=progress)
    return {one.name: f"{one.place}: " + ", ".join(one.sha256s.values()) for one in found}
