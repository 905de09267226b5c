"""The process that starts workers: it keeps the live view, passes signals on, and tells whose dialogues were lost."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import msgspec

from harness.runs.losses import Loss, add_losses
from harness.runs.planning import Slot, slot_of
from harness.runs.remaining import planned_here, time_kept, time_over_ns
from harness.runs.run import Access, Watcher
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
    from_worker,
    line,
)
from sessions.clock import NS_PER_MS, Clock
from sessions.errors import DuologueError, SetupError, TransportError
from sessions.runs import RunFolder

_LEAD_NS = 100 * NS_PER_MS
"""From the word to start to the beginning: by then every worker has heard it."""
_STOP_S = 20.0
"""How long workers have to write down what there is, once they are told to stop."""
_LAST_WORDS_BYTES = 4096


@dataclass(slots=True)
class _Worker:
    """One process.

    numbers: what falls to it; where the time decides, what it began · stated: ready to start, or gone · ended: it came
    to its own end · stopped: it was told to stop before that.
    """

    name: str
    process: asyncio.subprocess.Process
    numbers: set[int]
    stated: asyncio.Event = field(default_factory=asyncio.Event)
    ended: bool = False
    stopped: bool = False
    failure: Failed | None = None
    said: bytes = b""
    cpu_ns: int = 0

    def tell(self, message: Task | Start | GoOn) -> None:
        """A worker that is gone hears nothing; its end is told elsewhere."""
        assert self.process.stdin is not None
        if not self.process.stdin.is_closing():
            with contextlib.suppress(ConnectionError):
                self.process.stdin.write(line(message))

    def signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            self.process.send_signal(number)

    def why_it_died(self) -> str:
        """ "" where it ended in order."""
        code = self.process.returncode or 0
        if code < 0:
            with contextlib.suppress(ValueError):
                return f"was killed by {signal.Signals(-code).name}"
            return f"was killed by signal {-code}"
        if self.failure is not None:
            return f"could not go on: {DuologueError(self.failure.what, self.failure.mend)}"
        if self.ended:
            return ""
        words = self.said.decode(errors="replace").strip().splitlines()
        return f"ended with code {code}" + (f": {words[-1]}" if words else "")


class Crew:
    """The workers of one run, whose lock this process holds. Use once; `watcher` is shown what all of them do."""

    def __init__(self, run: RunFolder, access: Access, clock: Clock) -> None:
        self._run, self._access, self._clock = run, access, clock
        self._workers: list[_Worker] = []
        self._watcher = Watcher()
        self._total = planned_here(run.plan)
        self._any_session = False
        self._refusal: Refused | None = None

    def cpu_ns(self) -> int:
        """CPU time of all workers, as far as they have told."""
        return sum(worker.cpu_ns for worker in self._workers)

    async def perform(self, watcher: Watcher) -> None:
        """Perform what is left. Cancelled, it stops the workers; each keeps what it has done.

        Raises the error of the first session where none can be set up in any worker, and `SetupError` where every
        worker died before any dialogue was done. Other deaths are kept in the run as losses.
        """
        self._watcher = watcher
        run, listeners = self._run, []
        self._any_session = bool(run.journal())
        try:
            of = self._wanted()
            for index in range(of):
                self._workers.append(await self._started(index, of))
                listeners.append(asyncio.create_task(self._listen(self._workers[-1])))
            for worker in self._workers:
                await worker.stated.wait()
            start = Start(self._clock.now_ns() + _LEAD_NS, time_over_ns(run, self._clock))
            for worker in self._workers:
                worker.tell(start)
            async with time_kept(run, self._clock):
                await asyncio.gather(*listeners)
        except asyncio.CancelledError:
            await self._stop(listeners)
            raise
        finally:
            self._account()
        self._judge()

    def _wanted(self) -> int:
        """As many as the plan says, but none without a dialogue to hold."""
        if self._total is None:
            return self._run.plan.workers
        return min(self._run.plan.workers, self._total - len(self._run.journal()))

    async def _started(self, index: int, of: int) -> _Worker:
        run, access = self._run, self._access
        assert run.lock_descriptor is not None
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "harness.workers.worker",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={name: value for name, value in os.environ.items() if name != run.plan.api_key_env},
            pass_fds=(run.lock_descriptor,),  # nobody resumes the run while a worker still writes it
            start_new_session=True,  # Ctrl-C comes here alone
            limit=LINE_BYTES,
        )
        done = {line.number for line in run.journal()}
        slots = () if self._total is None else dealt(run.plan, done, index, of, self._clock, None)
        worker = _Worker(f"worker {index + 1}", process, {slot.number for slot in slots})
        known = list(access.secrets.known)
        worker.tell(Task(str(run.path), index, of, access.target, access.headers, access.api_key, known))
        return worker

    async def _listen(self, worker: _Worker) -> None:
        """Until the worker is gone."""
        assert worker.process.stdout is not None
        words = asyncio.create_task(_last_words(worker))
        try:
            async for text in worker.process.stdout:
                self._take(worker, from_worker.decode(text))
        except (msgspec.DecodeError, ValueError) as error:
            worker.failure = Failed(f"it said what nobody understands ({error})", "")
            worker.signal(signal.SIGKILL)
        await words
        await worker.process.wait()
        worker.stated.set()

    def _take(self, worker: _Worker, message: FromWorker) -> None:
        match message:
            case Ready(cpu_ns):
                worker.cpu_ns = cpu_ns
                worker.stated.set()
            case Begins(number):
                worker.numbers.add(number)
                self._watcher.dialogue_begins(self._slot(number), self._total)
            case Stands(number):
                self._any_session = True
                self._watcher.session_stands(self._slot(number))
            case TurnOver():
                worker.cpu_ns = message.cpu_ns
                tracker = message.tracker(self._run.plan.rate_hz)
                self._watcher.turn_over(self._slot(message.number), message.turn.index, tracker)
            case Over():
                worker.cpu_ns = message.cpu_ns
                self._watcher.dialogue_over(self._slot(message.number), message.record())
            case Refused():
                self._answer(worker, message)
            case Failed():
                worker.failure = message
            case Done(stopped):
                worker.ended = True
                if stopped and not worker.stopped:
                    worker.failure = Failed("somebody else told it to stop", "")

    def _slot(self, number: int) -> Slot:
        return slot_of(self._run.plan, number)

    def _answer(self, worker: _Worker, refused: Refused) -> None:
        """Where no session stands anywhere, there is nothing to keep: the run ends at once."""
        if self._any_session:
            worker.tell(GoOn())
            return
        self._refusal = self._refusal or refused
        for each in self._workers:
            each.signal(signal.SIGKILL)

    async def _stop(self, listeners: Sequence[asyncio.Task[None]]) -> None:
        for worker in self._workers:
            worker.stopped = worker.process.returncode is None
            worker.signal(signal.SIGTERM)
        if listeners:
            _, late = await asyncio.wait(listeners, timeout=_STOP_S)
            for worker in self._workers if late else ():
                worker.signal(signal.SIGKILL)
            await asyncio.gather(*listeners)

    def _account(self) -> None:
        """Keep in the run what workers that died have left undone."""
        if self._refusal is None:
            add_losses(self._run.path, list(self._losses()))

    def _losses(self) -> Iterator[Loss]:
        done = {line.number for line in self._run.journal()}
        for worker in self._workers:
            why = worker.why_it_died()
            if why and not worker.stopped:
                yield Loss(worker.name, self._access.secrets.mask(why), sorted(worker.numbers - done))

    def _judge(self) -> None:
        if self._refusal is not None:
            raise TransportError(self._refusal.what, self._refusal.mend)
        if self._run.journal() or not all(worker.why_it_died() for worker in self._workers):
            return
        for worker in self._workers:
            if worker.failure is not None:
                raise SetupError(worker.failure.what, worker.failure.mend)
        died = ", ".join(f"{worker.name} {worker.why_it_died()}" for worker in self._workers)
        raise SetupError(f"no worker lived until a dialogue was done: {died}")


async def _last_words(worker: _Worker) -> None:
    assert worker.process.stderr is not None
    while said := await worker.process.stderr.read(_LAST_WORDS_BYTES):
        worker.said = (worker.said + said)[-_LAST_WORDS_BYTES:]
