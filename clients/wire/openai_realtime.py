"""The OpenAI Realtime dialect (GA): server messages in typed form, and the client's messages as text.

Source of the names: the published GA event reference and the `openai` package's event types. The beta spellings of the
same events are accepted on receipt. What the server side sends is in `openai_realtime_server.py`.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

import msgspec

from clients.wire.pcm import Decoded, Pcm, decode_base64, encode_base64

PCM_RATE_HZ = 24_000
"""The only PCM rate of the dialect."""


@dataclass(frozen=True, slots=True)
class SessionCreated:
    session: dict[str, Any]


@dataclass(frozen=True, slots=True)
class SessionUpdated:
    session: dict[str, Any]


@dataclass(frozen=True, slots=True)
class SpeechStarted:
    """audio_start_ms: on the session's audio-buffer clock, prefix padding included."""

    audio_start_ms: int | None
    item_id: str


@dataclass(frozen=True, slots=True)
class SpeechStopped:
    audio_end_ms: int | None
    item_id: str


@dataclass(frozen=True, slots=True)
class Committed:
    item_id: str


@dataclass(frozen=True, slots=True)
class ResponseCreated:
    response_id: str


@dataclass(frozen=True, slots=True)
class AudioDelta:
    """audio: the decoded piece; its bytes may end on half a sample."""

    response_id: str
    item_id: str
    audio: Decoded


@dataclass(frozen=True, slots=True)
class TranscriptDelta:
    response_id: str
    text: str


@dataclass(frozen=True, slots=True)
class TextDelta:
    response_id: str
    text: str


@dataclass(frozen=True, slots=True)
class UserTranscript:
    item_id: str
    text: str


@dataclass(frozen=True, slots=True)
class ToolCall:
    response_id: str


@dataclass(frozen=True, slots=True)
class ResponseDone:
    """status: completed | cancelled | failed | incomplete · error_*: from status_details.error."""

    response_id: str
    status: str
    reason: str = ""
    error_code: str = ""
    error_message: str = ""
    has_tool_call: bool = False
    text: str = ""
    """Words that stand in the output items, for servers that send no deltas."""
    usage: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ErrorEvent:
    """event_id: of the client message that it answers, where the server says so."""

    code: str
    message: str
    error_type: str
    event_id: str


@dataclass(frozen=True, slots=True)
class OtherEvent:
    """A message of the dialect that carries nothing that we measure."""

    type: str


@dataclass(frozen=True, slots=True)
class Malformed:
    """Not this dialect: not JSON, no type, a field of the wrong kind."""

    problem: str


ServerEvent = (
    SessionCreated
    | SessionUpdated
    | SpeechStarted
    | SpeechStopped
    | Committed
    | ResponseCreated
    | AudioDelta
    | TranscriptDelta
    | TextDelta
    | UserTranscript
    | ToolCall
    | ResponseDone
    | ErrorEvent
    | OtherEvent
    | Malformed
)

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
"""JSON may escape half a character (a cut emoji); no file or terminal takes it."""
_quick = msgspec.json.Decoder()
_AUDIO_DELTA = ("response.output_audio.delta", "response.audio.delta")
_TRANSCRIPT_DELTA = ("response.output_audio_transcript.delta", "response.audio_transcript.delta")
_EQUALS, _BACKSLASH = b"=\\"
_RIF = b"UklG"
"""The first three letters of RIFF in base64. Of fewer bytes the first character is the same."""
_TEXT_DELTA = ("response.output_text.delta", "response.text.delta")


