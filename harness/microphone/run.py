"""A conversation by microphone from beginning to end: converse, write down what was said, tell."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import sys
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import click
import msgspec

from clients.transports import Transport
from harness import exits
from harness.dialogue.record import Performance
from harness.microphone.conversing import Conversing, Screen
from harness.microphone.device import Device
from harness.microphone.turns import NAME, Lane, Said, said, script_of
from harness.network.pings import Pings
from harness.runs.clock_checks import ClockChecks
from harness.runs.loop import run_timed
from harness.runs.measuring import tell_run
from harness.runs.planning import slot_of
from harness.runs.run import Access, connector, dialect_for
from sessions import audio, sidecar
from sessions.clock import Clock, samples_to_ns
from sessions.errors import DuologueError
from sessions.events import AnyEvent, Flushed
from sessions.lane import LANE_FILE
from sessions.runs import JournalLine, MicrophoneUse, RunFolder, disk_errors
from sessions.scripts import Script
from sessions.speech_end import FindEnd, SpeechEnd

_SWITCH_S: Final = 0.0005
"""How long one thread may hold up the others: PortAudio's must not wait."""


@dataclass(frozen=True, slots=True)
class Talk:
    """use: for the plan · find_end: says where speech ends; None: the detector · screen: what the person sees."""

    device: Device
    use: MicrophoneUse
    find_end: FindEnd | None
    screen: Screen


def empty_script() -> Script:
    """What is to be said: nobody knows."""
    return Script(NAME, "", "", "", None, "", ())


def converse(run: RunFolder, access: Access, clock: Clock, talk: Talk, *, as_json: bool, check_clock: bool) -> int:
    """Converse until the person ends it, derive everything, print the table. The command's exit code."""
    with run.locked():
        checks = ClockChecks(run, asked=check_clock, quiet=as_json)
        try:
            checks.before()
        except KeyboardInterrupt:
            run.discard()
            return exits.INTERRUPTED
        try:
            run_timed(perform(run, access, clock, talk))
        except KeyboardInterrupt as stop:
            if not isinstance(stop.__cause__, asyncio.CancelledError):
                raise
            run.discard()
            click.echo("interrupted: nothing of it was kept", err=True)
            return exits.INTERRUPTED
        finally:
            talk.screen.close()
        checks.after(interrupted=True)  # the person waits for the end
        try:
            return tell_run(run, as_json=as_json)
        except KeyboardInterrupt:
            click.echo(f"interrupted; what was said is kept. Go on with: duologue report {run.path}", err=True)
            return exits.INTERRUPTED


async def perform(run: RunFolder, access: Access, clock: Clock, talk: Talk) -> None:
    """One conversation, from its connection to its line in the journal. Raises the error of a session that could not
    be set up."""
    conversing = conversation_of(run, access, clock, talk)
    with _in_time(), _stopped_by_signals(conversing, talk.screen), ended_by_enter(conversing):
        try:
            record = await conversing.perform()
            if record.error is not None:
                raise record.error
        except DuologueError:
            run.discard()  # nothing was said: the next try may have the same place
            raise
        if conversing.failure or conversing.lost:
            talk.screen.warn(conversing.failure or conversing.lost)
        keep(run, conversing, talk.find_end)


def conversation_of(
    run: RunFolder, access: Access, clock: Clock, talk: Talk, connect: Callable[[], Awaitable[Transport]] | None = None
) -> Conversing:
    """What is to be performed; the plan then says by whom. connect: opens a transport, not the protocol's own."""
    run.amend(msgspec.structs.replace(run.plan, microphone=talk.use))
    dialect = dialect_for(run.plan, slot_of(run.plan, 0).script, access)
    how = Performance(
        dialect=dialect,
        connect=connect or connector(run.plan, dialect, access, clock),
        clock=clock,
        limits=run.plan.limits,
        frame_ms=run.plan.frame_ms,
        secrets=access.secrets,
        pings=Pings(clock),
    )
    return Conversing(how, talk.device, talk.screen, talk.use.end_after_ms)


def keep(run: RunFolder, conversing: Conversing, find_end: FindEnd | None) -> None:
    """Clips, plan, lane, record, and last the journal's line: what that names is on disk."""
    slot, record = slot_of(run.plan, 0), conversing.record
    turns = []
    lane = conversing.lane
    if len(lane):
        manual = run.plan.protocol_class == "A"
        turns = said(Lane(lane, conversing.clock.times(), manual), conversing.turns, find_end)
    for turn in turns:
        place = run.clip(turn.planned.audio)
        if not place.exists():
            audio.write_flac(place, turn.clip.pcm, turn.clip.rate_hz)
            sidecar.write(place, SpeechEnd(turn.planned.last_sample, turn.clip.rate_hz, turn.planned.method))
    record.events[:] = [*_with_causes(record.events, turns), *(turn.started for turn in turns)]
    run.amend(msgspec.structs.replace(run.plan, scripts=[script_of(turns, slot.script)]))
    folder = run.write_dialogue(slot.id, record.log(), record.received)
    with disk_errors(folder):
        audio.write_flac(folder / LANE_FILE, lane, run.plan.rate_hz)
    run.append_journal(JournalLine(slot.id, 0, NAME, False, len(turns)))


def _with_causes(events: Sequence[AnyEvent], turns: Sequence[Said]) -> Iterator[AnyEvent]:
    """A server may hear a turn begin before our own detector does: the last sound before its word was the cause."""
    onsets_ns = [
        turn.started.start_ns + samples_to_ns(turn.started.onset_sample, turn.started.rate_hz) for turn in turns
    ]
    for event in events:
        if isinstance(event, Flushed) and event.why == "server":
            yield msgspec.structs.replace(event, turn=bisect_right(onsets_ns, event.t_ns) - 1)
        else:
            yield event


class EndsTurns(Protocol):
    def end_turn(self) -> None: ...

    def stop(self) -> None: ...


@contextlib.contextmanager
def _in_time() -> Iterator[None]:
    """No collection of garbage, and no long turn of another thread, holds up a frame."""
    switch_s = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_S)
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        sys.setswitchinterval(switch_s)


@contextlib.contextmanager
def _stopped_by_signals(conversing: Conversing, screen: Screen) -> Iterator[None]:
    """Ctrl-C and SIGTERM end the conversation. The second is told that it is being kept; the third breaks it off."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    asked = 0

    def stop() -> None:
        nonlocal asked
        asked += 1
        if asked > 2 or not conversing.record.set_up:
            task.cancel()
        elif asked > 1:
            screen.warn("what was said is being kept; once more, and it is lost")
        conversing.stop()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


@contextlib.contextmanager
def ended_by_enter(conversing: EndsTurns) -> Iterator[None]:
    """On a terminal the Enter key ends a turn."""
    if not sys.stdin.isatty():
        yield
        return
    loop, number = asyncio.get_running_loop(), sys.stdin.fileno()

    def read() -> None:
        if os.read(number, 1024):
            conversing.end_turn()
        else:  # Ctrl-D
            conversing.stop()

    loop.add_reader(number, read)
    try:
        yield
    finally:
        loop.remove_reader(number)
