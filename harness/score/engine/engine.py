"""Samples in, lines in the store out: reading, scoring and deriving overlap, each in processes of its own."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
from collections.abc import Iterable, Sequence, Sized
from dataclasses import dataclass
from pathlib import Path

import msgspec

from harness.runs.loop import run_interruptible
from harness.score.engine.asked import Chosen, Resources, Watcher
from harness.score.engine.audio_index import AudioIndex
from harness.score.engine.bucket import Waiting
from harness.score.engine.child import Child, Died
from harness.score.engine.deriving import Deriver
from harness.score.engine.environment import NoEnvironment, link_ours, python_of, variables
from harness.score.engine.keys import shown
from harness.score.engine.listener import Listener
from harness.score.engine.messages import Heard, Identified, Identify, Look, Read, Refused, Seen, Unreadable
from harness.score.engine.recorder import Entry, Group, NoScore, Recorder
from harness.score.engine.spool import Spool, Stored, guess_bytes, open_spool
from harness.score.engine.store import ScoreStore
from metrics.result import Failed, Unavailable
from metrics.scoring import Sample, Score
from sessions.errors import DuologueError, MetricUnavailable, MissingExtra, MissingWeights

_UNDER_WAY = 1000
"""Samples at once: enough that sounds of like length meet, few enough for memory."""
_TICK_S = 0.5
_READ_BYTES_PER_S = 1_000_000


def score_samples(
    samples: Iterable[Sample],
    chosen: Sequence[Chosen],
    store: ScoreStore,
    *,
    watcher: Watcher,
    resources: Resources,
) -> None:
    """Score every sample by every metric; what the store has already is not scored again.

    chosen: with all that they need, in order (`chosen_with_needs`). The store is open for writing. Raises `SetupError`
    where scores cannot be written; whatever befalls a sample or a metric is in its lines, and `watcher` is told.
    """
    _must_be_in_order(chosen)
    with (
        open_spool(resources.spool, resources.memory_bytes) as spool,
        contextlib.closing(AudioIndex(store)) as index,
    ):
        engine = _Engine(samples, chosen, store, index, spool, watcher, resources)
        try:
            run_interruptible(engine.run())
        except BaseExceptionGroup as group:
            raise _first(group) from group


def _must_be_in_order(chosen: Sequence[Chosen]) -> None:
    seen: set[str] = set()
    for each in chosen:
        lacking = set(each.metric.needs) - seen
        if lacking:
            raise ValueError(f"{each.name} needs {sorted(lacking)} before it")
        if bool(each.metric.make) == bool(each.metric.derive) or (each.metric.derive and each.metric.environment):
            raise ValueError(f"{each.name} must either listen, or derive in our own environment")
        seen.add(each.name)


def _first(group: BaseExceptionGroup[BaseException]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


@dataclass(frozen=True, slots=True)
class _Job:
    """A file to be read, for those that are to hear it."""

    entry: Entry
    listeners: list[Listener]


class _Engine:
    """One scoring. Use once."""

    def __init__(
        self,
        samples: Iterable[Sample],
        chosen: Sequence[Chosen],
        store: ScoreStore,
        index: AudioIndex,
        spool: Spool,
        watcher: Watcher,
        resources: Resources,
    ) -> None:
        self._samples, self._chosen, self._store = samples, chosen, store
        self._index, self._spool, self._watcher, self._resources = index, spool, watcher, resources
        self._identities: dict[str, dict[str, str]] = {each.name: {} for each in chosen}
        self._off: dict[str, NoScore] = {}
        self._recorder = Recorder(store, watcher, self._identities)
        self._listeners: list[Listener] = []
        self._jobs: asyncio.Queue[_Job | None] = asyncio.Queue(1)
        self._in_flight: dict[tuple[str, str], list[Entry]] = {}
        self._room = asyncio.Semaphore(_UNDER_WAY)
        self._children = contextlib.AsyncExitStack()
        self._ours = link_ours(spool.folder / "ours")
        self._deriver = self._new_deriver()

    async def run(self) -> None:
        total = len(self._samples) if isinstance(self._samples, Sized) else None
        for each in self._chosen:
            self._watcher.metric_begins(each.name, total)
        async with self._children, asyncio.TaskGroup() as group:
            ticker = group.create_task(self._tick())
            await self._prepare()
            listening = [group.create_task(listener.run()) for listener in self._listeners]
            deriving = group.create_task(self._deriver.run())
            reading = [group.create_task(self._read(self._child(f"reader-{n}", 1))) for n in range(self._decoders())]
            # Each of these is done before the next is told that nothing more comes.
            await self._feed()
            for _ in reading:
                await self._jobs.put(None)
            await asyncio.gather(*reading)
            for listener in self._listeners:
                listener.bucket.close()
            await asyncio.gather(*listening)
            self._deriver.close()
            await deriving
            ticker.cancel()

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(_TICK_S)
            self._store.tick()

    # ---- who scores --------------------------------------------------------------------------------------------------

    def _child(self, name: str, threads: int, environment: str = "", python: str = "") -> Child:
        told = variables(environment, threads, self._resources.device, self._ours)
        log = self._spool.folder / f"{name}.log"
        child = Child(python or python_of("", {}), told, log, self._resources.load_s)
        self._children.push_async_callback(child.kill)  # whatever ends the scoring, and whoever else ends it before
        return child

    def _new_deriver(self) -> Deriver:
        return Deriver(
            [each for each in self._chosen if each.metric.derive],
            self._child("derive", 1),
            self._recorder,
            self._resources,
            off=self._off,
            remark=self._watcher.remark,
            done=lambda _: self._room.release(),
        )

    def _decoders(self) -> int:
        return self._resources.readers if self._listeners else 0

    async def _prepare(self) -> None:
        """Find out which metrics can be had, and what their scores depend on."""
        threads = self._resources.threads_of(sum(bool(each.metric.make) for each in self._chosen))
        for each in self._chosen:
            environment = each.metric.environment
            try:
                python = python_of(environment, self._resources.worker_python)
                child = self._child(each.name, threads, environment, python)
                self._identities[each.name].update(await self._identity(each, child))
            except (NoEnvironment, MissingExtra, MissingWeights, MetricUnavailable) as error:
                self._set_off(each, Unavailable(str(error)))
                continue
            except (Died, _NotIdentified) as error:
                self._set_off(each, Failed(str(error)))
                continue
            if each.metric.make:
                self._listeners.append(
                    Listener(each, child, self._resources, deliver=self._deliver, remark=self._watcher.remark)
                )

    async def _identity(self, each: Chosen, child: Child) -> dict[str, str]:
        metric = each.metric
        if not metric.identify:
            return {}
        if metric.environment:
            answer = await child.ask(Identify(metric.identify, each.options), self._resources.load_s)
            if isinstance(answer, Refused):
                await child.kill()  # nothing more is asked of it
                raise MetricUnavailable(answer.why) if answer.missing else _NotIdentified(answer.why)
            assert isinstance(answer, Identified)
            return answer.identity
        module, _, attribute = metric.identify.partition(":")
        try:
            identity: dict[str, str] = getattr(importlib.import_module(module), attribute)(each.options)
        except DuologueError:
            raise
        except Exception as error:
            raise _NotIdentified(f"{type(error).__name__}: {error}") from error
        return identity

    def _set_off(self, each: Chosen, why: NoScore) -> None:
        self._off[each.name] = why
        told = f"is unavailable: {why.because}" if isinstance(why, Unavailable) else f"failed: {why.error}"
        self._watcher.remark(f"{each.name} {told}")

    # ---- samples -----------------------------------------------------------------------------------------------------

    async def _feed(self) -> None:
        group: Group | None = None
        for sample in self._samples:
            await self._room.acquire()
            if group is None or not sample.group or sample.group != group.name:
                if group is not None:
                    self._deriver.close_group(group)
                group = Group(sample.group)
            group.open += 1
            await self._place(Entry(sample, group))
            await asyncio.sleep(0)  # where nothing has to be waited for, others still have their turn
        if group is not None:
            self._deriver.close_group(group)

    async def _place(self, entry: Entry) -> None:
        """Write the lines that need no reading, and have the file read for the others."""
        sample = entry.sample
        for each in self._chosen:
            if each.metric.make and (sample.unavailable or each.name in self._off):
                why = Unavailable(sample.unavailable) if sample.unavailable else self._off[each.name]
                self._recorder.nothing(each, entry, why)
        listeners = [] if sample.unavailable else self._listeners
        entry.waiting = len(listeners) + 1
        if listeners:
            known = self._index.find(sample.audio)
            if known is not None:
                entry.audio, entry.seconds = known.sha256, known.seconds
                listeners = [each for each in listeners if not self._settled(entry, each.chosen)]
            if listeners:
                await self._jobs.put(_Job(entry, listeners))
        self._answered(entry)

    def _settled(self, entry: Entry, chosen: Chosen) -> bool:
        """Whether this score is there already, or is being made for another sample of the same content."""
        key = self._recorder.keys.of_sound(chosen, entry.sample, entry.audio)
        if self._recorder.again(chosen, entry, key):
            self._answered(entry)
            return True
        others = self._in_flight.get((chosen.name, key))
        if others is not None:
            others.append(entry)
        return others is not None

    def _answered(self, entry: Entry) -> None:
        entry.waiting -= 1
        if not entry.waiting:
            self._deriver.take(entry)

    def _deliver(self, chosen: Chosen, waiting: Waiting, given: Score | NoScore) -> None:
        if isinstance(given, Score) and waiting.stored.note:
            given = msgspec.structs.replace(given, flags=[*given.flags, waiting.stored.note])
        for entry in self._in_flight.pop((chosen.name, waiting.key)):
            if isinstance(given, Score):
                self._recorder.score(chosen, entry, waiting.key, given)
            else:
                self._recorder.nothing(chosen, entry, given)
            self._answered(entry)
        self._spool.release(waiting.stored)

    # ---- reading -----------------------------------------------------------------------------------------------------

    async def _read(self, child: Child) -> None:
        try:
            while (job := await self._jobs.get()) is not None:
                rates = {listener.rate_hz for listener in job.listeners}
                guessed = await self._size(child, Path(job.entry.sample.audio), rates)
                await self._spool.reserve(guessed)
                place = self._spool.place(guessed)
                places = {rate_hz: place.with_name(f"{place.name}-{rate_hz}") for rate_hz in sorted(rates)}
                used = await self._read_one(child, job, places)
                for unused in set(places.values()) - {stored.place for stored in used}:
                    unused.unlink(missing_ok=True)
                self._spool.settle(guessed, sum(stored.size_bytes for stored in used))
        finally:
            await child.kill()

    async def _size(self, child: Child, path: Path, rates: set[int]) -> int:
        """How many bytes a file may become, decoded at those rates. The truth is known after decoding only."""
        with contextlib.suppress(Died):  # then it dies of reading it too, and that is told
            seen = await child.ask(Look(str(path)), self._resources.silent_s)
            if isinstance(seen, Seen) and seen.samples > 0:
                return sum(4 * seen.samples * (rate_hz or seen.rate_hz) // seen.rate_hz for rate_hz in rates)
        return guess_bytes(path, len(rates))

    async def _read_one(self, child: Child, job: _Job, places: dict[int, Path]) -> list[Stored]:
        """Have a file read, and hand it to those that are to hear it. What is kept of it."""
        entry, path = job.entry, Path(job.entry.sample.audio)
        stat = _stat(path)
        heard = await self._ask_reader(child, path, places, 0 if stat is None else stat.st_size)
        if isinstance(heard, Unreadable):
            self._not_heard(job, Failed(heard.why))
            return []
        entry.audio, entry.seconds = heard.sha256, heard.samples / heard.rate_hz
        if stat is not None:
            self._index.add(entry.sample.audio, stat, heard.sha256, heard.rate_hz, heard.samples)
        if not heard.samples:
            self._not_heard(job, Unavailable("there is no sound: the file holds no samples"))
            return []
        stored = {
            rate_hz: Stored(place, heard.lengths[rate_hz], rate_hz or heard.rate_hz, heard.note)
            for rate_hz, place in places.items()
        }
        for listener in job.listeners:
            if not self._settled(entry, listener.chosen):
                self._to_be_heard(entry, listener, stored[listener.rate_hz])
        return [each for each in stored.values() if each.users]

    def _not_heard(self, job: _Job, why: NoScore) -> None:
        for listener in job.listeners:
            self._recorder.nothing(listener.chosen, job.entry, why)
            self._answered(job.entry)

    def _to_be_heard(self, entry: Entry, listener: Listener, stored: Stored) -> None:
        chosen = listener.chosen
        key = self._recorder.keys.of_sound(chosen, entry.sample, entry.audio)
        stored.users += 1
        self._in_flight[chosen.name, key] = [entry]
        listener.bucket.put(Waiting(key, shown(chosen.metric, entry.sample), stored))

    async def _ask_reader(
        self, child: Child, path: Path, places: dict[int, Path], size_bytes: int
    ) -> Heard | Unreadable:
        limit_s = self._resources.silent_s + size_bytes / _READ_BYTES_PER_S
        question = Read(str(path), {rate_hz: str(place) for rate_hz, place in places.items()})
        try:
            answer = await child.ask(question, limit_s)
        except Died as died:
            self._watcher.remark(f"the process that read {path} {died}; it is tried once more")
            try:
                answer = await child.ask(question, limit_s)
            except Died as again:
                return Unreadable(f"cannot use {path}: the process that read it {again}, twice")
        assert isinstance(answer, Heard | Unreadable)
        return answer


def _stat(path: Path) -> os.stat_result | None:
    """None where it is not to be had; the reader says why, and better."""
    try:
        return path.stat()
    except OSError:
        return None


class _NotIdentified(Exception):
    """What the scores of a metric depend on cannot be told."""
