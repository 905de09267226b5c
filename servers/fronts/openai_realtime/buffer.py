"""The input audio buffer: what the user said and nobody has committed yet."""

from __future__ import annotations

from collections import deque

import numpy as np

from servers.speech_model import Pcm

MAX_HELD_S = 600
"""More than ten minutes without a commit is a client that went wrong."""


class InputBuffer:
    """Audio by its position: samples since the session began, whatever has been taken out meanwhile."""

    def __init__(self) -> None:
        self._chunks: deque[Pcm] = deque()
        self.start = 0
        """Position of the first sample held."""
        self.end = 0
        """Position after the last sample appended, over the whole session."""

    @property
    def held_samples(self) -> int:
        return self.end - self.start

    def append(self, pcm: Pcm) -> None:
        """int16 (samples,)."""
        if len(pcm):
            self._chunks.append(pcm)
            self.end += len(pcm)

    def take(self, start: int, end: int) -> Pcm:
        """Samples from `start` to `end`; they and all before them leave the buffer."""
        self.drop_before(start)
        parts: list[Pcm] = []
        while self._chunks and self.start < end:
            chunk = self._chunks.popleft()
            room = end - self.start
            if len(chunk) > room:
                self._chunks.appendleft(chunk[room:])
                chunk = chunk[:room]
            parts.append(chunk)
            self.start += len(chunk)
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.int16)

    def drop_before(self, position: int) -> None:
        while self._chunks and self.start < position:
            chunk = self._chunks.popleft()
            room = position - self.start
            if len(chunk) > room:
                self._chunks.appendleft(chunk[room:])
                self.start = position
            else:
                self.start += len(chunk)

    def clear(self) -> None:
        self._chunks.clear()
        self.start = self.end
