"""G.711 µ-law: 14 bits of an int16 sample in 8, by the segments of ITU-T G.711."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from sessions.audio import Pcm

_BIAS: Final = 0x84
_HIGHEST: Final = 32635


def encode(pcm: Pcm) -> NDArray[np.uint8]:
    """int16 (samples,) → uint8 (samples,), one code each."""
    wide = pcm.astype(np.int32)
    magnitude = np.minimum(np.abs(wide), _HIGHEST) + _BIAS
    exponent = np.floor(np.log2(magnitude)).astype(np.int32) - 7
    mantissa = (magnitude >> (exponent + 3)) & 0x0F
    code = np.where(wide < 0, 0x80, 0) | (exponent << 4) | mantissa
    return np.asarray(~code & 0xFF, dtype=np.uint8)


def decode(codes: NDArray[np.uint8]) -> Pcm:
    """uint8 (samples,) → int16 (samples,)."""
    bits = ~codes.astype(np.int32) & 0xFF
    exponent, mantissa = (bits >> 4) & 0x07, bits & 0x0F
    magnitude = (((mantissa << 3) + _BIAS) << exponent) - _BIAS
    pcm: Pcm = np.where(bits & 0x80, -magnitude, magnitude).astype(np.int16)
    return pcm
