"""Dialogues with the metronome, many at once in this process, and what they show when its write log is known."""

from __future__ import annotations

import asyncio
import functools
import gc
import operator
from collections.abc import Awaitable, Callable, Iterable, Sequence

from clients.transports import Transport
from harness.calibrate.carriers import LIMITS, Carrier
from harness.calibrate.truth import Errors, errors
from harness.dialogue.heartbeat import Heartbeat
from harness.dialogue.pacing import FrameTexts
from harness.dialogue.perform import Dialogue
from harness.dialogue.record import Performance, Record, TurnToSpeak
from harness.results.derive import derive
from metrics.turns import measure_conversation
from servers.write_log import Write
from sessions.clock import NS_PER_MS, Clock
from sessions.errors import SetupError
from sessions.events import Stall
from sessions.secrets import Secrets

FRAME_MS = 20
_APART_NS = 29 * NS_PER_MS
"""Between the beginnings of two dialogues: no multiple of a frame, so that their frames never leave together."""


async def converse(
    carrier: Carrier,
    dial: Callable[[], Awaitable[Transport]],
    clock: Clock,
    turns: Sequence[TurnToSpeak],
    dialogues: int,
    on_turn: Callable[[], None] = lambda: None,
) -> list[Record]:
    """Hold `dialogues` at once over the same turns. on_turn: told after each turn of each.

    Raises the dialogue's own error where one could not be held: there is nothing to calibrate then.
    """
    dialect = carrier.dialect()
    how = Performance(
        dialect=dialect,
        connect=dial,
        clock=clock,
        limits=LIMITS,
        frame_ms=FRAME_MS,
        secrets=Secrets(),
        on_turn=lambda turn, tracker: on_turn(),
        texts=FrameTexts(dialect.audio, dialect.rate_hz * FRAME_MS // 1000),
        heartbeat=Heartbeat(clock, LIMITS.lateness_ms),
    )
    start_ns = clock.now_ns()

    async def one(number: int) -> Record:
        await clock.sleep_until_ns(start_ns + number * _APART_NS)
        return await Dialogue(how, turns).perform()

    gc.collect()
    gc.disable()  # as in a run: a collection would show as lateness
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(one(number)) for number in range(dialogues)]
    finally:
        gc.enable()
    records = [task.result() for task in tasks]
    for record in records:
        if record.error is not None:
            raise record.error
    return records


def compare(carrier: Carrier, records: Iterable[Record], writes: Sequence[Write], skip: int = 0) -> Errors:
    """What the records report against the truth in `writes`. skip: turns at the beginning of each that do not count.

    Raises `SetupError` where a turn failed: lateness is this machine's, but a metronome that fails calibrates nothing;
    `ValueError` where the log is not that of these dialogues.
    """
    found = []
    for record in records:
        conversation = derive(record.log(), bytes(record.received)).conversation
        turns = measure_conversation(conversation, limit_lateness_ms=LIMITS.lateness_ms)
        for turn in turns:
            if turn.turn_class == "failed":
                what = f"a turn with the metronome failed: {turn.outcome}: {turn.detail}"
                raise SetupError(what, "Is this machine short of memory or of file descriptors?")
        found.append(errors(turns[skip:], conversation, writes, carrier.audio))
    return functools.reduce(operator.add, found, Errors())


def longest_stall_ms(records: Iterable[Record]) -> float:
    """The largest lag of the heartbeats, 0 where none was 5 ms late."""
    lags = [event.lag_ns for record in records for event in record.events if isinstance(event, Stall)]
    return max(lags, default=0) / NS_PER_MS
