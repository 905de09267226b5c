"""The role that every protocol's client plays, and the options that they share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from clients.events import Interpreter, Pcm, PeerEvent
from sessions.tables import load

CLIENTS: dict[str, str] = {
    "openai-realtime": "clients.openai_realtime:OpenAIRealtime",
}
"""Protocol name → the dialect's class."""


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """turn_detection: "manual" or "server_vad" · server_vad: settings sent with the latter, milliseconds and levels ·
    transcribe: the model that is to write down what the user says, "" for none."""

    turn_detection: str = "manual"
    server_vad: Mapping[str, float] = field(default_factory=dict)
    voice: str = ""
    transcribe: str = ""
    instructions: str = ""
    api_key: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Outgoing:
    """One message to write. what: "commit", "request", "cancel", "truncate", "clear" or the message's own type."""

    what: str
    text: str


class Dialect(Protocol):
    """One connection's protocol, without I/O: what to write when, and what the answers mean."""

    protocol: str
    protocol_class: str
    rate_hz: int

    def url(self, target: str) -> str: ...

    def headers(self) -> dict[str, str]: ...

    def interpreter(self) -> Interpreter: ...

    def opening(self) -> list[Outgoing]:
        """Written as soon as the transport stands."""
        ...

    def set_up(self, event: PeerEvent) -> tuple[list[Outgoing], bool]:
        """During set-up: what to write in answer to `event`; whether the session is ready now."""
        ...

    def audio(self, pcm: Pcm) -> str: ...

    def end_of_turn(self, turn: int) -> list[Outgoing]: ...

    def clear(self, turn: int) -> list[Outgoing]:
        """Take back what was sent of the user's audio since the last end of turn. Empty where the server ends turns."""
        ...

    def cancel(self, turn: int, reply: str = "") -> list[Outgoing]:
        """Stop a reply that is not done yet. turn: the one that it answers · reply: its id; "" for the only one."""
        ...

    def truncate(self, turn: int, item: str, heard_ms: int) -> list[Outgoing]:
        """Tell the server that the user heard only so much of an item of the reply to `turn`."""
        ...


def interpreter_of(protocol: str) -> Interpreter:
    """What its client makes of a protocol's messages, of a record too. Raises `SetupError` for an unknown one."""
    dialect: Dialect = load(CLIENTS, protocol, "protocol")(SessionOptions())
    return dialect.interpreter()
