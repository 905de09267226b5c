"""A whole run: every dialogue of a plan, each on its own connection, journaled as it is done."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from clients.dialect import CLIENTS, Dialect, SessionOptions
from clients.transports import Transport
from clients.transports.websocket import open_websocket
from harness.dialogue.heartbeat import Heartbeat
from harness.dialogue.pacing import FrameTexts
from harness.dialogue.perform import Dialogue
from harness.dialogue.record import Performance, Record
from harness.dialogue.tracker import Tracker
from harness.load.descriptors import when_there_is_room
from harness.load.drive import Job, drive
from harness.network.pings import Pings
from harness.runs.planning import Slot, turns_to_speak
from harness.runs.remaining import planned_here, slots_left, time_kept, time_over_ns
from sessions.clock import Clock
from sessions.errors import DuologueError
from sessions.runs import JournalLine, Plan, PlannedScript, RunFolder
from sessions.secrets import Secrets
from sessions.tables import load

_SWITCH_S = 0.0005
"""How long a thread that writes a finished dialogue may hold up the one that keeps time."""


class Watcher:
    """Told what happens, by the dialogue that it happens in. Every method may be left as it is.

    total: dialogues of the plan; None where the time decides how many they are.
    """

    def dialogue_begins(self, slot: Slot, total: int | None) -> None: ...

    def session_stands(self, slot: Slot) -> None: ...

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
        transcribe=plan.transcribe,
        instructions=script.instructions,
        api_key=access.api_key,
    )
    dialect: Dialect = load(CLIENTS, plan.protocol, "protocol")(options)
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


Connect = Callable[[], Awaitable[Transport]]
MayGoOn = Callable[[DuologueError], Awaitable[bool]]


async def perform_run(
    run: RunFolder, access: Access, clock: Clock, watcher: Watcher, *, connect: Connect | None = None
) -> None:
    """Perform what the journal says is still to do, as many dialogues at once as the plan says.

    connect: opens a transport in place of the protocol's own.

    Raises the dialogue's own error when no session can be set up, not even the first: nothing was measured, and the
    user can mend it. Later failures are results. Cancelled, it keeps what was done and the records of the broken
    dialogues.
    """
    until_ns = time_over_ns(run, clock)
    with performing(run, access, clock, watcher, connect=connect, until_ns=until_ns) as (perform, left):
        async with time_kept(run, clock):
            await drive(run.plan.load, left, clock, perform, share=run.plan.shard, until_ns=until_ns)


@contextlib.contextmanager
def performing(
    run: RunFolder,
    access: Access,
    clock: Clock,
    watcher: Watcher,
    *,
    connect: Connect | None = None,
    until_ns: int | None = None,
    may_go_on: MayGoOn | None = None,
) -> Iterator[tuple[Job[Slot], Iterable[Slot]]]:
    """What performs a dialogue of the run and journals it, and the slots that are still to do, in order.

    until_ns: when the last round may begin, where the run lasts for a time · may_go_on: asked where the first session
    cannot be set up; whether that is a result and not the end.
    """
    done = {line.number for line in run.journal()}
    performer = _Performer(run, access, clock, watcher, planned_here(run.plan), connect)
    performer.any_session = bool(done)
    performer.may_go_on = may_go_on
    switch_s = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_S)
    try:
        yield performer.perform, slots_left(run.plan, done, clock, until_ns, run.plan.shard)
    finally:
        performer.writer.shutdown()
        sys.setswitchinterval(switch_s)


class _Performer:
    """What the dialogues of one run share: rendered frames, the heartbeat, one thread that writes what is done."""

    def __init__(
        self, run: RunFolder, access: Access, clock: Clock, watcher: Watcher, total: int | None, connect: Connect | None
    ) -> None:
        plan = run.plan
        self._run = run
        self._access = access
        self._clock = clock
        self._watcher = watcher
        self._total = total
        self._connect = connect
        self._turns = {script.sha256: turns_to_speak(run, script) for script in plan.scripts}
        render = dialect_for(plan, plan.scripts[0], access).audio
        self._texts = FrameTexts(render, plan.rate_hz * plan.frame_ms // 1000)
        self._heartbeat = Heartbeat(clock, plan.limits.lateness_ms)
        self._pings = Pings(clock)
        self._live: set[Dialogue] = set()
        self._failed = False
        self.any_session = False
        self.may_go_on: MayGoOn | None = None
        self.writer = ThreadPoolExecutor(1, "duologue-writer")

    async def perform(self, slot: Slot, intended_ns: int | None) -> None:
        """One dialogue, from its connection to its line in the journal."""
        watcher = self._watcher
        watcher.dialogue_begins(slot, self._total)
        dialogue = Dialogue(self._how(slot, intended_ns), self._turns[slot.script.sha256])
        record = await self._in_time(slot, dialogue)
        self.any_session = self.any_session or record.set_up
        if record.error is not None and not await self._any_session(record.error):
            self._failed = True
            raise record.error
        write = functools.partial(_keep, self._run, slot, record)
        keep = asyncio.get_running_loop().run_in_executor(self.writer, when_there_is_room, write, self._clock)
        await asyncio.shield(keep)
        watcher.dialogue_over(slot, record)

    async def _any_session(self, error: DuologueError) -> bool:
        """Whether a session was ever set up, here or where else this run is performed."""
        if not self.any_session and not any(dialogue.record.set_up for dialogue in self._live):
            self.any_session = self.may_go_on is not None and await self.may_go_on(error)
        return True if self.any_session else any(dialogue.record.set_up for dialogue in self._live)

    async def _in_time(self, slot: Slot, dialogue: Dialogue) -> Record:
        """Perform it while no collection of garbage, which would show as lateness, can come."""
        if not self._live:
            gc.collect()
            gc.disable()
        self._live.add(dialogue)
        try:
            return await dialogue.perform()
        except asyncio.CancelledError:
            if not self._failed:
                _keep_broken(self._run, slot, dialogue.record)
            raise
        finally:
            self._live.discard(dialogue)
            if not self._live:
                gc.enable()

    def _how(self, slot: Slot, intended_ns: int | None) -> Performance:
        plan, access, clock = self._run.plan, self._access, self._clock
        dialect = dialect_for(plan, slot.script, access)
        return Performance(
            dialect=dialect,
            connect=self._connect or connector(plan, dialect, access, clock),
            clock=clock,
            limits=plan.limits,
            frame_ms=plan.frame_ms,
            secrets=access.secrets,
            on_turn=lambda turn, tracker: self._watcher.turn_over(slot, turn, tracker),
            on_ready=lambda: self._watcher.session_stands(slot),
            texts=self._texts,
            heartbeat=self._heartbeat,
            pings=self._pings,
            intended_ns=intended_ns,
        )


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
