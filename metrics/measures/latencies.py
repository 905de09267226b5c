"""First packet, first text and voice-to-voice: from the end of the user's speech, and from the last frame written.

first_packet_ms, first_text_ms, voice_to_voice_ms = first_packet, first_text, first_audible − speech_end. The same from
`last_sent` leave out what this side took to write the frame that holds the last speech sample. Negative values (the
peer talks over the user) are data: never clamped, never dropped.

voice_to_voice_b20_ms … b200_ms = first_played behind a jitter buffer of that many ms − speech_end.
"""

from __future__ import annotations

from collections.abc import Callable

from metrics.measures.base import Measure, latency
from metrics.result import Measured, Unavailable, Value
from metrics.view import TurnView
from sessions.clock import NS_PER_MS

FIRST_PACKET = latency("first_packet_ms", "first_packet", "speech_end")
FIRST_TEXT = latency("first_text_ms", "first_text", "speech_end")
VOICE_TO_VOICE = latency("voice_to_voice_ms", "first_audible", "speech_end")
FIRST_PACKET_FROM_LAST_SENT = latency("first_packet_from_last_sent_ms", "first_packet", "last_sent")
FIRST_TEXT_FROM_LAST_SENT = latency("first_text_from_last_sent_ms", "first_text", "last_sent")
VOICE_TO_VOICE_FROM_LAST_SENT = latency("voice_to_voice_from_last_sent_ms", "first_audible", "last_sent")


def _behind(buffer_ms: int) -> Measure:
    return Measure(
        f"voice_to_voice_b{buffer_ms}_ms",
        "1",
        "ms",
        "lower",
        f"first_played behind {buffer_ms} ms − speech_end",
        _played(buffer_ms),
    )


def _played(buffer_ms: int) -> Callable[[TurnView], Measured]:
    def measure(view: TurnView) -> Measured:
        played_ns = view.instants.played_ns.get(buffer_ms)
        if played_ns is None:
            return Unavailable(view.instants.why_not["first_audible"])
        return Value((played_ns - view.instants.at_ns["speech_end"]) / NS_PER_MS)

    return measure


VOICE_TO_VOICE_B20 = _behind(20)
VOICE_TO_VOICE_B60 = _behind(60)
VOICE_TO_VOICE_B100 = _behind(100)
VOICE_TO_VOICE_B200 = _behind(200)
