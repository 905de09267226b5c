"""Every measure of a turn: name → "module:object", loaded when used. The order is the order on screen."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from metrics.gate import GATE
from metrics.measures.base import Measure
from metrics.playout import PLAYOUT
from metrics.repeats import REPEATS
from metrics.turn_taking.table import turn_taking_definitions
from sessions.tables import load_a

METRICS: dict[str, str] = {
    "first_packet_ms": "metrics.measures.latencies:FIRST_PACKET",
    "first_text_ms": "metrics.measures.latencies:FIRST_TEXT",
    "voice_to_voice_ms": "metrics.measures.latencies:VOICE_TO_VOICE",
    "voice_to_voice_b20_ms": "metrics.measures.latencies:VOICE_TO_VOICE_B20",
    "voice_to_voice_b60_ms": "metrics.measures.latencies:VOICE_TO_VOICE_B60",
    "voice_to_voice_b100_ms": "metrics.measures.latencies:VOICE_TO_VOICE_B100",
    "voice_to_voice_b200_ms": "metrics.measures.latencies:VOICE_TO_VOICE_B200",
    "first_packet_from_last_sent_ms": "metrics.measures.latencies:FIRST_PACKET_FROM_LAST_SENT",
    "first_text_from_last_sent_ms": "metrics.measures.latencies:FIRST_TEXT_FROM_LAST_SENT",
    "voice_to_voice_from_last_sent_ms": "metrics.measures.latencies:VOICE_TO_VOICE_FROM_LAST_SENT",
    "silence_padding_ms": "metrics.measures.reply_start:SILENCE_PADDING",
    "commit_to_first_packet_ms": "metrics.measures.reply_start:COMMIT_TO_FIRST_PACKET",
    "server_vad_delay_ms": "metrics.measures.reply_start:SERVER_VAD_DELAY",
    "gap_max_ms": "metrics.measures.gaps:GAP_MAX",
    "gap_p50_ms": "metrics.measures.gaps:GAP_P50",
    "underruns_b0": "metrics.measures.continuity:UNDERRUNS_B0",
    "underruns_b20": "metrics.measures.continuity:UNDERRUNS_B20",
    "underruns_b60": "metrics.measures.continuity:UNDERRUNS_B60",
    "underruns_b100": "metrics.measures.continuity:UNDERRUNS_B100",
    "underruns_b200": "metrics.measures.continuity:UNDERRUNS_B200",
    "underrun_b0_ms": "metrics.measures.continuity:UNDERRUN_B0_MS",
    "underrun_b20_ms": "metrics.measures.continuity:UNDERRUN_B20_MS",
    "underrun_b60_ms": "metrics.measures.continuity:UNDERRUN_B60_MS",
    "underrun_b100_ms": "metrics.measures.continuity:UNDERRUN_B100_MS",
    "underrun_b200_ms": "metrics.measures.continuity:UNDERRUN_B200_MS",
    "gapless_prebuffer_ms": "metrics.measures.continuity:GAPLESS_PREBUFFER",
    "real_time_factor": "metrics.measures.continuity:REAL_TIME_FACTOR",
    "reply_duration_ms": "metrics.measures.continuity:REPLY_DURATION",
    "send_lateness_max_ms": "metrics.measures.own_time:SEND_LATENESS",
    "heartbeat_lag_max_ms": "metrics.measures.own_time:HEARTBEAT_LAG",
}


@cache
def metric(name: str) -> Measure:
    """The measure of that name. Raises `SetupError` that lists the known ones and the nearest."""
    return load_a(Measure, METRICS, name, "metric")


def definitions(names: Iterable[str] = METRICS) -> dict[str, str]:
    """Name → version of each measure, of the gate, the play-out model and what else they rest on, to be kept with every
    result."""
    shared = dict(item.split("/") for item in (GATE, PLAYOUT, REPEATS))
    return shared | {name: metric(name).version for name in names} | turn_taking_definitions()
