"""Replies that begin with something that is not speech, from their packets to the latencies: both are given."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from metrics.conversation import Conversation, Packet, Pcm, Reply
from metrics.gate import GATE
from metrics.result import TurnResult, Value
from metrics.table import definitions
from metrics.turns import measure_conversation
from tests.metrics.test_instants import END_NS, MS, START_NS, turn_a

RATE_HZ = 24_000
FIRST_PACKET_MS = 200
Wave = NDArray[np.float64]


def samples_of(ms: float) -> int:
    return round(ms * RATE_HZ / 1000)


def noise(ms: float, rms: float) -> Wave:
    return np.random.default_rng(7).normal(0, rms, samples_of(ms))


def flat(ms: float, level: float = 0.0) -> Wave:
    return np.full(samples_of(ms), level)


def tone(ms: float = 500, rms: float = 0.06) -> Wave:
    return np.asarray(rms * np.sqrt(2) * np.cos(2 * np.pi * 400 * np.arange(samples_of(ms)) / RATE_HZ))


def result_of(*parts: Wave) -> TurnResult:
    """The reply in packets of 20 ms, each arriving as the one before ends."""
    pcm: Pcm = np.round(np.concatenate(parts) * 32768).clip(-32768, 32767).astype(np.int16)
    size = RATE_HZ // 50
    began_ns = END_NS + FIRST_PACKET_MS * MS
    packets = tuple(
        Packet(began_ns + first // size * 20 * MS, pcm[first : first + size]) for first in range(0, len(pcm), size)
    )
    reply = Reply("r", began_ns, packets, (), done_ns=packets[-1].t_ns + MS, status="completed")
    [result] = measure_conversation(Conversation("A", RATE_HZ, START_NS - MS, (turn_a(),), (reply,)))
    return result


def value(result: TurnResult, name: str) -> float:
    found = result.measures[name]
    assert isinstance(found, Value)
    return found.value


@pytest.mark.parametrize(
    ("parts", "onset_ms", "flags"),
    [
        pytest.param((noise(600, 0.003), tone()), 600.0, 0, id="600 ms of noise at -50 dBFS"),
        pytest.param((noise(80, 10 ** (-104 / 20)), tone()), 80.0, 0, id="80 ms at -104 dBFS"),
        pytest.param((flat(300, 0.01), tone() + 0.01), 300.0, 0, id="300 ms of offset"),
        pytest.param((noise(3, 0.3), flat(400), tone()), 403.0, 1, id="a click and 400 ms of silence"),
    ],
)
def test_what_comes_before_the_words_is_padding(parts: tuple[Wave, ...], onset_ms: float, flags: int) -> None:
    result = result_of(*parts)
    assert value(result, "first_packet_ms") == FIRST_PACKET_MS
    assert value(result, "voice_to_voice_ms") == pytest.approx(FIRST_PACKET_MS + onset_ms, abs=0.1)
    assert value(result, "silence_padding_ms") == pytest.approx(onset_ms, abs=0.1)
    assert len(result.flags) == flags
    assert all("too short for speech" in flag for flag in result.flags)
    assert (result.turn_class, result.outcome) == ("completed", "answered")


def test_a_soft_fricative_is_not_cut() -> None:
    ramp = noise(150, 0.06) * np.linspace(0, 1, samples_of(150))
    result = result_of(ramp, tone())
    assert 0 < value(result, "silence_padding_ms") < 30
    assert result.flags == []


def test_the_gate_stands_beside_the_figures() -> None:
    assert f"gate/{definitions()['gate']}" == GATE
