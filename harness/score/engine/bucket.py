"""Which sounds are scored together: the one that has waited longest, and others of about its length."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from harness.score.engine.spool import Stored
from metrics.scoring import Sample

_LONGEST_BY_SHORTEST = 1.25
"""Of a padded batch: what is computed for nothing stays below a quarter."""


@dataclass(slots=True, frozen=True)
class Waiting:
    """A sound that one metric is to score. key: of its score."""

    key: str
    sample: Sample
    stored: Stored

    @property
    def samples(self) -> int:
        return self.stored.samples

    @property
    def seconds(self) -> float:
        return self.stored.samples / self.stored.rate_hz


class Bucket:
    """What waits for one metric. batch: the most at once · padded_s: the most seconds at once, padding included."""

    def __init__(self, batch: int, *, pads: bool, padded_s: float) -> None:
        self._batch, self._pads, self._padded_s = batch, pads, padded_s
        self._waiting: dict[str, Waiting] = {}
        self._more = asyncio.Event()
        self._closed = False

    def put(self, waiting: Waiting) -> None:
        self._waiting[waiting.key] = waiting
        self._more.set()

    def close(self) -> None:
        """Nothing more comes."""
        self._closed = True
        self._more.set()

    async def take(self) -> list[Waiting]:
        """The next batch; empty when it is closed and nothing is left. It never waits for a batch to become full:
        while one is scored others come in."""
        while not self._waiting:
            if self._closed:
                return []
            self._more.clear()
            await self._more.wait()
        batch = self._next()
        for waiting in batch:
            del self._waiting[waiting.key]
        return batch

    def _next(self) -> list[Waiting]:
        first = next(iter(self._waiting.values()))
        batch = [first]
        if self._batch == 1:
            return batch
        others = list(self._waiting.values())[1:]
        if self._pads:
            others.sort(key=lambda waiting: abs(waiting.samples - first.samples))
        shortest_s = longest_s = total_s = first.seconds
        for waiting in others:
            if len(batch) == self._batch:
                break
            low, high = min(shortest_s, waiting.seconds), max(longest_s, waiting.seconds)
            weight_s = high * (len(batch) + 1) if self._pads else total_s + waiting.seconds
            if weight_s > self._padded_s or (self._pads and high > _LONGEST_BY_SHORTEST * low):
                break
            batch.append(waiting)
            shortest_s, longest_s, total_s = low, high, total_s + waiting.seconds
        return batch
