"""What really happened, from the log of the server's writes; and the errors of what was reported."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from benchmarks.accuracy.material import Reported
from benchmarks.peers.fronts import AUDIO as PEER_AUDIO
from harness.calibrate.truth import AUDIO
from metrics.gate import first_audible_index
from metrics.playout import Arrival, play
from servers.models.behaviour import Behaviour
from servers.models.metronome import RATE_HZ, Sound
from servers.write_log import Write, read_write_log
from sessions.clock import NS_PER_MS

_AUDIO = {AUDIO, PEER_AUDIO}
SOUNDING_DBFS = -70.0
"""From this level on (RMS of a packet) `voicebench` holds a packet to be audio."""


@dataclass(frozen=True, slots=True)
class Truth:
    """One reply, on the host's clock.

    heard_ns, ahead_ns: when the user's speech ended, by the arrival of the frame that holds its last sample: for frames
    that leave when they are complete, and for those that leave when their first sample is spoken (`peers/hearing.py`)
    first_packet_ns: the write of the first packet · sounding_ns: of the first that is not silent ·
    audible_ns: when the first audible sample would be heard, by the play-out model on all writes.
    """

    heard_ns: int
    ahead_ns: int
    first_packet_ns: int
    sounding_ns: int
    audible_ns: float


@dataclass(slots=True)
class _Reply:
    connection: str
    heard_ns: int
    ahead_ns: int = 0
    writes: list[Write] = field(default_factory=list)


def read_truth(log: Path, behaviour: Behaviour) -> dict[str, Truth]:
    """By reply. Replies that were cut short are not among them."""
    replies: dict[str, _Reply] = {}
    for write in read_write_log(log):
        if write.type == "stage.heard":
            replies[write.response_id] = _Reply(write.connection, write.t_ns)
        elif write.type == "stage.ahead":
            replies[write.response_id].ahead_ns = write.t_ns
        elif write.type in _AUDIO:
            replies[write.response_id].writes.append(write)
    counts: dict[str, int] = {}
    found = {}
    for name, reply in replies.items():
        number = counts.get(reply.connection, 0)
        counts[reply.connection] = number + 1
        if "#" in name:  # one of `peers/fronts.py`: its connection may be the second of a dialogue
            number = int(name.rpartition("#")[2])
        truth = _truth(reply, Sound(behaviour.plan(number)))
        if truth is not None:
            found[name] = truth
    return found


def _truth(reply: _Reply, sound: Sound) -> Truth | None:
    if sum(write.samples for write in reply.writes) != sound.samples:
        return None
    pcm = sound.pcm(0, sound.samples)
    played = play([Arrival(write.t_ns, write.samples) for write in reply.writes], RATE_HZ)
    onset = first_audible_index(pcm, RATE_HZ)
    assert played is not None and onset is not None  # every reply of the behaviour has a tone
    first, sounding_ns = 0, 0
    for write in reply.writes:
        packet = pcm[first : first + write.samples].astype(np.float64) / 32768
        first += write.samples
        if len(packet) and np.sqrt(np.mean(packet**2)) > 10 ** (SOUNDING_DBFS / 20):
            sounding_ns = write.t_ns
            break
    audible_ns = float(played.played_at(onset))
    return Truth(reply.heard_ns, reply.ahead_ns, reply.writes[0].t_ns, sounding_ns, audible_ns)


@dataclass(slots=True)
class Found:
    """Errors in ms, by (figure, by whose definition)."""

    errors: dict[tuple[str, str], list[float]] = field(default_factory=dict)

    def add(self, figure: str, judge: str, reported_ms: float, true_ns: float) -> None:
        self.errors.setdefault((figure, judge), []).append(reported_ms - true_ns / NS_PER_MS)


def judge(reported: Iterable[Reported], truths: dict[str, Truth], arm_end: str, sounding: bool) -> Found:
    """Reported − true by the arm's own definition and by ours. The first turn of each dialogue is its warm-up.

    Turns without a figure, and those that the client itself calls invalid, have no error.

    arm_end: what its own definition counts from: "told" (the turn's own `speech_end_ns`), "heard" or "ahead" ·
    sounding: its first packet is the first that is not silent.
    """
    found = Found()
    for turn in reported:
        truth = truths.get(turn.reply)
        if not turn.turn or truth is None or turn.late or turn.first_packet_ms is None:
            continue
        own_ns = {"told": turn.speech_end_ns, "heard": truth.heard_ns, "ahead": truth.ahead_ns}[arm_end]
        own_first_ns = truth.sounding_ns if sounding else truth.first_packet_ns
        found.add("first packet", "own", turn.first_packet_ms, own_first_ns - own_ns)
        found.add("first packet", "ours", turn.first_packet_ms, truth.first_packet_ns - truth.heard_ns)
        if turn.voice_to_voice_ms is not None:
            found.add("voice-to-voice", "own", turn.voice_to_voice_ms, truth.audible_ns - own_ns)
        # A client with one figure has it stand for both.
        to_voice_ms = turn.first_packet_ms if turn.voice_to_voice_ms is None else turn.voice_to_voice_ms
        found.add("voice-to-voice", "ours", to_voice_ms, truth.audible_ns - truth.heard_ns)
    return found


@dataclass(frozen=True, slots=True)
class Spread:
    """Of errors in ms. bias: their mean, with its sign · the rest: of their size; p99 None below 100."""

    n: int
    bias: float
    p50: float
    p99: float | None
    largest: float


def spread(errors: Sequence[float]) -> Spread:
    """Raises `ValueError` where there are none."""
    size = np.abs(np.asarray(errors, np.float64))
    if not len(size):
        raise ValueError("no errors to describe")
    p99 = float(np.percentile(size, 99)) if len(size) >= 100 else None
    return Spread(len(size), float(np.mean(errors)), float(np.percentile(size, 50)), p99, float(size.max()))
