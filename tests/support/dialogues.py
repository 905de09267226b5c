"""Performing a dialogue in a test, and measuring it through the same path as a run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from clients.dialect import SessionOptions
from clients.openai_realtime import OpenAIRealtime
from clients.transports import Transport
from harness.dialogue.perform import Dialogue
from harness.dialogue.record import Performance, Record, TurnToSpeak
from harness.results.derive import Derived, derive
from metrics.result import TurnResult, Value
from metrics.turns import measure_conversation
from sessions.clock import NS_PER_MS, Clock
from sessions.runs import Limits
from sessions.secrets import Secrets
from tests.support.peers import Peer, in_memory, tone
from tests.support.virtual_time import VirtualClock, run_virtual


@dataclass(frozen=True, slots=True)
class Played:
    """A dialogue that was performed: its raw record, what was derived, what was measured."""

    record: Record
    derived: Derived
    turns: list[TurnResult]
    sent: list[tuple[int, str]]

    def ms(self, turn: int, measure: str) -> float:
        """A measure's value in its unit. Fails where it is not a value."""
        measured = self.turns[turn].measures[measure]
        assert isinstance(measured, Value), measured
        return measured.value


def utterance(duration_ms: float = 500, tail_ms: float = 0, gap_ms: float = 100) -> TurnToSpeak:
    """A turn whose speech ends with the last sample of its tone; `tail_ms` of zeros follow in the clip."""
    speech = tone(duration_ms)
    tail = np.zeros(round(tail_ms * 24), dtype=np.int16)
    return TurnToSpeak(np.concatenate([speech, tail]), len(speech) - 1, "annotation", round(gap_ms * NS_PER_MS))


async def perform(
    connect: Callable[[], Awaitable[Transport]],
    clock: Clock,
    turns: Sequence[TurnToSpeak],
    *,
    limits: Limits | None = None,
    turn_detection: str = "manual",
    **settings: Any,
) -> Played:
    dialect = OpenAIRealtime(SessionOptions(turn_detection=turn_detection))
    limits = limits or Limits()
    how = Performance(
        dialect=dialect,
        connect=connect,
        clock=clock,
        limits=limits,
        frame_ms=settings.pop("frame_ms", 20),
        secrets=settings.pop("secrets", None) or Secrets(),
    )
    record = await Dialogue(how, turns).perform()
    derived = derive(record.log(), bytes(record.received))
    results = measure_conversation(derived.conversation, limit_lateness_ms=limits.lateness_ms)
    return Played(record, derived, results, [])


def play_virtual(peer: Peer, turns: Sequence[TurnToSpeak] | None = None, **settings: Any) -> Played:
    """Perform `turns` (default: one) against `peer` in memory, on the virtual clock."""

    async def make(clock: VirtualClock) -> Played:
        transports = []
        async with in_memory(peer, clock) as connect:

            async def keep() -> Transport:
                transport = await connect()
                transports.append(transport)
                return transport

            played = await perform(keep, clock, turns or [utterance()], **settings)
        return Played(played.record, played.derived, played.turns, [s for t in transports for s in t.sent])

    played = run_virtual(make)
    assert isinstance(played, Played)
    return played
