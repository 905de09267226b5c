"""The short form of a calibration, for before and after a run: about 3 seconds, one dialogue over one transport."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from harness.calibrate.bound import Check
from harness.calibrate.carriers import TRANSPORTS, Carrier
from harness.calibrate.converse import compare, converse, longest_stall_ms
from harness.calibrate.grid import Cell, behaviour, utterances
from harness.runs.loop import run_timed
from harness.runs.own_server import own_server
from servers.write_log import read_write_log
from sessions.clock import MonotonicClock, TimerWheel, wall_time
from sessions.errors import DuologueError

OFF = "DUOLOGUE_CALIBRATION"
"""Environment variable: "off" leaves the checks beside a run out."""
TURNS = 12
_WARMUP = 1
_NICE = 10
"""The metronome gives way to the process that keeps time, as the server of `duologue demo` does."""
_CELLS = (Cell(20, 20, 20, "steady", 40), Cell(0, 20, 0, "steady", 60), Cell(40, 20, 40, "steady", 40))


def wanted() -> bool:
    """Whether the environment lets checks be made."""
    return os.environ.get(OFF) != "off"


def quick(protocol: str = "openai-realtime", dialogues: int = 1) -> Check:
    """Check this process's clock against a metronome in a process of its own. Never raises for what goes wrong there.

    protocol: the run's; the transport that carries it is checked, the first one where none does · dialogues: at once.
    """
    begun = wall_time()
    fitting = [carrier for carrier in TRANSPORTS.values() if carrier.protocol == protocol]
    try:
        return _check(begun, (fitting or list(TRANSPORTS.values()))[0], dialogues)
    except (DuologueError, OSError, ValueError) as error:
        return Check(begun, problem=str(error), dialogues=dialogues)


def _check(begun: str, carrier: Carrier, dialogues: int) -> Check:
    clock = TimerWheel(MonotonicClock())
    with tempfile.TemporaryDirectory(prefix="duologue-check-") as scratch:
        place = Path(scratch)
        (place / "check.yaml").write_text(behaviour(_CELLS))
        log = place / "writes.jsonl"
        arguments = ["--metronome", str(place / "check.yaml"), "--write-log", str(log), "--front", carrier.front]
        with own_server([*arguments, "--nice", str(_NICE)], place / "server.log") as url:
            turns = utterances(_WARMUP + TURNS)
            records = run_timed(converse(carrier, carrier.dialler(url, clock), clock, turns, dialogues))
        found = compare(carrier, records, read_write_log(log), skip=_WARMUP)
    pairs = zip(found.first_packet_ms, found.voice_to_voice_ms, strict=True)
    return Check(
        wall_time=begun,
        errors_ms=[max(pair, key=abs) for pair in pairs],
        invalid=found.excluded,
        stall_max_ms=longest_stall_ms(records),
        dialogues=dialogues,
    )
