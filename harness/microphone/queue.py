"""What is still to be played: filled by the event loop, emptied by the thread of the sound device."""

from __future__ import annotations

from collections import deque

import numpy as np

from harness.microphone.device import Pcm, Piece


class PlayQueue:
    """Each end is used by one thread. No lock: a deque's own steps are whole, and a callback must never wait.

    What was dropped is of an older age: the reader throws it away when it comes to it.
    """

    def __init__(self) -> None:
        self._waiting: deque[tuple[int, str, int, Pcm]] = deque()
        """(age, reply, first sample, pcm)"""
        self._age = 0
        self._given: dict[str, int] = {}
        self._current: tuple[int, str, int, Pcm] | None = None

    def put(self, reply: str, pcm: Pcm) -> None:
        """More of `reply`, int16 (samples,)."""
        first = self._given.get(reply, 0)
        self._given[reply] = first + len(pcm)
        if len(pcm):
            self._waiting.append((self._age, reply, first, pcm))

    def drop(self) -> None:
        self._age += 1

    def take(self, out: Pcm) -> tuple[Piece, ...]:
        """Fill int16 (samples,) with what comes next, then with zeros; what was put where."""
        pieces: list[Piece] = []
        filled = 0
        while filled < len(out):
            if self._current is None:
                if not self._waiting:
                    break
                self._current = self._waiting.popleft()
            age, reply, first, pcm = self._current
            if age != self._age:
                self._current = None
                continue
            count = min(len(pcm), len(out) - filled)
            out[filled : filled + count] = pcm[:count]
            pieces.append(Piece(reply, first, filled, count))
            self._current = (age, reply, first + count, pcm[count:]) if count < len(pcm) else None
            filled += count
        out[filled:] = np.int16(0)
        return tuple(pieces)
