"""Secrets of a run: known once, masked everywhere that leaves the process."""

from __future__ import annotations

from urllib.parse import parse_qsl, urlsplit, urlunsplit

_PLAIN_QUERY_NAMES = frozenset({"model", "intent", "language", "duplex", "api-version", "deployment", "voice"})
_MASK = "*"
MIN_SECRET_LENGTH = 4
"""Shorter header values ("1", "v2") would mask half of every text; they are dropped from records instead."""


class Secrets:
    """Masks known values in text and bytes. Bytes keep their length, so that offsets stay true."""

    def __init__(self) -> None:
        self._values: list[str] = []

    def add(self, value: str) -> None:
        """Remember a secret; a `Bearer x` value also hides its bare token."""
        for part in (value, value.partition(" ")[2].strip()):
            if len(part) >= MIN_SECRET_LENGTH and part not in self._values:
                self._values.append(part)
        self._values.sort(key=len, reverse=True)

    def mask(self, text: str) -> str:
        for value in self._values:
            text = text.replace(value, "***")
        return text

    def mask_bytes(self, data: bytes) -> bytes:
        for value in self._values:
            raw = value.encode()
            if raw in data:
                data = data.replace(raw, _MASK.encode() * len(raw))
        return data

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
        pairs = []
        for name, value in parse_qsl(parts.query, keep_blank_values=True):
            if name not in _PLAIN_QUERY_NAMES:
                self.add(value)
                value = "***"
            pairs.append(f"{name}={value}")
        return self.mask(urlunsplit((parts.scheme, netloc, parts.path, "&".join(pairs), "")))
