"""WAV headers inside a stream that should be raw PCM: found, read, and told apart from the samples. Pure.

A header may begin where a piece of the stream begins. In a stream that holds one already it may begin anywhere, since
whoever joins files and cuts them anew does not cut at their borders. A header reaches up to the first byte of its
`data` chunk, whatever chunks stand before that; chunks behind the samples are headers too where the sizes say so. Sizes
that are wrong (a server that does not know them yet writes 0 or the largest number) cost no sample.

Source of the layout: Multimedia Programming Interface and Data Specifications 1.0 (IBM, Microsoft, 1991), RIFF WAVE.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

_RIFF, _WAVE = b"RIFF", b"WAVE"
_OPENING_BYTES = 12
"""RIFF, the size of all that follows, WAVE."""
_CHUNK_BYTES = 8
"""A chunk's name and size."""
_HEADER_AT_MOST = 1 << 16
"""What is longer is no header that anybody streams."""
_UNKNOWN_FROM = 0x7FFFFF00
"""Sizes from here on stand for "not known yet"."""
_EXTENSIBLE = 0xFFFE
_ENCODINGS = {1: "", 3: " float", 6: " A-law", 7: " µ-law"}


@dataclass(frozen=True, slots=True)
class WavFormat:
    """What a header says of the samples. encoding: 1 for whole numbers, 3 for float, 6 and 7 for A-law and µ-law."""

    encoding: int
    channels: int
    rate_hz: int
    bits: int

    @property
    def sample(self) -> str:
        """What one sample is: "16 bit", "32 bit float"."""
        return f"{self.bits} bit{_ENCODINGS.get(self.encoding, f' of encoding {self.encoding}')}"

    def __str__(self) -> str:
        channels = {1: "mono", 2: "stereo"}.get(self.channels, f"{self.channels} channels")
        return f"{self.rate_hz} Hz, {self.sample}, {channels}"


@dataclass(frozen=True, slots=True)
class WavHeader:
    """One header, taken out of the stream. format: None where it is damaged, cut off or says none."""

    format: WavFormat | None


Part = bytes | WavHeader


@dataclass(frozen=True, slots=True)
class _Read:
    """length: bytes up to the first sample · data_bytes: how many bytes of samples it promises, None where it does not
    know · rest_bytes: of the chunks that it promises behind them."""

    length: int
    format: WavFormat | None
    data_bytes: int | None = None
    rest_bytes: int = 0


class WavHeaders:
    """Takes the headers out of one stream of bytes, which comes in pieces."""

    def __init__(self) -> None:
        self._seen = False
        self._held = b""
        """Bytes of which more must come before it is known what they are."""
        self._data_left: int | None = None
        """Bytes of samples up to where the header in force says that they end; None where it does not say."""
        self._rest_left = 0

    @property
    def is_plain(self) -> bool:
        """No header so far, and nothing that may become one: samples can be counted without a look at them."""
        return not self._seen and not self._held

    def feed(self, data: bytes) -> list[Part]:
        """What the next piece holds, in order: bytes of samples, and headers between them."""
        if self.is_plain and not _may_begin(data):
            return [data]
        held, self._held = self._held, b""
        if held and not self._seen and not _may_begin(held + data):  # a sample that looked like a header's first bytes
            return [held, *self.feed(data)]
        parts: list[Part] = []
        rest = held + data
        while rest:
            part, rest = self._next(rest)
            if part is None:
                self._held = rest
                break
            parts.append(part)
        return [part for part in parts if part]

    def end(self) -> list[Part]:
        """What was held back of a stream that is over."""
        held, self._held = self._held, b""
        if len(held) >= _OPENING_BYTES and _may_begin(held):
            return [WavHeader(None)]
        is_chunk = self._data_left == 0 and len(held) >= _CHUNK_BYTES
        return [held] if held and not is_chunk else []

    def _next(self, data: bytes) -> tuple[Part | None, bytes]:
        """The first part of `data`, and what follows. None: more must come before that is known."""
        if _may_begin(data):
            return self._header(data)
        if self._data_left == 0:
            chunk, data = self._chunk_behind(data)
            return chunk, data
        end = _find_opening(data)
        if self._data_left is not None:
            end = min(end, self._data_left)
            self._data_left -= end
        return data[:end], data[end:]

    def _header(self, data: bytes) -> tuple[Part | None, bytes]:
        if len(data) < _OPENING_BYTES:
            return None, data
        self._seen = True
        found = _read_header(data)
        if found is None:
            return None, data
        self._data_left, self._rest_left = found.data_bytes, found.rest_bytes
        return WavHeader(found.format), data[found.length :]

    def _chunk_behind(self, data: bytes) -> tuple[Part | None, bytes]:
        """A chunk behind the samples, where the header promised one and this looks like it; else more samples."""
        if self._rest_left >= _CHUNK_BYTES and len(data) < _CHUNK_BYTES:
            return None, data
        size = _chunk_size(data) if self._rest_left >= _CHUNK_BYTES else None
        if size is None or size > min(self._rest_left, _HEADER_AT_MOST):
            self._data_left, self._rest_left = None, 0
            return b"", data
        if len(data) < size:
            return None, data
        self._rest_left -= size
        return b"", data[size:]