@dataclass(frozen=True, slots=True)
class AudioShape:
    """What the audio deltas of one reply have in common, byte for byte: all but the event's id and the audio.

    before: up to the id · between: from the id to the audio, empty where there is no id · after: behind the audio.
    """

    before: bytes
    between: bytes
    after: bytes

    @classmethod
    def of(cls, data: bytes) -> AudioShape | None:
        """Learnt from one audio delta; None where it cannot be told apart into these."""
        message = _load(data)
        name, audio = (json.dumps(_text(message, field)).encode() for field in ("event_id", "delta"))
        if data.count(audio) != 1:
            return None
        at = data.index(audio) + 1
        head, after = data[:at], data[at + len(audio) - 2 :]
        if "event_id" not in message:
            return cls(head, b"", after)
        if head.count(name) != 1:
            return None
        at = head.index(name) + 1
        return cls(head[:at], head[at + len(name) - 2 :], after)

    def audio_bytes(self, data: bytes) -> int | None:
        """The bytes of audio that a delta's length stands for. None: another shape, or only a full look can tell."""
        start, end = len(self.before), len(data) - len(self.after)
        if not data.startswith(self.before) or not data.endswith(self.after):
            return None
        if self.between:
            start = data.find(b'"', start)
            if not data.startswith(self.between, start):
                return None
            start += len(self.between)
        if start >= end or (end - start) & 3 or _BACKSLASH in data or data.find(b'"', start, end) >= 0:
            return None
        if data.startswith(_RIF, start) or (end - start == 4 and data[start] == _RIF[0]):  # it may begin a WAV header
            return None
        padding = 2 if data[end - 2] == _EQUALS else data[end - 1] == _EQUALS
        return (end - start) // 4 * 3 - padding


def decode_server(data: bytes) -> ServerEvent:
    """One server message. Never raises: what does not fit comes back as `Malformed`."""
    try:
        message = _load(data)
    except (ValueError, RecursionError):  # a nest of a hundred thousand brackets is no message either
        return Malformed(f"not JSON ({len(data)} bytes beginning {data[:24]!r})")
    if not isinstance(message, dict) or not isinstance(message.get("type"), str):
        return Malformed("a JSON message without a `type`")
    try:
        return _decode(message, message["type"])
    except (KeyError, TypeError, AttributeError) as error:
        return Malformed(f"{message['type']}: field {error} missing or of the wrong kind")


def _load(data: bytes) -> Any:
    """The quick parser first; what it does not take (half characters, odd encodings) goes to the tolerant one."""
    try:
        return _quick.decode(data)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return json.loads(data)


def _decode(message: dict[str, Any], kind: str) -> ServerEvent:
    if kind in _AUDIO_DELTA:
        return AudioDelta(_text(message, "response_id"), _text(message, "item_id"), decode_base64(message["delta"]))
    if kind in _TRANSCRIPT_DELTA:
        return TranscriptDelta(_text(message, "response_id"), _required_text(message, "delta"))
    if kind in _TEXT_DELTA:
        return TextDelta(_text(message, "response_id"), _required_text(message, "delta"))
    if kind.startswith("response."):
        return _decode_response(message, kind)
    if kind.startswith("session."):
        return _decode_session(message, kind)
    if kind == "input_audio_buffer.speech_started":
        return SpeechStarted(message.get("audio_start_ms"), _text(message, "item_id"))
    if kind == "input_audio_buffer.speech_stopped":
        return SpeechStopped(message.get("audio_end_ms"), _text(message, "item_id"))
    if kind == "input_audio_buffer.committed":
        return Committed(_text(message, "item_id"))
    if kind == "conversation.item.input_audio_transcription.completed":
        return UserTranscript(_text(message, "item_id"), _required_text(message, "transcript"))
    if kind == "error":
        error = message["error"]
        if isinstance(error, str):  # some clones send a bare string
            return ErrorEvent(_text(message, "code"), error, "", "")
        return ErrorEvent(_text(error, "code"), _text(error, "message"), _text(error, "type"), _text(error, "event_id"))
    return OtherEvent(kind)


def _decode_session(message: dict[str, Any], kind: str) -> ServerEvent:
    if kind in ("session.created", "session.updated"):
        session = message["session"]
        if not isinstance(session, dict):
            raise TypeError("session")
        return SessionCreated(session) if kind == "session.created" else SessionUpdated(session)
    return OtherEvent(kind)


