"""The clients that are compared, and the servers that they talk to. Every client runs as a process of its own."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec

from benchmarks.accuracy.material import RATE_HZ, Reported, write_script
from benchmarks.peers.environment import interpreter_for
from harness.results.derive import derive
from metrics.result import TurnResult, Value
from metrics.turns import measure_conversation
from sessions.errors import SetupError
from sessions.events import read_log
from sessions.runs import RunFolder

_PEERS = Path(__file__).resolve().parents[1] / "peers"
_LIMIT_S = 180
_ENVIRONMENT = {**os.environ, "NO_PROXY": "127.0.0.1,localhost"}


@dataclass(frozen=True, slots=True)
class Job:
    """One go of one arm. place: a folder for its files · clips: by their rate · tag: a name that no other go has."""

    url: str
    place: Path
    clips: dict[int, Path]
    streams: int
    turns: int
    tag: str


@dataclass(frozen=True, slots=True)
class Arm:
    """perform: hold the dialogues and say what was reported; raises `SetupError` where the client did not manage.

    front: what it speaks · end, sounding: its own definition, as `truth.judge` takes it.
    """

    name: str
    front: str
    perform: Callable[[Job], list[Reported]]
    end: str
    sounding: bool = False


@contextlib.contextmanager
def server(front: str, behaviour: Path, log: Path) -> Iterator[str]:
    """The metronome behind `front`, in a process of its own; its address. `log` is whole when this ends."""
    command = [sys.executable, "-m", "benchmarks.peers.server", front, str(behaviour), str(log)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None and process.stdout is not None
    try:
        url = process.stdout.readline().decode().strip()
        if not url:
            raise SetupError(f"the metronome behind {front} did not start", f"Try it by hand: {' '.join(command[1:])}")
        yield url
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()


def _driven(command: list[str], what: str) -> list[Reported]:
    try:
        ran = subprocess.run(command, capture_output=True, timeout=_LIMIT_S, check=False, env=_ENVIRONMENT)
    except subprocess.TimeoutExpired:
        raise SetupError(f"{what} did not come to an end in {_LIMIT_S} s", "Run it again on a quiet machine") from None
    if ran.returncode or not ran.stdout:
        said = ran.stderr.decode(errors="replace").strip().splitlines() or ["no word of it"]
        raise SetupError(f"{what} failed: {said[-1]}", "Run its driver by hand to see all that it says")
    return msgspec.json.decode(ran.stdout, type=list[Reported])


def _plain(variant: str) -> Callable[[Job], list[Reported]]:
    def perform(job: Job) -> list[Reported]:
        script = [sys.executable, str(_PEERS / "plain_script.py"), variant]
        return _driven(
            [*script, job.url, str(job.clips[RATE_HZ]), str(job.streams), str(job.turns)], f"the script ({variant})"
        )

    return perform


def _peer(name: str, driver: str, rate_hz: int = RATE_HZ) -> Callable[[Job], list[Reported]]:
    def perform(job: Job) -> list[Reported]:
        command = [str(interpreter_for(name)), "-I", str(_PEERS / driver)]
        clips = job.clips[rate_hz]
        return _driven([*command, job.url, str(clips), str(job.streams), str(job.turns), job.tag], name)

    return perform


def _ours(job: Job) -> list[Reported]:
    """`duologue measure --sessions N`, as a user would call it; the figures are those of its run folder."""
    script = write_script(job.place, job.clips[RATE_HZ], job.turns)
    path = job.place / job.tag
    load = ["--sessions", str(job.streams), "--repeat", str(job.streams)]
    command = [sys.executable, "-m", "harness", "measure", job.url, "--script", str(script), *load]
    ran = subprocess.run(
        [*command, "--no-calibration", "--out", str(path)],
        capture_output=True,
        text=True,
        check=False,
        timeout=_LIMIT_S,
    )
    if ran.returncode:
        said = ran.stderr.strip().splitlines() or ["no word of it"]
        raise SetupError(f"duologue measure failed: {said[-1]}", "Run it by hand to see all that it says")
    run = RunFolder.open(path)
    found = []
    for line in run.journal():
        folder = run.dialogue(line.id)
        derived = derive(read_log(folder / "events.jsonl"), (folder / "received.bin").read_bytes())
        turns = measure_conversation(derived.conversation, limit_lateness_ms=run.plan.limits.lateness_ms)
        found += [_reported(turn) for turn in turns]
    return found


def _reported(turn: TurnResult) -> Reported:
    first, to_voice = (turn.measures.get(name) for name in ("first_packet_ms", "voice_to_voice_ms"))
    return Reported(
        turn.turn,
        turn.reply_ids[0] if turn.reply_ids else "",
        first.value if isinstance(first, Value) else None,
        to_voice.value if isinstance(to_voice, Value) else None,
        turn.instants_ns.get("speech_end", 0),
        turn.turn_class != "completed",
    )


OURS = "duologue"
ARMS = (
    Arm(OURS, "openai-realtime", _ours, "told"),
    Arm("voicebench 0.2.0", "voicebench", _peer("voicebench", "drive_voicebench.py"), "ahead", sounding=True),
    Arm("voice-evals 0.2.1", "voice-evals", _peer("voice-evals", "drive_voice_evals.py"), "ahead"),
    Arm(
        "speech-to-speech 1.1.0",
        "speech-to-speech-client",
        _peer("speech-to-speech-client", "drive_speech_to_speech.py", 16_000),
        "ahead",
    ),
    Arm("script, time()", "openai-realtime", _plain("wall"), "heard"),
    Arm("script, perf_counter", "openai-realtime", _plain("perf"), "heard"),
)

NOT_DRIVEN = {
    "vllm-omni bench": "its packages do not resolve without a GPU build of vllm and torch",
    "guidellm": "torch is a hard dependency; its realtime backend sends all audio at once and measures text",
    "aiperf": "no WebSocket, no audio out",
    "pipecat evals": "drives agents built on pipecat by its own RTVI client; verdicts against a budget, no latencies",
    "voicecheck": "talks to LiveKit, Daily, Vapi and Retell only (its generic WebSocket base class is abstract)",
    "voxarena": "talks to OpenAI and Gemini at addresses that are fixed in it, by pipecat, with their keys",
    "modelping": "talks to cloud providers at fixed addresses with their keys; no WebSocket",
    "voiceeval-cli, voice-agent-eval": "score finished recordings; they hold no conversation",
    "aiewf-eval, EVA, tau3, Full-Duplex-Bench": "not on PyPI; need cloud providers",
}
"""Clients that measure speech agents and cannot be driven here, with the reason."""
