"""The spans that voice-to-voice is made of: from the end of the user's speech to the first sample that is heard.

speech_end → last_sent → turn_committed → reply_created → first_packet → first_audible. A step that a protocol has not
(B has no commit) is left out, and its time belongs to the span after it.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise

import msgspec

from metrics.result import TurnResult, Value
from sessions.clock import NS_PER_MS

STEPS = ("speech_end", "last_sent", "turn_committed", "reply_created", "first_packet", "first_audible")
TOLERANCE_MS = 1.0


class Span(msgspec.Struct, frozen=True):
    """From one instant to the next one that the turn has, in milliseconds; negative where the peer was ahead."""

    start: str
    end: str
    ms: float


def spans(instants_ns: Mapping[str, int]) -> list[Span]:
    """The turn's spans, in order; empty where nothing was heard."""
    if "speech_end" not in instants_ns or "first_audible" not in instants_ns:
        return []
    there = [name for name in STEPS if name in instants_ns]
    return [Span(a, b, (instants_ns[b] - instants_ns[a]) / NS_PER_MS) for a, b in pairwise(there)]


def discord(turn: TurnResult, reported_ms: float | None) -> str:
    """Why the spans do not sum to voice-to-voice, "" where they do. reported_ms: as turns.csv says, if it does."""
    found = spans(turn.instants_ns)
    measured = turn.measures.get("voice_to_voice_ms")
    value = measured.value if isinstance(measured, Value) else None
    if not found:
        what = "" if value is None else f"voice-to-voice is {value:.3f} ms, without the instants that it is made of"
        return what or ("" if reported_ms is None else f"says {reported_ms:.3f} ms; by the log nothing was heard")
    total_ms = sum(span.ms for span in found)
    if value is not None and abs(total_ms - value) > TOLERANCE_MS:
        return f"the spans sum to {total_ms:.3f} ms, voice-to-voice is {value:.3f} ms"
    if value is not None and reported_ms is None:
        return f"says nothing; by the log it is {value:.3f} ms"
    if reported_ms is not None and abs(total_ms - reported_ms) > TOLERANCE_MS:
        return f"says {reported_ms:.3f} ms; by the log the spans sum to {total_ms:.3f} ms"
    return ""