def _decode_response(message: dict[str, Any], kind: str) -> ServerEvent:
    if kind == "response.created":
        return ResponseCreated(_text(message["response"], "id"))
    if kind == "response.function_call_arguments.done":
        return ToolCall(_text(message, "response_id"))
    if kind != "response.done":
        return OtherEvent(kind)
    response = message["response"]
    details = response.get("status_details") or {}
    error = details.get("error") or {}
    output = response.get("output") or []
    return ResponseDone(
        response_id=_text(response, "id"),
        status=_text(response, "status") or "completed",
        reason=_text(details, "reason"),
        error_code=_text(error, "code") or _text(error, "type"),
        error_message=_text(error, "message"),
        has_tool_call=any(item.get("type") in ("function_call", "mcp_call") for item in output),
        text="".join(_words(item) for item in output),
        usage=response.get("usage") or {},
    )


def _words(item: dict[str, Any]) -> str:
    parts = item.get("content") or []
    return "".join(_text(part, "transcript") or _text(part, "text") for part in parts)


def _text(message: dict[str, Any], name: str) -> str:
    value = message.get(name)
    if isinstance(value, str) and value.isascii():
        return value
    return _LONE_SURROGATE.sub("\ufffd", value) if isinstance(value, str) else ""


def _required_text(message: dict[str, Any], name: str) -> str:
    if not isinstance(message[name], str):
        raise TypeError(name)
    return _text(message, name)


# ---- what the client sends ---------------------------------------------------------------------------------------


def encode(kind: str, **fields: Any) -> str:
    """One client or server message as compact JSON text."""
    return json.dumps({"type": kind, **fields}, separators=(",", ":"), ensure_ascii=False)


def session_update(
    *, event_id: str, server_vad: dict[str, Any] | None, voice: str, instructions: str, transcribe_model: str = ""
) -> str:
    """The session that a measurement wants: PCM16 at 24 kHz both ways, audio replies, the given turn detection.

    server_vad: None for manual turns, else the settings beside `"type": "server_vad"` (may be empty).
    """
    pcm = {"type": "audio/pcm", "rate": PCM_RATE_HZ}
    turn_detection = None if server_vad is None else {"type": "server_vad", **server_vad}
    audio_in: dict[str, Any] = {"format": pcm, "turn_detection": turn_detection}
    if transcribe_model:
        audio_in["transcription"] = {"model": transcribe_model}
    audio_out: dict[str, Any] = {"format": pcm}
    if voice:
        audio_out["voice"] = voice
    session: dict[str, Any] = {
        "type": "realtime",
        "output_modalities": ["audio"],
        "audio": {"input": audio_in, "output": audio_out},
    }
    if instructions:
        session["instructions"] = instructions
    return encode("session.update", event_id=event_id, session=session)


def append(pcm: Pcm) -> str:
    """One frame of user audio, int16 (samples,) at 24 kHz."""
    return f'{{"type":"input_audio_buffer.append","audio":"{encode_base64(pcm)}"}}'


def commit(event_id: str) -> str:
    return encode("input_audio_buffer.commit", event_id=event_id)


def create_response(event_id: str) -> str:
    return encode("response.create", event_id=event_id)


def clear(event_id: str) -> str:
    """Take back what was appended since the last commit."""
    return encode("input_audio_buffer.clear", event_id=event_id)


def cancel_response(event_id: str, response_id: str = "") -> str:
    """response_id: "" for the response that is under way."""
    which = {"response_id": response_id} if response_id else {}
    return encode("response.cancel", event_id=event_id, **which)


def truncate(event_id: str, item_id: str, audio_end_ms: int) -> str:
    """Tell the server that the user heard `audio_end_ms` of this item."""
    return encode(
        "conversation.item.truncate", event_id=event_id, item_id=item_id, content_index=0, audio_end_ms=audio_end_ms
    )
