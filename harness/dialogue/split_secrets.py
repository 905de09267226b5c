"""A secret that a server says in pieces: no message holds it, the reply's joined text would."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from sessions.secrets import Secrets


@dataclass(frozen=True, slots=True)
class _Piece:
    text: str
    message: int


@dataclass(slots=True)
class TextGuard:
    """Watches each reply's text as it comes, and blanks in `messages` the pieces that together say a secret."""

    secrets: Secrets
    messages: list[bytes]
    _recent: dict[str, list[_Piece]] = field(default_factory=dict)

    def heard(self, reply: str, text: str) -> None:
        """`text` came in the last of `messages`."""
        pieces = self._recent.setdefault(reply, [])
        pieces.append(_Piece(text, len(self.messages) - 1))
        if self.secrets.within("".join(piece.text for piece in pieces)):
            for piece in pieces:
                self._blank(piece)
            pieces.clear()
            return
        while len(pieces) > 1 and sum(len(piece.text) for piece in pieces[1:]) >= self.secrets.longest:
            del pieces[0]

    def _blank(self, piece: _Piece) -> None:
        """Stars for the piece's text. The message keeps its length: JSON may end in spaces."""
        data = self.messages[piece.message]
        message = _starred(json.loads(data), piece.text)
        raw = json.dumps(message, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "replace")
        if len(raw) > len(data):
            raw = b"{}"
        self.messages[piece.message] = raw.ljust(len(data))


def _starred(value: Any, text: str) -> Any:
    if isinstance(value, dict):
        return {name: _starred(inner, text) for name, inner in value.items()}
    if isinstance(value, list):
        return [_starred(inner, text) for inner in value]
    return "*" * len(text) if value == text else value
