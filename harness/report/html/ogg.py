"""Ogg pages with a serial number of our choice: encoders draw one by chance, and the same page must be the same bytes.

The page's checksum (RFC 3533 §6: CRC-32, polynomial 0x04c11db7, nothing reflected, beginning with 0) is linear: other
bits in the serial number change it by the checksum of those bits alone, wherever the rest of the page stays.
"""

from __future__ import annotations

import struct

_MAGIC = b"OggS"
_HEADER = struct.Struct("<4sBBqIIIB")
_SERIAL_AT, _CHECKSUM_AT, _SERIAL_END = 14, 22, 18
_POLYNOMIAL = 0x04C11DB7
_BITS = 32


def with_serial(data: bytes, serial: int) -> bytes:
    """The same stream under another serial number. What is no whole Ogg stream comes back as it is."""
    pages = bytearray(data)
    at = 0
    while at < len(pages):
        size = _page_bytes(pages, at)
        if size is None:
            return data
        old, checksum = struct.unpack_from("<I4xI", pages, at + _SERIAL_AT)
        # The checksum takes bytes first to last; the serial number lies in them little end first.
        differing = int.from_bytes((old ^ serial).to_bytes(4, "little"), "big")
        checksum ^= _times(differing, _power(_BITS + 8 * (size - _SERIAL_END)))
        struct.pack_into("<I", pages, at + _SERIAL_AT, serial)
        struct.pack_into("<I", pages, at + _CHECKSUM_AT, checksum)
        at += size
    return bytes(pages)


def _page_bytes(pages: bytearray, at: int) -> int | None:
    """The length of the page that begins at `at`, None where none does."""
    if len(pages) < at + _HEADER.size or pages[at : at + 4] != _MAGIC:
        return None
    segments = pages[at + _HEADER.size - 1]
    start = at + _HEADER.size
    size = _HEADER.size + segments + sum(pages[start : start + segments])
    return size if at + size <= len(pages) else None


def _times(a: int, b: int) -> int:
    """The product of two polynomials over GF(2), modulo the checksum's."""
    product = 0
    while b:
        if b & 1:
            product ^= a
        b >>= 1
        a <<= 1
        if a >> _BITS:
            a ^= 1 << _BITS | _POLYNOMIAL
    return product


def _power(bits: int) -> int:
    """x to the power `bits`, modulo the checksum's polynomial."""
    result, square = 1, 2
    while bits:
        if bits & 1:
            result = _times(result, square)
        square = _times(square, square)
        bits >>= 1
    return result
