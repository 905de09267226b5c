"""`duologue serve`: the embedded cascade, the metronome or a recording, as a server that anyone can talk to."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from sessions.errors import SetupError
from sessions.secrets import Secrets

if TYPE_CHECKING:
    from servers.app import RunningServer
    from servers.speech_model import SpeechModelServer

_PORT, _REFLECTOR_PORT = 8765, 8766

_EXAMPLES = """
\b
Examples:
  duologue serve                             the embedded assistant
  duologue serve --asr whisper-tiny.en       with a quicker recogniser
  duologue serve --metronome steady          its every write is known
  duologue serve --metronome interruptible   one that stops 150 ms after it is
                                             interrupted, for talk
  duologue serve --metronome mine.yaml --write-log writes.jsonl
  duologue serve --metronome list            the behaviours that come with it
  duologue serve --replay runs/2026-11-29T10-15-00-demo/dialogues/d0001
                                             a recorded dialogue again
  duologue serve --reflector --host 0.0.0.0  beside a model server: tells the
                                             network's share

\b
Then, in another terminal:
  duologue measure ws://127.0.0.1:8765 --script small-talk
"""


@click.command(epilog=_EXAMPLES)
@click.option(
    "--metronome",
    metavar="BEHAVIOUR",
    help="Serve the metronome: a shipped behaviour's name, or a file; `list` shows the names.",
)
@click.option(
    "--replay",
    type=click.Path(path_type=Path),
    metavar="RUN|DIALOGUE",
    help="Serve no model: answer as RUN/dialogues/ID was answered; of a RUN each connection gets the next dialogue.",
)
@click.option("--reflector", is_flag=True, help="Serve no model: send each message back, for measure --reflector.")
@click.option(
    "--asr",
    default="whisper-base",
    show_default=True,
    metavar="NAME|FOLDER",
    help="The cascade's recogniser; whisper-tiny.en is quicker.",
)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on; 0.0.0.0 for all.")
@click.option(
    "--port", type=click.IntRange(0, 65535), help="Port; 0 takes a free one.  [default: 8765; reflector: 8766]"
)
@click.option("--front", default="openai-realtime", show_default=True, help="The protocol to serve.")
@click.option(
    "--api-key-env", default="", metavar="NAME", help="Environment variable that holds the key that clients must send."
)
@click.option(
    "--write-log",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Keep the instant of every message written, as JSON lines on this host's monotonic clock.",
)
@click.option(
    "--nice", type=click.IntRange(0, 19), default=0, show_default=True, help="Run at this lower priority (0: normal)."
)
@click.option("--stop-with-stdin", is_flag=True, help="Stop when standard input closes: for programs that start it.")
@click.option("--json", "as_json", is_flag=True, help="Say where it listens as one line of JSON.")
@click.pass_obj
def serve(
    secrets: Secrets | None,
    /,
    metronome: str | None,
    replay: Path | None,
    reflector: bool,
    asr: str,
    host: str,
    port: int | None,
    front: str,
    api_key_env: str,
    write_log: Path | None,
    nice: int,
    stop_with_stdin: bool,
    as_json: bool,
) -> None:
    """Serve a speech-to-speech model over the OpenAI Realtime protocol (GA).

    Without options: the embedded cascade (voice detection, recognition, chat, speech; small real models, no key, no
    GPU). With --metronome: a server that follows a behaviour file, for checking clients and measurements. With
    --replay: no model; recorded messages at their recorded instants, to a client that says what was said again
    (docs/replay.md). With --reflector: no model; it sends back what it gets, for telling the network's share. One line
    says where it listens; /health answers monitors; Ctrl-C stops it in order.

    Exit code: 0 stopped, 2 set-up error.
    """
    if metronome == "list":
        _list_behaviours()
        return
    if reflector:
        _without_a_model("--reflector", "metronome", "replay", "asr", "front", "api_key_env", "write_log")
        front, port = "reflector", _REFLECTOR_PORT if port is None else port
    elif replay is not None:
        _without_a_model("--replay", "metronome", "asr", "front", "api_key_env")
        front = "replay"
    key = _api_key(api_key_env, secrets)
    if nice:
        _lower_priority(nice)
    if stop_with_stdin:
        if sys.stdin is None:
            raise SetupError("there is no standard input to stop with", "Keep it open, or leave --stop-with-stdin out")
        threading.Thread(target=_stop_when_input_ends, name="standard input", daemon=True).start()
    model = _recorded(replay) if replay else _no_model() if front == "reflector" else _model(metronome, asr)

    def on_ready(running: RunningServer) -> None:
        if as_json:
            place = {"url": running.url, "host": running.host, "port": running.port, "health_url": running.health_url}
            click.echo(json.dumps({**place, "pid": os.getpid(), "model": model.name}))
        else:
            click.echo(f"listening on {running.url}")

    from servers.app import run_forever
    from servers.write_log import WriteLog

    log = WriteLog(write_log, keep=False)
    port = _PORT if port is None else port
    serving = run_forever(model, on_ready=on_ready, host=host, port=port, front=front, api_key=key, write_log=log)
    if front == "replay":
        from harness.runs.loop import run_timed

        run_timed(serving)  # its instants are all that it is for
    else:
        asyncio.run(serving)


def _without_a_model(which: str, *others: str) -> None:
    """Refuse what it would silently leave out."""
    context = click.get_current_context()
    for name in others:
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            option = f"--{name.replace('_', '-')}"
            raise SetupError(f"{option} does not go with {which}, which has no model", f"Leave {option} out")


def _recorded(place: Path) -> SpeechModelServer:
    from harness.replay.source import recordings
    from servers.replay.front import ReplayServer

    return ReplayServer(recordings(place))


def _no_model() -> SpeechModelServer:
    from servers.fronts.reflector import NoModel

    return NoModel()


def _stop_when_input_ends() -> None:
    """The program that started us holds the other end of standard input; when it is gone, so are we."""
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _model(metronome: str | None, asr: str) -> SpeechModelServer:
    from servers.models.table import MODELS
    from sessions.tables import load

    server: SpeechModelServer
    if metronome is not None:
        server = load(MODELS, "metronome", "model")(metronome)
    else:
        folder = Path(asr)
        server = load(MODELS, "cascade", "model")(asr=folder if folder.is_dir() else asr)
    return server


def _list_behaviours() -> None:
    from servers.models.behaviour import load_behaviour, shipped

    for name in shipped():
        click.echo(f"{name:18}{load_behaviour(name).description}")


def _api_key(name: str, secrets: Secrets | None) -> str:
    if not name:
        return ""
    key = os.environ.get(name, "")
    if not key:
        raise SetupError(f"the environment variable {name} holds no key", f"Set it, as in: export {name}=…")
    if secrets is not None:
        secrets.add(key)
    return key


def _lower_priority(nice: int) -> None:
    if not hasattr(os, "nice"):
        raise SetupError("this system has no priorities to set", "Leave --nice out")
    os.nice(nice)
