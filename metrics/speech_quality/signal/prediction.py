"""How far each sample is from what its surroundings foretell, against how far the samples around it are.

Speech is predicted well by a short linear filter that is fitted to some 30 ms of it (linear prediction, autocorrelation
method: J. Makhoul, "Linear prediction: a tutorial review", Proc. IEEE 63(4), 1975), forwards from the samples before
and backwards from those after. What the filter misses is small, except at the larynx's own pulses and where a stop is
released. A click is missed from both directions, and above the frequencies at which pulses are strong; just before it
the forward filter misses nothing yet, and just after it the backward one. A stop goes on for a while after its release.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from metrics.scoring import FloatPcm

LOWEST_RATE_HZ = 6000
NEAR_S = 0.000125
"""On either side of a sample, not compared with it."""
WIDE_S = 0.001
"""The same for what may be some samples long."""
FAR_S = 0.008
"""To here it is compared: long enough to hold a pulse of almost any voice."""
FLOOR = 0.02
"""Of the level of the speech. A sample is compared with at least this, so that in a pause only what one would hear
counts: where a stop is released into silence, speech itself clicks a little."""
_WINDOW_S = 0.030
_HOP_S = 0.010
_ASIDE = 2
"""Hops to the nearest windows that do not hold the hop itself: 15 ms of window and 5 ms of hop."""
_CHUNK_HOPS = 2000
_MARGIN_HOPS = 10

Floats = NDArray[np.float64]


class Crests(NamedTuple):
    """Of each sample from `start` on, (n,) each.

    click: one sample that fits to neither side · jump: where two stretches meet that do not belong together ·
    junk: the first of some samples (at most 1 ms of them) that fit to neither side.
    """

    start: int
    click: Floats
    jump: Floats
    junk: Floats


def order_for(rate_hz: int) -> int:
    """Coefficients of the filter: one per kHz and four more, at least 16 (the usual rule for speech)."""
    return max(16, round(rate_hz / 1000) + 4)


def crests(samples: FloatPcm, rate_hz: int, level: float, beside: int = 0) -> Iterator[Crests]:
    """Chunk after chunk, so that an hour never lies here twice. beside: samples of its neighbours that each one brings.

    Of the sample's own filter and of those just before and just after it, the one that missed by least counts; each
    miss is taken through (−1, 2, −1)/4, which leaves the upper frequencies. A crest is the size of the forward miss
    (for `click` the smaller of both directions') over the root mean square of the forward misses up to `FAR_S` before
    the sample, or of the backward ones up to `FAR_S` after it, whichever is larger, and at least `FLOOR` of the level.
    samples: float32 (n,) mono at rate_hz, which is at least `LOWEST_RATE_HZ` · level: root mean square of the speech.
    """
    hop = round(_HOP_S * rate_hz)
    for start in range(0, len(samples), _CHUNK_HOPS * hop):
        stop = min(start + _CHUNK_HOPS * hop, len(samples))
        first = max(start - _MARGIN_HOPS * hop, 0)
        chunk = samples[first : stop + _MARGIN_HOPS * hop].astype(np.float64)
        forward, backward = _misses(chunk, rate_hz, hop)
        near = np.maximum(_around(forward, backward, rate_hz, NEAR_S), FLOOR * level)
        wide = np.maximum(_around(forward, backward, rate_hz, WIDE_S), FLOOR * level)
        begin, end = max(start - beside, 0), min(stop + beside, len(samples))
        here = slice(begin - first, end - first)
        yield Crests(
            begin, (np.minimum(forward, backward) / near)[here], (forward / near)[here], (forward / wide)[here]
        )


def _misses(chunk: Floats, rate_hz: int, hop: int) -> tuple[Floats, Floats]:
    """(n,) sizes of what the forward and the backward filters missed."""
    filters = _filters(chunk, rate_hz, hop)
    before, after = filters.copy(), filters.copy()
    before[_ASIDE:] = filters[:-_ASIDE]
    after[:-_ASIDE] = filters[_ASIDE:]
    forward, backward = np.full((2, len(chunk)), np.inf)
    for coefficients in (filters, before, after):
        for least, missed in zip((forward, backward), _filtered(chunk, coefficients, hop), strict=True):
            np.minimum(least, np.abs(np.convolve(missed, (-0.25, 0.5, -0.25), "same")), out=least)
    return forward, backward


def _filters(chunk: Floats, rate_hz: int, hop: int) -> Floats:
    """(hops, order + 1) prediction-error filters, each fitted to the window around its hop."""
    order = order_for(rate_hz)
    width = round(_WINDOW_S * rate_hz)
    hops = -(-len(chunk) // hop)
    lead = (width - hop) // 2
    padded = np.concatenate((np.zeros(lead), chunk, np.zeros(hops * hop - len(chunk) + width)))
    windows = sliding_window_view(padded, width)[::hop][:hops] * np.hanning(width)
    size = 1 << (width + order - 1).bit_length()
    power = np.abs(np.fft.rfft(windows, size)) ** 2
    correlation = np.fft.irfft(power, size)[:, : order + 1]
    # A touch of white noise at −50 dB keeps the fit steady where a band is empty; the second term, where all is.
    correlation[:, 0] = correlation[:, 0] * (1 + 1e-5) + 1e-9 * width
    return _levinson(correlation)


def _levinson(correlation: Floats) -> Floats:
    """Levinson's recursion, all rows at once. (rows, order + 1) → (rows, order + 1), whose first column is 1."""
    filters = np.zeros_like(correlation)
    filters[:, 0] = 1
    error = correlation[:, 0].copy()
    for step in range(1, correlation.shape[1]):
        reflection = -(filters[:, :step] * correlation[:, step:0:-1]).sum(axis=1) / error
        filters[:, 1:step] += reflection[:, None] * filters[:, step - 1 : 0 : -1]
        filters[:, step] = reflection
        error *= 1 - reflection**2
    return filters


def _filtered(chunk: Floats, filters: Floats, hop: int) -> tuple[Floats, Floats]:
    """What each hop's filter misses of its samples, forwards and backwards (there the same coefficients serve)."""
    hops, taps = filters.shape
    edge = np.zeros(taps - 1)
    padded = np.concatenate((edge, chunk, np.zeros(hops * hop - len(chunk)), edge))
    windows = sliding_window_view(padded, taps)
    past = windows[: hops * hop].reshape(hops, hop, taps)
    future = windows[taps - 1 :].reshape(hops, hop, taps)
    forward = np.einsum("hst,ht->hs", past, filters[:, ::-1])
    backward = np.einsum("hst,ht->hs", future, filters)
    return forward.reshape(-1)[: len(chunk)], backward.reshape(-1)[: len(chunk)]


def _around(forward: Floats, backward: Floats, rate_hz: int, near_s: float) -> Floats:
    """(n,) the louder of both sides of each sample."""
    near, far = max(2, round(near_s * rate_hz)), round(FAR_S * rate_hz)
    here = np.arange(len(forward))
    earlier = _between(forward, here - far, here - near)
    later = _between(backward, here + near + 1, here + far + 1)
    return np.sqrt(np.maximum(earlier, later) / (far - near))


def _between(misses: Floats, starts: NDArray[np.int64], stops: NDArray[np.int64]) -> Floats:
    """Sums of squares of the stretches."""
    sums = np.concatenate(([0.0], np.cumsum(misses**2)))
    last = len(misses)
    between = sums[np.clip(stops, 0, last)] - sums[np.clip(starts, 0, last)]
    return np.asarray(np.maximum(between, 0.0), dtype=np.float64)
