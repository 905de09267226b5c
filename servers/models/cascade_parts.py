"""What a cascade is made of: the roles of its engines, and the threads that they work in."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol, TypeVar

from servers.engines.llama import Finish, Message
from servers.engines.whisper import Transcript
from servers.speech_model import Pcm, VoiceDetector
from sessions.clock import Clock

T = TypeVar("T")


class Recogniser(Protocol):
    def transcribe(self, pcm: Pcm, rate_hz: int) -> Transcript: ...


class ChatModel(Protocol):
    context_tokens: int
    slots: int

    def stream(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int,
        on_text: Callable[[str], None],
        should_stop: Callable[[], bool],
    ) -> Finish: ...

    def close(self) -> None: ...


class Synthesiser(Protocol):
    def speak(self, text: str) -> Pcm:
        """int16 (samples,) mono at 24 kHz; empty where nothing can be said."""
        ...


@dataclass(frozen=True, slots=True)
class Recipe:
    """How to load each engine, warm-up included. Called once each, in threads, side by side."""

    asr: Callable[[], Recogniser]
    llm: Callable[[], ChatModel]
    tts: Callable[[], Synthesiser]
    vad: Callable[[], Callable[[], VoiceDetector]]


@dataclass(frozen=True, slots=True)
class Broken:
    """A job that raised."""

    error: BaseException


class Worker:
    """Named threads of one engine. A job that nobody awaits any more never starts; one that runs is not interrupted."""

    def __init__(self, name: str, threads: int) -> None:
        self._pool = ThreadPoolExecutor(threads, f"duologue-{name}")
        self._lock = threading.Lock()
        self._busy = 0

    @property
    def busy(self) -> int:
        """How many jobs run now."""
        return self._busy

    def submit(self, job: Callable[[], T]) -> Future[T]:
        """Never raises: after `aclose` the future has already failed."""
        try:
            return self._pool.submit(self._counted, job)
        except RuntimeError as closed:
            future: Future[T] = Future()
            future.set_exception(closed)
            return future

    async def run(self, job: Callable[[], T], *, keep: Callable[[T], None] | None = None) -> T | Broken:
        """What `job` returned. What it raised comes back as a value: an engine may raise anything, a reply may not.

        keep: gets the result as well, in the event loop, and also when the caller was cancelled while the job ran.
        """
        submitted = self.submit(job)
        if keep is not None:
            loop = asyncio.get_running_loop()
            submitted.add_done_callback(lambda done: _hand_over(loop, done, keep))
        future = asyncio.wrap_future(submitted)
        try:
            await asyncio.wait({future})
        finally:
            future.cancel()
        if future.cancelled():
            return Broken(RuntimeError("the server is closing"))
        error = future.exception()
        return future.result() if error is None else Broken(error)

    async def aclose(self) -> None:
        """Wait for the jobs that run, drop the others, end the threads."""
        await asyncio.to_thread(self._pool.shutdown, wait=True, cancel_futures=True)

    def _counted(self, job: Callable[[], T]) -> T:
        with self._lock:
            self._busy += 1
        try:
            return job()
        finally:
            with self._lock:
                self._busy -= 1


def _hand_over(loop: asyncio.AbstractEventLoop, done: Future[T], keep: Callable[[T], None]) -> None:
    if not (loop.is_closed() or done.cancelled() or done.exception()):
        loop.call_soon_threadsafe(keep, done.result())


@dataclass(frozen=True, slots=True)
class Parts:
    """The loaded engines, each with its threads, and the clock that stages are stamped with."""

    asr: Recogniser
    llm: ChatModel
    tts: Synthesiser
    vad: Callable[[], VoiceDetector]
    asr_worker: Worker
    llm_worker: Worker
    tts_worker: Worker
    clock: Clock

    @property
    def workers(self) -> tuple[Worker, Worker, Worker]:
        return self.asr_worker, self.llm_worker, self.tts_worker


class Answer:
    """One answer of the chat model on its way from a worker thread to the event loop.

    Iterate over it for (instant, text) pairs, then read `finish`. The queue between holds at most `max_tokens` items:
    the model never waits for its reader, so that its slot is free as early as can be.
    """

    def __init__(self, parts: Parts, messages: Sequence[Message], max_tokens: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._clock = parts.clock
        self._stopped = threading.Event()
        self._queue: asyncio.Queue[tuple[int, str] | None] = asyncio.Queue()

        def work() -> Finish:
            return parts.llm.stream(
                messages, max_tokens=max_tokens, on_text=self._put, should_stop=self._stopped.is_set
            )

        self._future = parts.llm_worker.submit(work)
        self._future.add_done_callback(lambda _: self._post(None))

    def __aiter__(self) -> Answer:
        return self

    async def __anext__(self) -> tuple[int, str]:
        item = await self._queue.get()
        if item is None:
            raise StopAsyncIteration
        return item

    def stop(self) -> None:
        """No further token is asked for; the thread is free at the next one."""
        self._stopped.set()
        self._future.cancel()

    @property
    def finish(self) -> Finish:
        """How the answer ended. Only after the iteration."""
        if self._future.cancelled():
            return Finish("cancelled")
        error = self._future.exception()
        return self._future.result() if error is None else Finish("failed", f"{type(error).__name__}: {error}")

    def _put(self, text: str) -> None:
        self._post((self._clock.now_ns(), text))

    def _post(self, item: tuple[int, str] | None) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._queue.put_nowait, item)
