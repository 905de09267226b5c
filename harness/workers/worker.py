"""One worker, a process of its own: `python -m harness.workers.worker`, its task on standard input.

It performs its share of a run as a process alone would: its own loop, heartbeat, collection of garbage and timer wheel.
It stops when it gets SIGTERM, or when standard input closes because the process that started it is gone.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

from harness import exits
from harness.dialogue.record import Record
from harness.dialogue.tracker import Tracker
from harness.load.drive import drive
from harness.runs.loop import run_timed
from harness.runs.planning import Slot
from harness.runs.run import Watcher, performing
from harness.workers.dealing import dealt
from harness.workers.messages import (
    LINE_BYTES,
    Begins,
    Done,
    Failed,
    FromWorker,
    GoOn,
    Over,
    Ready,
    Refused,
    Stands,
    Start,
    Task,
    TurnOver,
    line,
    task_decoder,
    to_worker,
)
from sessions.clock import MonotonicClock, TimerWheel, process_cpu_ns
from sessions.errors import DuologueError
from sessions.runs import RunFolder


class _Flushed(asyncio.BaseProtocol):
    """gone: the pipe has taken all that was written, or nobody reads it any more."""

    def __init__(self) -> None:
        self.gone = asyncio.Event()

    def connection_lost(self, exc: Exception | None) -> None:
        self.gone.set()


class Link(Watcher):
    """The pipes to the process that started this one. Writing never waits: what the pipe does not take stays here."""

    def __init__(self, pipe: asyncio.WriteTransport) -> None:
        self._pipe = pipe
        self._answers: list[asyncio.Future[bool]] = []
        self.start: asyncio.Future[Start] = asyncio.get_running_loop().create_future()

    def say(self, message: FromWorker) -> None:
        self._pipe.write(line(message))

    def dialogue_begins(self, slot: Slot, total: int | None) -> None:
        self.say(Begins(slot.number))

    def session_stands(self, slot: Slot) -> None:
        self.say(Stands(slot.number))

    def turn_over(self, slot: Slot, turn: int, tracker: Tracker) -> None:
        self.say(TurnOver.of(slot.number, turn, tracker, process_cpu_ns()))

    def dialogue_over(self, slot: Slot, record: Record) -> None:
        self.say(Over(slot.number, record.completed, record.set_up, record.gave_up, process_cpu_ns()))

    async def may_go_on(self, error: DuologueError) -> bool:
        """No session stands here. Whether one does elsewhere; where none does, this process is ended from outside."""
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._answers.append(answer)
        self.say(Refused(error.what, error.mend))
        return await answer

    async def listen(self, reader: asyncio.StreamReader, work: asyncio.Task[None]) -> None:
        """Take what the other side says; when it is gone, stop the work."""
        while text := await reader.readline():
            match to_worker.decode(text):
                case Start() as start:
                    self.start.set_result(start)
                case GoOn():
                    self._answers.pop(0).set_result(True)
        work.cancel()


async def _perform(task: Task, run: RunFolder, link: Link) -> None:
    clock, plan = TimerWheel(MonotonicClock()), run.plan
    done = {line.number for line in run.journal()}
    # `until_ns` comes with the start: what is left is found then.
    with performing(run, task.access(), clock, link, until_ns=0, may_go_on=link.may_go_on) as (perform, _):
        link.say(Ready(process_cpu_ns()))
        start = await link.start
        slots = dealt(plan, done, task.index, task.of, clock, start.until_ns)
        share = plan.shard.divided(task.index, task.of)
        await drive(plan.load, slots, clock, perform, share=share, began_ns=start.began_ns, until_ns=start.until_ns)


async def _work(task: Task) -> int:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=LINE_BYTES)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    pipe, flushed = await loop.connect_write_pipe(_Flushed, sys.stdout)
    link = Link(pipe)
    try:
        work = asyncio.create_task(_perform(task, RunFolder.open(Path(task.run)), link))
        loop.add_signal_handler(signal.SIGTERM, work.cancel)
        listener = asyncio.create_task(link.listen(reader, work))
        try:
            await work
        finally:
            listener.cancel()
        link.say(Done(stopped=False))
    except asyncio.CancelledError:
        link.say(Done(stopped=True))
    except DuologueError as error:
        link.say(Failed(error.what, error.mend))
        return exits.SETUP
    finally:
        pipe.close()
        await flushed.gone.wait()
    return 0


def main() -> int:
    # The terminal's Ctrl-C reaches the process that started this one, which passes it on.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with open(0, "rb", buffering=0, closefd=False) as unbuffered:  # what follows the line stays in the pipe
        first = unbuffered.readline()
    if not first:
        return exits.SETUP
    return run_timed(_work(task_decoder.decode(first)))


if __name__ == "__main__":
    sys.exit(main())
