"""A whole run: every dialogue of a plan, one after the other, each on its own connection, journaled as it is done."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from clients.dialect import CLIENTS, Dialect, SessionOptions
from clients.transports import Transport
from clients.transports.websocket import open_websocket
from harness.dialogue.perform import Dialogue
from harness.dialogue.record import Performance, Record
from harness.dialogue.tracker import Tracker
from harness.runs.planning import Slot, schedule, turns_to_speak
from sessions.clock import Clock
from sessions.runs import JournalLine, Plan, PlannedScript, RunFolder
from sessions.secrets import Secrets
from sessions.tables import load


class Watcher:
    """Told what happens. Every method may be left as it is; none is called while a frame is due."""

    def dialogue_begins(self, slot: Slot, total: int) -> None: ...

    def turn_over(self, slot: Slot, turn: int, tracker: Tracker) -> None: ...

    def dialogue_over(self, slot: Slot, record: Record) -> None: ...


@dataclass(frozen=True, slots=True)
class Access:
    """How to reach the target: what a plan must not hold. target: the full address."""

    target: str
    headers: dict[str, str]
    api_key: str
    secrets: Secrets


def dialect_for(plan: Plan, script: PlannedScript, access: Access) -> Dialect:
    options = SessionOptions(
        turn_detection=plan.turn_detection,
        server_vad=plan.server_vad,
        voice=plan.voice,
        instructions=script.instructions,
        api_key=access.api_key,
    )
    dialect: Dialect = load(CLIENTS, plan.protocol, "client")(options)
    return dialect


def connector(plan: Plan, dialect: Dialect, access: Access, clock: Clock) -> Callable[[], Awaitable[Transport]]:
    """Opens the plan's transport to the target."""

    async def connect() -> Transport:
        return await open_websocket(
            dialect.url(access.target),
            headers={**dialect.headers(), **access.headers},
            clock=clock,
            timeout_s=plan.limits.connect_s,
            byte_cap=plan.limits.bytes_per_dialogue,
            secrets=access.secrets,
        )

    return connect


async def perform_run(run: RunFolder, access: Access, clock: Clock, watcher: Watcher) -> None:
    """Perform what the journal says is still to do.

    Raises the dialogue's own error when the very first session cannot be set up: nothing was measured, and the user can
    mend it. Later failures are results. Cancelled, it keeps what was done and the record of the broken dialogue.
    """
    plan = run.plan
    slots = schedule(plan)
    done = {line.number for line in run.journal()}
    any_session = bool(done)
    for slot in slots:
        if slot.number in done:
            continue
        watcher.dialogue_begins(slot, len(slots))
        record = await _perform(run, slot, access, clock, watcher)
        any_session = any_session or record.set_up
        if record.error is not None and not any_session:
            raise record.error
        _keep(run, slot, record)
        watcher.dialogue_over(slot, record)


async def _perform(run: RunFolder, slot: Slot, access: Access, clock: Clock, watcher: Watcher) -> Record:
    plan = run.plan
    dialect = dialect_for(plan, slot.script, access)
    how = Performance(
        dialect=dialect,
        connect=connector(plan, dialect, access, clock),
        clock=clock,
        limits=plan.limits,
        frame_ms=plan.frame_ms,
        secrets=access.secrets,
        on_turn=lambda turn, tracker: watcher.turn_over(slot, turn, tracker),
    )
    dialogue = Dialogue(how, turns_to_speak(run, slot.script))
    gc.collect()
    gc.disable()  # a collection in the timed phase would show as lateness
    try:
        return await dialogue.perform()
    except asyncio.CancelledError:
        _keep_broken(run, slot, dialogue.record)
        raise
    finally:
        gc.enable()


def _keep(run: RunFolder, slot: Slot, record: Record) -> None:
    """First the raw record, then the journal's line: what the journal names is on disk."""
    run.write_dialogue(slot.id, record.log(), bytes(record.received))
    run.append_journal(
        JournalLine(
            id=slot.id,
            number=slot.number,
            script=slot.script.name,
            warmup=slot.warmup,
            turns=len(slot.script.turns),
        )
    )


def _keep_broken(run: RunFolder, slot: Slot, record: Record) -> None:
    """A dialogue that was stopped in its midst is kept for people; it is not done, and will be performed again."""
    attempt = 1
    while run.dialogue(f"{slot.id}.stopped-{attempt}").exists():
        attempt += 1
    run.write_dialogue(f"{slot.id}.stopped-{attempt}", record.log(), bytes(record.received))
