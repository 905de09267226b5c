"""What a replaying server must know of a protocol: how to read its clients, and how to complain to them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Pcm = NDArray[np.int16]


@dataclass(frozen=True, slots=True)
class ClientAudio:
    """Audio of the user. pcm: int16 (samples,) at the wire's rate."""

    pcm: Pcm


@dataclass(frozen=True, slots=True)
class ClientMessage:
    """Any other message.

    what: its name in an event log (`Sent.what`) · id: that a complaint about it names, "" for none · protocol_class:
    that it asks for, "" where it does not say.
    """

    what: str
    id: str = ""
    protocol_class: str = ""


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A message that is none of the protocol's. problem: as the complaint about it says."""

    problem: str
    id: str = ""


Heard = ClientAudio | ClientMessage | Unreadable


class ClientReader(Protocol):
    """One connection's client, in one protocol. No I/O."""

    path: str
    """Where clients of the protocol connect."""

    def read(self, data: str | bytes) -> Heard:
        """One message. Never raises."""
        ...

    def complaint(self, problem: str, message_id: str) -> str:
        """An error message of the protocol. message_id: of the client's message at fault, "" for none."""
        ...


READERS: dict[str, str] = {
    "openai-realtime": "servers.replay.openai_realtime:OpenAIRealtimeReader",
}
"""Protocol name → the reader of its clients."""
