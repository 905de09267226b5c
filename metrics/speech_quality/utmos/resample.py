"""The resampling that UTMOS is published with: a windowed sinc, in numpy, from its formula.

It is what `torchaudio.functional.resample` does by default (method sinc_interp_hann, width 6, rolloff 0.99). Output
sample n lies at input time c = n·in/out. With b = 0.99·min(in, out)/in, the cut-off in input samples,

    y[n] = b · Σ_j x[j] · sinc(b·(j − c)) · cos²(π/12 · b·(j − c)),   |b·(j − c)| < 6,   sinc(t) = sin(πt)/(πt)

and ⌈samples·out/in⌉ samples come out. The published kernel is cut for all phases of a block of `in` samples (in and out
without common factors) at once, from ⌈6/b⌉ before its first to ⌈6/b⌉ after its last; so is this one.
"""

from __future__ import annotations

import math

import numpy as np

from metrics.scoring import FloatPcm

_WIDTH = 6
_ROLLOFF = 0.99
_AT_ONCE = 1 << 16
"""Output samples that are reckoned together: memory does not grow with the sound."""


def resample_as_published(samples: FloatPcm, from_hz: int, to_hz: int) -> FloatPcm:
    """float32 (n,) at from_hz → float32 (⌈n·to/from⌉,) at to_hz; the same array where the rates are equal."""
    if from_hz == to_hz:
        return samples
    common = math.gcd(from_hz, to_hz)
    step, phases = from_hz // common, to_hz // common
    out = np.empty(-(-len(samples) * phases // step), np.float32)
    for start in range(0, len(out), _AT_ONCE):
        stop = min(start + _AT_ONCE, len(out))
        out[start:stop] = _stretch(samples, np.arange(start, stop), step, phases)
    return out


def _stretch(samples: FloatPcm, wanted: np.ndarray[tuple[int], np.dtype[np.int64]], step: int, phases: int) -> FloatPcm:
    """The output samples with the numbers `wanted`."""
    cut_off = _ROLLOFF * min(step, phases) / step
    reach = math.ceil(_WIDTH / cut_off)
    block, phase = np.divmod(wanted, phases)
    within = phase * step // phases  # the input sample at or before the output sample, in its block
    offsets = within[:, None] + np.arange(-reach, reach + 2)
    # The published code divides the phase in single precision; the kernel shows it in the fifth digit.
    at = (phase / phases).astype(np.float32).astype(np.float64)[:, None]
    distance = (offsets / step - at) * (_ROLLOFF * min(step, phases))
    window = np.cos(np.clip(distance, -_WIDTH, _WIDTH) * (np.pi / (2 * _WIDTH))) ** 2
    window[(offsets < -reach) | (offsets >= reach + step)] = 0.0
    kernel = (np.sinc(distance) * window * cut_off).astype(np.float32)
    places = block[:, None] * step + offsets
    inside = (places >= 0) & (places < len(samples))
    heard = np.where(inside, samples[np.clip(places, 0, len(samples) - 1)], np.float32(0.0))
    stretch: FloatPcm = np.einsum("ij,ij->i", kernel, heard)
    return stretch
