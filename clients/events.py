"""What a peer's messages mean, whatever the protocol. Each client turns its wire into these."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Pcm = NDArray[np.int16]


@dataclass(frozen=True, slots=True)
class SessionOpened:
    """The server greeted; the session is not set up yet."""


@dataclass(frozen=True, slots=True)
class SessionAccepted:
    """The server took over our session settings."""


@dataclass(frozen=True, slots=True)
class ReplyBegan:
    reply: str


@dataclass(frozen=True, slots=True)
class ReplyAudio:
    """pcm: int16 (samples,), the whole samples that this message completed (maybe none) · item: for truncation."""

    reply: str
    item: str
    pcm: Pcm


@dataclass(frozen=True, slots=True)
class ReplyFormat:
    """A header in the reply's audio says another format than the session's. The samples are as they came."""

    reply: str
    rate_hz: int
    channels: int
    bits: int


@dataclass(frozen=True, slots=True)
class ReplyText:
    reply: str
    text: str


@dataclass(frozen=True, slots=True)
class ReplyEnded:
    """status: completed | cancelled | failed | incomplete · text: words that only the end brought."""

    reply: str
    status: str
    reason: str = ""
    error_code: str = ""
    message: str = ""
    has_tool_call: bool = False
    text: str = ""


@dataclass(frozen=True, slots=True)
class UserSpeech:
    """The server's own view of the user's turn. what: "started", "stopped" or "committed"."""

    what: str


@dataclass(frozen=True, slots=True)
class UserText:
    """What the server understood."""

    text: str


@dataclass(frozen=True, slots=True)
class Fault:
    """The peer broke its protocol or complained. answers: which of our messages it answers ("" if unknown)."""

    kind: str
    detail: str
    code: str = ""
    answers: str = ""


PeerEvent = (
    SessionOpened
    | SessionAccepted
    | ReplyBegan
    | ReplyAudio
    | ReplyFormat
    | ReplyText
    | ReplyEnded
    | UserSpeech
    | UserText
    | Fault
)


class Interpreter(Protocol):
    """Turns inbound messages, in order, into events. Pure: the same bytes give the same events, live or from disk."""

    def feed(self, data: bytes) -> list[PeerEvent]: ...

    def more_audio(self, data: bytes) -> tuple[str, int] | None:
        """A message that by a glance at its bytes is only more audio of a reply whose audio was fed before: the reply
        and the samples that it brings, counted from its length. It needs no `feed`. None: feed it.

        For the live client, which must know how much there is to hear; what is wrong inside shows when it is fed.
        """
        ...
