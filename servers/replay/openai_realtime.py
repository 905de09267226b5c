"""Clients of OpenAI Realtime (GA), as a replaying server reads them."""

from __future__ import annotations

from msgspec import UNSET

from clients.wire import openai_realtime_server as wire
from clients.wire.openai_realtime_server import ClientMessage as WireMessage
from clients.wire.pcm import PcmJoiner
from servers.replay.client import ClientAudio, ClientMessage, Heard, Unreadable
from sessions.errors import PeerError

_NAMES: dict[type, str] = {
    wire.Commit: "commit",
    wire.ResponseCreate: "request",
    wire.ResponseCancel: "cancel",
    wire.ItemTruncate: "truncate",
    wire.Clear: "clear",
}
"""As our client's log calls them; others go by the protocol's own name."""


class OpenAIRealtimeReader:
    path = "/v1/realtime"

    def __init__(self) -> None:
        self._joiner = PcmJoiner()
        self._complaints = 0

    def read(self, data: str | bytes) -> Heard:
        message = wire.decode_client(data)
        if isinstance(message, wire.Refused):
            return Unreadable(str(message.problem), message.event_id)
        message_id = message.event_id or ""
        if not isinstance(message, wire.Append):
            name = _NAMES.get(type(message)) or type(message).__struct_config__.tag
            return ClientMessage(str(name), message_id, _class_of(message))
        try:
            return ClientAudio(self._joiner.feed(wire.decode_audio(message.audio)))
        except PeerError as refusal:
            return Unreadable(str(refusal), message_id)

    def complaint(self, problem: str, message_id: str) -> str:
        self._complaints += 1
        refused = PeerError(problem, code="replay")
        return wire.to_text(wire.error(refused, message_id), f"event_replay_{self._complaints}")


def _class_of(message: WireMessage) -> str:
    """Whether a session.update asks for manual turns (A) or server VAD (B)."""
    if not isinstance(message, wire.SessionUpdate):
        return ""
    audio = message.session.audio
    given = audio.input.turn_detection if audio is not UNSET and audio.input is not UNSET else UNSET
    if given is UNSET:
        return ""
    return "A" if given is None else "B"
