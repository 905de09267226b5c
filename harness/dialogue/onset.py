"""The first audible sample of a reply, by `gate/1`, while the reply still comes."""

from __future__ import annotations

import math

import numpy as np

from clients.events import Pcm
from sessions.gate import BLOCKS_PER_S, LOOK_BLOCKS, block_edges, find_onset


class OnsetFinder:
    """Fed a reply piece by piece, it finds what `find_onset` finds in the whole, as early as that can be known.

    A block is judged when the four blocks from it on have come, or the reply has ended. Of what is judged only the four
    blocks are kept that the next judgement looks back at.
    """

    def __init__(self, rate_hz: int) -> None:
        self._rate_hz = rate_hz
        self._aligned_blocks = BLOCKS_PER_S // math.gcd(rate_hz, BLOCKS_PER_S)
        """So many blocks are a whole number of samples: a cut there leaves all other blocks as they were."""
        self._kept: Pcm = np.zeros(0, dtype=np.int16)
        self._first = 0
        """Index in the reply of the first sample kept."""

    def feed(self, pcm: Pcm) -> int | None:
        """The onset's index in the reply, once it is known. pcm: what came of the reply, int16 (samples,)."""
        self._kept = np.concatenate([self._kept, pcm])
        blocks = len(self._kept) * BLOCKS_PER_S // self._rate_hz
        whole = self._kept[: blocks * self._rate_hz // BLOCKS_PER_S]
        index = find_onset(whole, self._rate_hz).index
        if index is None:
            self._forget(blocks)
            return None
        block = int(np.searchsorted(block_edges(len(whole), self._rate_hz), index, side="right")) - 1
        return self._first + index if block + LOOK_BLOCKS <= blocks else None

    def end(self) -> int | None:
        """The onset of a reply of which no more comes."""
        index = find_onset(self._kept, self._rate_hz).index
        return None if index is None else self._first + index

    def _forget(self, blocks: int) -> None:
        judged = blocks - LOOK_BLOCKS + 1
        drop = (judged - LOOK_BLOCKS) // self._aligned_blocks * self._aligned_blocks
        if drop > 0:
            samples = drop * self._rate_hz // BLOCKS_PER_S
            self._kept = self._kept[samples:]
            self._first += samples
