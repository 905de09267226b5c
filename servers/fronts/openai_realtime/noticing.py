"""Turn detection, told later or not at all: for a model that decides itself what it takes notice of."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from servers.fronts.openai_realtime.hearing import TurnHandler, Utterance

Told = Callable[[], Coroutine[Any, Any, None]]


class Attention:
    """A `TurnHandler` before another one. notice: the model's, asked once for each sound."""

    def __init__(self, handler: TurnHandler, notice: Callable[[], Coroutine[Any, Any, bool]]) -> None:
        self._handler, self._notice = handler, notice
        self._noticed: asyncio.Task[bool] | None = None
        self._told: asyncio.Queue[tuple[asyncio.Task[bool], Told]] = asyncio.Queue()
        self._teller: asyncio.Task[None] | None = None

    async def speech_started(self, item_id: str, audio_start_ms: int) -> None:
        self._noticed = asyncio.create_task(self._notice(), name="notice")
        self._tell(self._noticed, lambda: self._handler.speech_started(item_id, audio_start_ms))

    async def speech_stopped(self, audio_end_ms: int, said: Utterance) -> None:
        if self._noticed is not None:
            self._tell(self._noticed, lambda: self._handler.speech_stopped(audio_end_ms, said))

    async def aclose(self) -> None:
        tasks = [task for task in (self._teller, self._noticed) if task is not None]
        while not self._told.empty():
            tasks.append(self._told.get_nowait()[0])
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    def _tell(self, noticed: asyncio.Task[bool], told: Told) -> None:
        self._told.put_nowait((noticed, told))
        if self._teller is None:
            self._teller = asyncio.create_task(self._run(), name="attention")

    async def _run(self) -> None:
        """In order, each when its sound was noticed."""
        while True:
            noticed, told = await self._told.get()
            if await noticed:
                await told()
