"""Secrets of a run: known once, masked everywhere that leaves the process."""

from __future__ import annotations

import base64
import contextlib
import json
import re
from urllib.parse import quote, quote_plus, unquote, unquote_plus, urlsplit, urlunsplit

_PLAIN_QUERY_NAMES = frozenset({"model", "intent", "language", "duplex", "api-version", "deployment", "voice"})
_MASK = "*"
MIN_SECRET_LENGTH = 4
"""Shorter header values ("1", "v2") would mask half of every text; they are dropped from records instead."""
_CERTAIN_LENGTH = 16
"""From here on a value is a secret wherever it stands. A shorter one ("true", "audio") may be the protocol's word."""


class Secrets:
    """Masks known values in text and bytes, also escaped as JSON or URLs write them. Bytes keep their length, so that
    offsets stay true."""

    def __init__(self) -> None:
        self._added: list[str] = []
        self._values: list[str] = []
        self._raw: list[bytes] = []
        self._escaped: re.Pattern[bytes] | None = None

    def add(self, value: str) -> None:
        """Remember a secret; a `Bearer x` value also hides its bare token."""
        if value not in self._added:
            self._added.append(value)
        for part in (value, value.partition(" ")[2].strip()):
            if len(part) >= MIN_SECRET_LENGTH:
                self._values += [form for form in _forms(part) if form not in self._values]
        self._values.sort(key=len, reverse=True)
        self._raw = [value.encode("utf-8", "surrogatepass") for value in self._values]
        patterns = b"|".join(b"".join(map(_however_escaped, value)) for value in self._values)
        self._escaped = re.compile(patterns) if patterns else None

    def mask(self, text: str) -> str:
        for value in self._values:
            text = text.replace(value, "***")
        return text

    def mask_bytes(self, data: bytes) -> bytes:
        """Mask a message. A short value is masked where it is a whole word of the content, never as a field's name, a
        message's type or a literal: the message must still say what it said."""
        for raw in self._raw:
            if raw not in data:
                continue
            stars = _MASK.encode() * len(raw)
            data = data.replace(raw, stars) if len(raw) >= _CERTAIN_LENGTH else _word(raw).sub(stars, data)
        if self._escaped is not None and b"\\" in data:
            data = self._escaped.sub(_starred, data)
        return data

    def within(self, text: str) -> bool:
        """Whether a text holds a value that is certainly a secret."""
        return any(value in text for value in self._values if len(value) >= _CERTAIN_LENGTH)

    @property
    def known(self) -> tuple[str, ...]:
        """What was added, for another process that must mask the same: through a pipe, never through a file."""
        return tuple(self._added)

    @property
    def longest(self) -> int:
        """Characters of the longest value, 0 without any."""
        return len(self._values[0]) if self._values else 0

    def mask_url(self, url: str) -> str:
        """The address as it may be written down: no user info, query values hidden unless known to be harmless.

        What is hidden becomes a secret.
        """
        parts = urlsplit(url)
        netloc = parts.netloc
        if "@" in netloc:
            info, _, netloc = netloc.rpartition("@")
            self.add(info)
            for piece in info.split(":"):
                self.add(piece)
                self.add(unquote(piece))
            self.add(base64.b64encode(unquote(info).encode()).decode())  # as the Basic header carries it
        pieces = []
        for piece in filter(None, parts.query.split("&")):  # what is shown stays as it was written, to be dialled again
            name, named, value = piece.rpartition("=") if "=" not in piece else piece.partition("=")
            if unquote_plus(name) not in _PLAIN_QUERY_NAMES:
                self.add(value)
                self.add(unquote_plus(value))
                piece = f"{name}{named}***"
            pieces.append(piece)
        return self.mask(urlunsplit((parts.scheme, netloc, parts.path, "&".join(pieces), "")))


def _forms(value: str) -> list[str]:
    """The value, and how it looks inside a JSON string (with and without escaped slashes) and in an address."""
    escaped = json.dumps(value)[1:-1]
    unicode_too = json.dumps(value, ensure_ascii=False)[1:-1]
    forms = [value, escaped, unicode_too, escaped.replace("/", "\\/"), unicode_too.replace("/", "\\/")]
    with contextlib.suppress(UnicodeEncodeError):
        forms += [quote(value, safe=""), quote_plus(value)]
    return list(dict.fromkeys(forms))


def _word(raw: bytes) -> re.Pattern[bytes]:
    literal = raw in (b"true", b"false", b"null")
    around = rb"[\w.+/*=-]"
    before = rb'(?<=")' if literal else rb"(?<!%s)" % around
    return re.compile(rb'(?<!"type":")(?<!"type": ")%s%s(?!%s)(?!"\s*:)' % (before, re.escape(raw), around))


def _however_escaped(character: str) -> bytes:
    """One character in a JSON string: itself, behind a backslash, or as \\uXXXX."""
    raw = character.encode("utf-8", "surrogatepass")
    units = character.encode("utf-16-be", "surrogatepass")
    by_number = b"".join(rb"\\u(?i:%02x%02x)" % (high, low) for high, low in zip(units[::2], units[1::2], strict=True))
    return rb"(?:\\?%s|%s)" % (re.escape(raw), by_number)


def _starred(found: re.Match[bytes]) -> bytes:
    """What was written plainly has been judged before; here only what an escape had hidden."""
    return _MASK.encode() * len(found[0]) if b"\\" in found[0] else found[0]
