"""The metronome behind one front, in a process of its own, with its log of writes. Stops when standard input closes.

python -m benchmarks.peers.server FRONT BEHAVIOUR LOG
"""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
from pathlib import Path

import click

from benchmarks.peers.hearing import HearingServer
from harness.runs.loop import run_timed
from servers.app import RunningServer, run_forever
from servers.fronts.table import FRONTS
from servers.models.behaviour import load_behaviour
from servers.write_log import WriteLog
from sessions.clock import MonotonicClock

PEER_FRONTS = {
    "voicebench": "benchmarks.peers.fronts:PcmFront",
    "voice-evals": "benchmarks.peers.fronts:CommitFront",
    "speech-to-speech-client": "benchmarks.peers.fronts:UntoldFront",
}


def _stop_with_input() -> None:
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _say(running: RunningServer) -> None:
    click.echo(running.url)
    sys.stdout.flush()


@click.command()
@click.argument("front")
@click.argument("behaviour", type=click.Path(path_type=Path))
@click.argument("log", type=click.Path(path_type=Path))
def main(front: str, behaviour: Path, log: Path) -> None:
    """Print the address, then serve until standard input closes."""
    FRONTS.update(PEER_FRONTS)  # in this process only, as an installed plugin's entry point would
    threading.Thread(target=_stop_with_input, daemon=True).start()
    model = HearingServer(load_behaviour(behaviour), MonotonicClock())
    write_log = WriteLog(log, keep=False)
    gc.freeze()
    gc.disable()  # a collection would put off the stamps that are the truth here
    run_timed(run_forever(model, on_ready=_say, host="127.0.0.1", port=0, front=front, write_log=write_log))


if __name__ == "__main__":
    main()
