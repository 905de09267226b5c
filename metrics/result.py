"""What the metrics give back: per turn instants, measures, an outcome; three kinds of answer per measure."""

from __future__ import annotations

from typing import Literal

import msgspec

PLAYOUT_BUFFERS_MS = (0, 20, 60, 100, 200)
"""Jitter buffers that are always reported."""


class Value(msgspec.Struct, frozen=True, tag_field="is", tag="value"):
    """A number in the measure's unit."""

    value: float


class Unavailable(msgspec.Struct, frozen=True, tag_field="is", tag="unavailable"):
    """Not applicable here, because …"""

    because: str


class Failed(msgspec.Struct, frozen=True, tag_field="is", tag="error"):
    """The computation itself failed."""

    error: str


Measured = Value | Unavailable | Failed

TurnClass = Literal["completed", "invalid", "failed"]


class PauseCase(msgspec.Struct, frozen=True):
    """One pause inside an utterance. was_cut: the server ended the turn in it, or just after it."""

    pause_ms: float
    was_cut: bool


class TurnResult(msgspec.Struct, frozen=True):
    """One attempt, measured.

    instants_ns: by the names of docs/metrics.md (speech_end, last_sent, turn_committed, first_packet, first_text,
    first_audible, reply_done …); an instant that does not exist is absent. played_ns: first_played by buffer in ms.
    measures: by the metric's name. flags: remarks on this turn ("audio after done", "protocol fault: …").
    kind: what the turn is, as in its script; one that expects no reply has no latencies. turn_taking: by the measure's
    name, those that a turn of this kind has. pauses: in order, where the server could end the turn in them.
    """

    turn: int
    turn_class: TurnClass
    outcome: str
    detail: str
    method: str
    instants_ns: dict[str, int]
    played_ns: dict[str, int]
    measures: dict[str, Measured]
    reply_ids: list[str]
    false_starts: int
    false_start_heard_ms: float
    heard_text: str
    """The reply's text."""
    flags: list[str]
    kind: str = "speech"
    expects_reply: bool = True
    turn_taking: dict[str, Measured] = {}
    pauses: list[PauseCase] = []
