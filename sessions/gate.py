"""Audibility gate `gate/1`: where in a reply a listener begins to hear something that is not noise, offset or click.

1.0 = int16 32768 = 0 dBFS. The reply (all its packets joined) is cut into 5 ms blocks on its own sample index: block j
holds samples ⌊j·rate/200⌋ up to ⌊(j+1)·rate/200⌋, a short last block by its own length. A block is loud when its
standard deviation is at least −45 dBFS. The onset lies in the first loud block of which at least three of the four
blocks from it on are loud; where the reply ends within those four, all that remain must be. Its sample is the block's
first with |x − m| ≥ −45 dBFS (m = mean of the four blocks before it, 0 at the start), or else the block's first sample.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:  # the gate's levels are also read in environments that have numpy alone
    from sessions.audio import Pcm

GATE = "gate/1"
THRESHOLD_DBFS = -45.0
BLOCKS_PER_S = 200
"""5 ms blocks."""
LOOK_BLOCKS = 4
NEEDED_LOUD = 3
_FULL_SCALE = 32768
_THRESHOLD = _FULL_SCALE * 10 ** (THRESHOLD_DBFS / 20)
"""The level in int16 steps."""
_BLOCKS_AT_ONCE = 60 * BLOCKS_PER_S


@dataclass(frozen=True, slots=True)
class Onset:
    """What the gate found.

    index: the first audible sample, None where nothing is · ignored: (first sample, samples) of each run of loud blocks
    before it (in the whole reply where there is no onset) that was too short to be speech: a click, for people to see.
    """

    index: int | None
    ignored: tuple[tuple[int, int], ...] = ()


def first_audible_index(pcm: Pcm, rate_hz: int) -> int | None:
    """The first audible sample of `pcm`, int16 (samples,) mono at `rate_hz`; None where nothing is above the gate."""
    return find_onset(pcm, rate_hz).index


def find_onset(pcm: Pcm, rate_hz: int) -> Onset:
    """The onset, and the loud blocks before it that are not speech. pcm: int16 (samples,) mono at `rate_hz`."""
    edges = block_edges(len(pcm), rate_hz)
    loud = _deviations(pcm, edges) >= _THRESHOLD
    first = _first_sustained(loud)
    ignored = _runs(loud[:first], edges)
    if first is None:
        return Onset(None, ignored)
    return Onset(_sample_in_block(pcm, edges, first), ignored)


def audible_runs(pcm: Pcm, rate_hz: int) -> tuple[tuple[int, int], ...]:
    """(first sample, one past the last) of everything audible, in order; int16 (samples,) mono at `rate_hz`.

    A loud block is audible where at least three of some four blocks in a row that hold it are loud: the first run
    begins at the onset, a click is in none. A run begins at its first block's sample that the gate would name, and
    ends with its last loud block.
    """
    edges = block_edges(len(pcm), rate_hz)
    loud = _deviations(pcm, edges) >= _THRESHOLD
    sustained = _sustained(loud)
    audible = sustained.copy()
    for later in range(1, LOOK_BLOCKS):
        audible[later:] |= sustained[:-later]
    steps = np.diff(np.concatenate(([0], (audible & loud).astype(np.int8), [0])))
    starts, stops = np.flatnonzero(steps == 1).tolist(), np.flatnonzero(steps == -1).tolist()
    return tuple((_sample_in_block(pcm, edges, a), int(edges[b])) for a, b in zip(starts, stops, strict=True))


def _sample_in_block(pcm: Pcm, edges: NDArray[np.int64], first: int) -> int:
    """The onset's sample in its block."""
    before = pcm[edges[max(first - LOOK_BLOCKS, 0)] : edges[first]]
    mean = float(before.mean(dtype=np.float64)) if len(before) else 0.0
    block = pcm[edges[first] : edges[first + 1]].astype(np.float64)
    above = np.flatnonzero(np.abs(block - mean) >= _THRESHOLD)
    return int(edges[first]) + (int(above[0]) if len(above) else 0)


def block_edges(samples: int, rate_hz: int) -> NDArray[np.int64]:
    """(blocks + 1,) sample indices at which the gate's blocks begin; the last one is `samples`.

    Raises `ValueError` below 200 Hz, where a block would hold no sample.
    """
    if rate_hz < BLOCKS_PER_S:
        raise ValueError(f"the gate needs a rate of at least {BLOCKS_PER_S} Hz, not {rate_hz} Hz")
    blocks = -(-samples * BLOCKS_PER_S // rate_hz)
    edges = np.arange(blocks + 1, dtype=np.int64) * rate_hz // BLOCKS_PER_S
    edges[-1] = samples
    return edges


def block_levels_dbfs(pcm: Pcm, rate_hz: int) -> NDArray[np.float64]:
    """(blocks,) loudness of each 5 ms block: its standard deviation in dBFS, −inf for a constant block."""
    deviations = _deviations(pcm, block_edges(len(pcm), rate_hz))
    with np.errstate(divide="ignore"):
        return np.asarray(20 * np.log10(deviations / _FULL_SCALE), dtype=np.float64)


def _deviations(pcm: Pcm, edges: NDArray[np.int64]) -> NDArray[np.float64]:
    """(blocks,) population standard deviation per block, in int16 steps. The sums are exact integers."""
    blocks = len(edges) - 1
    out = np.zeros(max(blocks, 0))
    for first in range(0, blocks, _BLOCKS_AT_ONCE):  # so that an hour is never in memory as wide integers
        marks = edges[first : first + _BLOCKS_AT_ONCE + 1]
        wide = pcm[marks[0] : marks[-1]].astype(np.int64)
        sizes, starts = np.diff(marks), marks[:-1] - marks[0]
        sums = np.add.reduceat(wide, starts)
        squares = np.add.reduceat(wide * wide, starts)
        out[first : first + len(sizes)] = np.sqrt((sizes * squares - sums * sums).astype(np.float64)) / sizes
    return out


def _first_sustained(loud: NDArray[np.bool_]) -> int | None:
    good = np.flatnonzero(_sustained(loud))
    return int(good[0]) if len(good) else None


def _sustained(loud: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """(blocks,) the loud blocks that are sustained by their neighbours to the right."""
    blocks = len(loud)
    counts = np.concatenate(([0], np.cumsum(loud)))
    here = np.arange(blocks)
    stop = np.minimum(here + LOOK_BLOCKS, blocks)
    needed = np.where(stop - here < LOOK_BLOCKS, stop - here, NEEDED_LOUD)
    return np.asarray(loud & (counts[stop] - counts[here] >= needed), dtype=np.bool_)


def _runs(loud: NDArray[np.bool_], edges: NDArray[np.int64]) -> tuple[tuple[int, int], ...]:
    """(first sample, samples) of each run of loud blocks."""
    steps = np.diff(np.concatenate(([0], loud.astype(np.int8), [0])))
    starts, stops = np.flatnonzero(steps == 1), np.flatnonzero(steps == -1)
    return tuple(
        (int(edges[a]), int(edges[b] - edges[a])) for a, b in zip(starts.tolist(), stops.tolist(), strict=True)
    )
