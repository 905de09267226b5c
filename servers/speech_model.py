"""What stands behind a front: one speech model per connection.

A front tells the model what it hears, asks it to reply to a finished user turn, and reports how much of the last reply
was really heard when the user cut it short. The model yields pieces; a front sends each `Audio` piece as one packet,
never re-cut and never delayed, so a model alone decides packet sizes and instants.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Pcm = NDArray[np.int16]


@dataclass(frozen=True, slots=True)
class Audio:
    """One packet of reply audio. pcm: int16 (samples,) mono at the model's `rate_hz`."""

    pcm: Pcm


@dataclass(frozen=True, slots=True)
class RawAudio:
    """One packet of reply audio as bytes (int16 little-endian), which may be cut in the middle of a sample."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Text:
    """Words; pieces are joined as they are.

    of: "reply" (what the assistant says), "user" (what was understood of the user's turn) or "written" (words of the
    reply that are not spoken).
    """

    text: str
    of: str = "reply"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The reply asks for a function. arguments: JSON text."""

    name: str
    arguments: str = "{}"


@dataclass(frozen=True, slots=True)
class Stage:
    """An internal instant worth keeping (`asr_done`, `llm_first_token` …), on the server's monotonic clock."""

    name: str
    t_ns: int


@dataclass(frozen=True, slots=True)
class Usage:
    """What the reply cost in the model's own text tokens; of several, the last counts.

    input_tokens: the whole prompt, of which cached_tokens were not computed again · output_tokens: of the reply.
    """

    input_tokens: int
    cached_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Fault:
    """The reply goes wrong here.

    kind: what the front must do.
      "error"       end the reply as failed, with `code` and `message` in the protocol's form
      "incomplete"  end it as incomplete, `code` is the reason (max_output_tokens, content_filter)
      "cancelled"   end it as cancelled, `code` is the reason (turn_detected, client_cancelled)
      "close"       close the connection with the WebSocket code in `value` (default 1011)
      "reset"       abort the TCP connection
      "silent"      send nothing more and leave the reply open
      "raw"         send `message` as one text message, untouched
      "bad_audio"   send `message`, untouched, where the text of an audio packet belongs
      "late_audio"  end the reply as completed; the pieces that follow are still sent
    """

    kind: str
    message: str = ""
    code: str = ""
    value: int = 0


Piece = Audio | RawAudio | Text | ToolCall | Stage | Usage | Fault


@dataclass(frozen=True, slots=True)
class UserTurn:
    """One finished user turn, as the front cut it out of the input stream.

    pcm: int16 (samples,) mono at the model's `rate_hz`, prefix padding included; empty if the turn was text only
    ended_ns: when the server knew that the turn was over (arrival of the request, or the VAD's decision)
    index: 0 for the connection's first reply
    text: typed user text instead of audio, if any
    instructions: overrides the session's for this reply, if given
    text_only: the client wants no audio
    """

    pcm: Pcm
    ended_ns: int
    index: int
    text: str = ""
    instructions: str | None = None
    text_only: bool = False


@dataclass(slots=True)
class SessionSettings:
    """What a client may set on a connection, whatever the protocol. Unknown voices are the model's to refuse."""

    instructions: str = ""
    voice: str = ""
    text_only: bool = False
    max_output_tokens: int | None = None
    extra: dict[str, Any] = field(default_factory=dict)


class VoiceDetector(Protocol):
    """Finds speech in a stream. One object per connection; state is its own."""

    frame_samples: int
    rate_hz: int

    def probability(self, frame: Pcm) -> float:
        """How likely `frame` (int16, exactly `frame_samples` at `rate_hz`) is speech, 0 to 1."""
        ...

    def reset(self) -> None: ...


class SpeechModel(Protocol):
    """One conversation. The front calls these from its event loop; nothing here may block it."""

    rate_hz: int

    def configure(self, settings: SessionSettings) -> None:
        """Take over new session settings. Raises `PeerError` (code, message) for what it cannot do."""
        ...

    def hear(self, pcm: Pcm, t_ns: int) -> None:
        """Audio that arrived at `t_ns`, in order, speech or not. int16 (samples,) mono at `rate_hz`."""
        ...

    def reply(self, turn: UserTurn) -> AsyncGenerator[Piece, None]:
        """Answer `turn`. Closing the generator (`aclose`) cancels the work at once."""
        ...

    def heard(self, ms: int) -> None:
        """The user heard only the first `ms` milliseconds of the last reply: forget the rest."""
        ...

    async def aclose(self) -> None: ...


class SpeechModelServer(Protocol):
    """Opens one `SpeechModel` per connection over shared weights."""

    name: str
    voices: tuple[str, ...]

    async def start(self) -> None:
        """Load and warm up once, before the first connection."""
        ...

    def open(self) -> SpeechModel: ...

    def voice_detector(self) -> VoiceDetector: ...

    async def aclose(self) -> None: ...


@runtime_checkable
class Remembering(Protocol):
    """A `SpeechModel` that can be told what was said before, for clients that seed or edit a conversation."""

    def remember(self, role: str, text: str) -> None:
        """Add a finished line of the conversation without answering it. role: "user", "assistant" or "system"."""
        ...


@runtime_checkable
class Noticing(Protocol):
    """A `SpeechModel` that decides itself which of the user's sounds its front takes notice of, and when."""

    async def notice(self) -> bool:
        """Called for each sound when turn detection has found its beginning: return when the front may act on it.

        False: it never does, neither on its beginning nor on its end.
        """
        ...


@runtime_checkable
class Prompting(Protocol):
    """A `SpeechModel` that may speak without being asked."""

    async def wants_to_speak(self) -> bool:
        """Return when it does. False: it never will again."""
        ...


@dataclass(frozen=True, slots=True)
class ConnectionFaults:
    """How a server misbehaves towards every connection, for tests of clients.

    refuse_status: answer the upgrade with this HTTP status and `refuse_body` · greeting_delay_ms: before the first
    message · first_messages: text messages sent before the protocol's own greeting · greets: False leaves the greeting
    out · ignores_settings: never answer the client's session settings · ping_interval_ms: send `ping_message` as a text
    message this often, 0 for never.
    """

    refuse_status: int = 0
    refuse_body: str = ""
    greeting_delay_ms: int = 0
    first_messages: tuple[str, ...] = ()
    greets: bool = True
    ignores_settings: bool = False
    ping_interval_ms: int = 0
    ping_message: str = ""


@runtime_checkable
class Misbehaving(Protocol):
    """A `SpeechModelServer` that wants its fronts to misbehave."""

    @property
    def connection_faults(self) -> ConnectionFaults: ...
