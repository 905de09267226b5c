"""What a run came to, before it is aggregated: one `DialogueResult` per dialogue, made by `results/derive.py`."""

from __future__ import annotations

import msgspec

from harness.network.trips import Trips
from harness.results.devices import Devices
from harness.results.timeline import Timeline
from metrics.result import Measured, TurnResult


class DialogueResult(msgspec.Struct, frozen=True):
    """One dialogue, measured.

    phases_ms: connection phases (dns, tcp, tls, upgrade) and `session_setup` · ready_ns: when the user's clock started
    (0 on the recording) · said: the user's words per turn, from the script · understood: what the server says it
    heard, per turn, "" where it says nothing · recording: the stereo FLAC's path in the run folder, "" where none.
    The lists are as long as `turns`.
    """

    id: str
    number: int
    script: str
    warmup: bool
    wall_time: str
    completed: bool
    phases_ms: dict[str, float]
    ready_ns: int | None
    ended_ns: int
    turns: list[TurnResult]
    said: list[str]
    understood: list[str]
    recording: str
    faults: list[str]
    start_delay_ms: float | None = None
    """Open loop: from the instant at which the dialogue was to begin to its readiness."""
    trips: Trips | None = None
    """Round trips on its own connection."""
    session: dict[str, Measured] = {}
    """Class D: how its one stream played."""
    devices: Devices | None = None
    """A person spoke by microphone."""
    timeline: Timeline | None = None
    """What its timeline shows beside the instants of its turns."""
