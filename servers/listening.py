"""Runs turn detection beside an event loop: cheap detectors at once, neural ones in a thread, always in order."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import numpy as np

from servers.speech_model import Pcm, VoiceDetector
from servers.vad import TurnDetection, TurnDetector, VadEvent


class Listener:
    """Turn detection of one connection.

    A detector with a true `inline` attribute is cheap enough for the loop; others run in a worker thread, on all audio
    that came in meanwhile, so that a slow detector falls behind rather than holding the connection up.
    """

    def __init__(
        self,
        detector: VoiceDetector,
        settings: TurnDetection,
        *,
        on_event: Callable[[VadEvent, TurnDetection], Awaitable[None]],
        on_progress: Callable[[int, TurnDetection], None],
        rate_hz: int,
        origin: int,
    ) -> None:
        """on_event: each start and stop, in order · on_progress: after each batch, the earliest position at which
        speech still to be announced can begin. Both run on the event loop."""
        self.settings = settings
        self._turns = TurnDetector(detector, settings, rate_hz=rate_hz, origin=origin)
        self._on_event, self._on_progress = on_event, on_progress
        self._waiting: list[Pcm] = []
        self._wake = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        inline = bool(getattr(detector, "inline", False))
        self._task = None if inline else asyncio.create_task(self._run(), name="voice detection")

    async def feed(self, pcm: Pcm) -> None:
        if self._task is None:
            await self._report(self._turns.feed(pcm))
            return
        if self._task.done():
            await self._task  # raises what stopped it
        self._waiting.append(pcm)
        self._idle.clear()
        self._wake.set()

    async def drain(self) -> None:
        """Wait until everything that was fed has been judged."""
        if self._task is None or self._idle.is_set():
            return
        idle = asyncio.create_task(self._idle.wait())
        try:
            await asyncio.wait({idle, self._task}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            idle.cancel()

    async def aclose(self) -> None:
        """Stop judging. A batch already in the thread is finished there and forgotten."""
        if self._task is not None:
            self._task.cancel()
            if self._task is not asyncio.current_task():
                await asyncio.wait({self._task})

    async def _run(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            batch = np.concatenate(self._waiting)
            self._waiting.clear()
            await self._report(await asyncio.to_thread(self._turns.feed, batch))
            if not self._waiting:
                self._idle.set()

    async def _report(self, events: list[VadEvent]) -> None:
        for event in events:
            await self._on_event(event, self.settings)
        self._on_progress(self._turns.earliest_start, self.settings)
