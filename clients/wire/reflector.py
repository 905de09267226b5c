"""The reflector's two messages, JSON text padded to an exact size, for both ends.

```
client      {"type":"reflect","n":7,"answer_bytes":5200,"pad":"…"}
reflector   {"type":"reflected","n":7,"arrived_ns":…,"pad":"…","written_ns":     …}
```
The instants are of the reflector's own monotonic clock; nothing but differences of two of them means anything here.
The last field comes last so that it is read off the clock when all else is ready; it is padded to a fixed width.
"""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlsplit

import msgspec

from sessions.errors import PeerError, SetupError

PATH = "/reflect"
REQUEST_BYTES = 1_340
"""As long as a frame of 20 ms, 24 kHz PCM16 as base64 in its JSON."""
ANSWER_BYTES = 5_200
"""As long as a reply packet of 80 ms."""
ANSWER_BYTES_AT_LEAST, ANSWER_BYTES_AT_MOST = 160, 65_000
_DIGITS = 20
"""More than a 64-bit count of nanoseconds has."""


class Reflect(msgspec.Struct, frozen=True, tag="reflect", forbid_unknown_fields=True):
    n: int
    answer_bytes: int
    pad: str = ""


class Reflected(msgspec.Struct, frozen=True, tag="reflected", forbid_unknown_fields=True):
    """arrived_ns: the message was taken from the socket · written_ns: just before the answer was written."""

    n: int
    arrived_ns: int
    written_ns: int
    pad: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer but for its last field."""

    head: str

    def text(self, written_ns: int) -> str:
        return f"{self.head}{written_ns:>{_DIGITS}}}}"


def request_text(n: int) -> str:
    """Message `n` of a client, `REQUEST_BYTES` long."""
    return _padded(f'{{"type":"reflect","n":{n},"answer_bytes":{ANSWER_BYTES},"pad":"', '"}', REQUEST_BYTES)


def answer(request: Reflect, arrived_ns: int) -> Answer:
    head = f'{{"type":"reflected","n":{request.n},"arrived_ns":{arrived_ns},"pad":"'
    return Answer(_padded(head, '","written_ns":', request.answer_bytes - _DIGITS - 1))


def parse_request(text: str) -> Reflect:
    """Raises `PeerError`."""
    try:
        request = msgspec.json.decode(text, type=Reflect)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise PeerError(f"not a message for a reflector ({error})") from error
    if not ANSWER_BYTES_AT_LEAST <= request.answer_bytes <= ANSWER_BYTES_AT_MOST:
        raise PeerError(f"answer_bytes must be {ANSWER_BYTES_AT_LEAST} to {ANSWER_BYTES_AT_MOST}")
    if not -(2**53) < request.n < 2**53:
        raise PeerError("n is not a count")
    return request


def parse_answer(data: bytes) -> Reflected:
    """Raises `PeerError`."""
    try:
        return msgspec.json.decode(data, type=Reflected)
    except (msgspec.DecodeError, msgspec.ValidationError) as error:
        raise PeerError(f"it does not answer as a reflector ({error})") from error


def reflector_url(address: str) -> str:
    """The full address of a reflector, from what people give. Raises `SetupError`."""
    wrong = SetupError(f"--reflector {address!r} is no address of a reflector", "Give it as ws://HOST:PORT")
    try:
        parts = urlsplit(address)
        fits = parts.scheme in ("ws", "wss") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        fits = False
    if not fits or parts.query or parts.fragment or "@" in parts.netloc or not address.isprintable():
        raise wrong
    return parts._replace(path=PATH if parts.path in ("", "/") else parts.path).geturl()


def _padded(head: str, tail: str, size_bytes: int) -> str:
    return f"{head}{'.' * (size_bytes - len(head) - len(tail))}{tail}"