def _may_begin(data: bytes) -> bool:
    """The first bytes are a header's opening, or may become one."""
    return data[:4] == _RIFF[: len(data)] and data[8:12] == _WAVE[: max(0, len(data) - 8)] and data != b""


def _find_opening(data: bytes) -> int:
    """Where the next opening begins, or what may become one at the end; the length of `data` where there is none."""
    at = data.find(_RIFF)
    while at >= 0:
        if _may_begin(data[at : at + _OPENING_BYTES]):
            return at
        at = data.find(_RIFF, at + 1)
    for size in (3, 2, 1):
        if data.endswith(_RIFF[:size]):
            return len(data) - size
    return len(data)


def _chunk_size(data: bytes) -> int | None:
    """Bytes of the chunk at the front, with its name, size and padding; None where no chunk can begin so."""
    name, (size,) = data[:4], struct.unpack_from("<I", data, 4)
    if not all(32 <= byte < 127 for byte in name):
        return None
    return int(_CHUNK_BYTES + size + (size & 1))


def _read_header(data: bytes) -> _Read | None:
    """The header at the front of `data`. None: more must come. What makes no sense ends it, without a format."""
    at, found = _OPENING_BYTES, None
    (riff_bytes,) = struct.unpack_from("<I", data, 4)
    while at + _CHUNK_BYTES <= len(data):
        size = _chunk_size(data[at : at + _CHUNK_BYTES])
        if data[at : at + 4] == b"data":
            first = at + _CHUNK_BYTES
            (data_bytes,) = struct.unpack_from("<I", data, at + 4)
            if not 0 < data_bytes < _UNKNOWN_FROM:
                return _Read(first, found)
            behind = riff_bytes + _CHUNK_BYTES - first - data_bytes if riff_bytes < _UNKNOWN_FROM else 0
            return _Read(first, found, data_bytes, max(0, behind))
        if size is None or at + size > _HEADER_AT_MOST:
            return _Read(at, None)
        if at + size > len(data):
            return None
        if data[at : at + 4] == b"fmt ":
            found = _read_format(data[at + _CHUNK_BYTES : at + size])
        at += size
    return None


def _read_format(chunk: bytes) -> WavFormat | None:
    if len(chunk) < 16:
        return None
    encoding, channels, rate_hz, _, _, bits = struct.unpack_from("<HHIIHH", chunk)
    if encoding == _EXTENSIBLE and len(chunk) >= 26:  # the true encoding begins a longer field
        (encoding,) = struct.unpack_from("<H", chunk, 24)
    return WavFormat(encoding, channels, rate_hz, bits)
