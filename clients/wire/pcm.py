"""PCM16 and its base64 as they travel: strict decoding, and joining of pieces that were cut at any byte."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Pcm = NDArray[np.int16]
_SLICE_BYTES = 1 << 18
"""A multiple of four, so that each slice decodes on its own; about a millisecond of work."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """data: the bytes, empty when `fault` · fault: what is wrong with the text · note: accepted, but worth saying."""

    data: bytes
    fault: str = ""
    note: str = ""


def decode_base64(text: str) -> Decoded:
    """Decode one piece on its own, strictly: standard alphabet, no white space. Missing padding is only noted."""
    if len(text) <= _SLICE_BYTES:
        try:
            return Decoded(binascii.a2b_base64(text, strict_mode=True))
        except ValueError:
            pass  # what it refuses, the longer way takes or names
    missing = -len(text) % 4
    try:
        raw = text.encode("ascii")
        if missing and "=" not in text and missing != 3:
            return Decoded(_decode_strictly(raw + b"=" * missing), note="base64 without padding")
        return Decoded(_decode_strictly(raw))
    except (binascii.Error, UnicodeEncodeError) as error:
        return Decoded(b"", fault=f"base64 that does not decode ({_reason(text, str(error))})")


def _decode_strictly(raw: bytes) -> bytes:
    """Decode in slices: one long call would hold up every thread of the process, the one that keeps time too."""
    last = max(0, len(raw) - 1) // _SLICE_BYTES * _SLICE_BYTES
    if raw.find(b"=", 0, last) >= 0:
        raise binascii.Error("padding before the end")
    return b"".join(
        base64.b64decode(raw[at : at + _SLICE_BYTES], validate=True) for at in range(0, len(raw), _SLICE_BYTES)
    )


def _reason(text: str, error: str) -> str:
    if any(c in "-_" for c in text):
        return "url-safe alphabet"
    if any(c.isspace() for c in text):
        return "white space or line breaks inside"
    odd = next((c for c in text if not (c.isascii() and (c.isalnum() or c in "+/="))), "")
    return f"character {odd!r}" if odd else error[0].lower() + error[1:]


def encode_base64(pcm: Pcm) -> str:
    """Base64 of int16 (samples,), little-endian."""
    return base64.b64encode(np.ascontiguousarray(pcm, dtype="<i2").tobytes()).decode("ascii")


class PcmJoiner:
    """Joins byte pieces of one reply into whole samples; a sample belongs to the piece that brings its second byte."""

    def __init__(self) -> None:
        self._carry = b""

    def feed(self, data: bytes) -> Pcm:
        """int16 (samples,): the samples completed by this piece."""
        if not self._carry and not len(data) & 1:
            return np.frombuffer(data, dtype="<i2").astype(np.int16, copy=False)
        joined = self._carry + data
        whole = len(joined) & ~1
        self._carry = joined[whole:]
        return np.frombuffer(joined[:whole], dtype="<i2").astype(np.int16, copy=False)

    @property
    def half_sample(self) -> bool:
        """True while one byte waits for its other half. At a reply's end that is a protocol fault."""
        return bool(self._carry)
