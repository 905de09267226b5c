"""Whether a reply brings audio again that it brought before: `repeats/2`.

Some servers send all that they have so far with each message, others the whole reply twice. Summed, such audio is too
long, and whatever divides by its length looks better than it is. Nothing is taken out here: this only
says so.

A reply repeats what was sent in one of two ways:

growing: each of its messages with samples begins with all samples of the one before it, and the last is longer than
    the first. What is repeated is the last message but one.
again: from the first sample of some message on, everything that the reply had brought up to there comes once more.
    What is repeated is everything up to there; it may happen several times, and new audio may follow.

Samples are equal when they differ by at most 2 + 1 % of int16: who computes the same sound anew rounds otherwise.

What is repeated must be **telling** for at least 500 ms, or it counts as chance: a tone, two beeps, silence and a clock
that ticks are like themselves, and a server that sends them does nothing wrong. Telling is measured in windows of
50 ms, 25 ms apart, each of which stands for 25 ms: one is telling where its standard deviation is at least −45 dBFS
(the gate's) and it is no tone: no lag p from 2.5 to 25 ms exists at which its first half differs from itself p later by
less than 0.1 % of their energies, or from the best weighted sum of itself p and p + 1 samples later by less than 0.1 %
of its own (a sine is such a sum, whatever its period). Audio that is a repetition of a shorter part is as telling as
that part.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from metrics.conversation import Pcm
from metrics.gate import THRESHOLD_DBFS

REPEATS = "repeats/2"
TELLING_MS = 500
_WINDOWS_PER_S = 40
_LAGS_PER_S = 400
"""The shortest lag is so much of a second."""
_LIKE_ITSELF = 1e-3
_APART = 1e-6
"""Below this share of their energies two stretches are one direction, and a sum of them is no better than one."""
_EQUAL_STEPS, _EQUAL_PERCENT = 2, 1
_THRESHOLD = 32768 * 10 ** (THRESHOLD_DBFS / 20)
_FIRST_LOOK = 64


@dataclass(frozen=True, slots=True)
class Repeats:
    """A reply that repeats itself. came_samples: all of it · once_samples: without what came before."""

    came_samples: int
    once_samples: int


def find_repeats(packets: Sequence[Pcm], rate_hz: int) -> Repeats | None:
    """What a reply repeats; None where it does not. packets: its messages, int16 (samples,) mono, in order."""
    sizes = [len(pcm) for pcm in packets if len(pcm)]
    if len(sizes) < 2:
        return None
    reply = _Reply(np.concatenate(packets), np.cumsum([0, *sizes]).tolist(), rate_hz)
    once = _growing(reply) or _again(reply)
    return None if once is None else Repeats(len(reply.pcm), once)


@dataclass(frozen=True, slots=True)
class _Reply:
    """starts: the index of each message's first sample, and one past the last."""

    pcm: Pcm
    starts: list[int]
    rate_hz: int

    def is_telling(self, first: int, end: int) -> bool:
        return telling_ms(self.pcm[first:end], self.rate_hz, enough_ms=TELLING_MS) >= TELLING_MS

    def same(self, first: int, other: int, samples: int) -> int:
        """How many samples from `first` on equal those from `other` on, at most `samples`."""
        done, step = 0, _FIRST_LOOK
        while done < samples:
            end = min(done + step, samples)
            differing = np.flatnonzero(
                _differ(self.pcm[first + done : first + end], self.pcm[other + done : other + end])
            )
            if len(differing):
                return done + int(differing[0])
            done, step = end, step * 2
        return samples


def _differ(a: Pcm, b: Pcm) -> NDArray[np.bool_]:
    wide = a.astype(np.int32)
    far = np.abs(wide - b) - _EQUAL_STEPS
    return np.asarray(far * 100 > np.abs(wide) * _EQUAL_PERCENT, dtype=np.bool_)


def _growing(reply: _Reply) -> int | None:
    """The samples of the last message, where each begins with all of the one before."""
    starts = reply.starts
    sizes = np.diff(starts).tolist()
    if sizes[-1] <= sizes[0] or sizes != sorted(sizes):
        return None
    for before, start, size in zip(starts, starts[1:], sizes[:-1], strict=False):
        if reply.same(before, start, size) < size:
            return None
    return int(sizes[-1]) if reply.is_telling(starts[-3], starts[-2]) else None


def _again(reply: _Reply) -> int | None:
    """The samples that are new, where the reply begins anew once or more."""
    first = _first_restart(reply)
    if first is None:
        return None
    new = [(0, first)]
    samples, at = first, 2 * first  # what is new so far, and where what follows it begins
    for start in reply.starts:
        if start < at or start + samples + (start - at) > len(reply.pcm):
            continue
        told = [*new, (at, start)] if start > at else new
        if _begins_with(reply, start, told):
            new, samples = told, samples + start - at
            at = start + samples
    return samples + len(reply.pcm) - at


def _first_restart(reply: _Reply) -> int | None:
    """The message from which on all that came before comes again, and that is telling."""
    explained = 0  # up to here the reply is a repetition of something that is not telling
    for start in reply.starts[1:]:
        if 2 * start > len(reply.pcm):
            return None
        if start <= explained:
            continue
        same = reply.same(0, start, len(reply.pcm) - start)
        if same < start:
            continue
        if reply.is_telling(0, start):
            return start
        explained = start + same
    return None


def _begins_with(reply: _Reply, start: int, told: Sequence[tuple[int, int]]) -> bool:
    """From `start` on comes what stands in the parts of the reply that `told` names (first, end)."""
    for first, end in told:
        if reply.same(first, start, end - first) < end - first:
            return False
        start += end - first
    return True


def telling_ms(pcm: Pcm, rate_hz: int, *, enough_ms: float = float("inf")) -> float:
    """How much of `pcm` is telling, int16 (samples,) mono. enough_ms: no need to count beyond."""
    hop, found_ms = rate_hz // _WINDOWS_PER_S, 0.0
    for first in range(0, len(pcm) - 2 * hop + 1, hop):
        window = pcm[first : first + 2 * hop].astype(np.float64)
        if window.std() >= _THRESHOLD and not is_tone(window, rate_hz):
            found_ms += 1000 / _WINDOWS_PER_S
            if found_ms >= enough_ms:
                break
    return found_ms


def is_tone(window: NDArray[np.float64], rate_hz: int) -> bool:
    """Some later stretch of the window, from 2.5 ms on, is its first half again, or two neighbours are. window: (n,)"""
    window = window - window.mean()
    half, shortest = len(window) // 2, max(1, rate_hz // _LAGS_PER_S)
    later = sliding_window_view(window, half)[shortest:]
    squares = np.concatenate(([0.0], np.cumsum(window * window)))
    energies, own = (squares[half:] - squares[:-half])[shortest:], squares[half]
    alike = later @ window[:half]
    if np.any(energies + own - 2 * alike < _LIKE_ITSELF * (energies + own)):
        return True
    # Least squares on each pair of neighbours: what they explain of the first half's energy.
    e, f, a, b = energies[:-1], energies[1:], alike[:-1], alike[1:]
    both = np.einsum("ij,ij->i", later[:-1], later[1:])
    apart = e * f - both * both
    usable = apart > _APART * e * f
    explained = (a * a * f - 2 * a * b * both + b * b * e)[usable] / apart[usable]
    return bool(np.any(own - explained < _LIKE_ITSELF * own))
