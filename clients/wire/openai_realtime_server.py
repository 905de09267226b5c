"""The server's side of the OpenAI Realtime dialect (GA): client messages in typed form, server messages as dicts.

Every field of the published client events is known here, so that only a field that the protocol does not have is called
unknown; which of the known ones a server acts on is the server's own affair. No I/O, no clock.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from clients.wire.pcm import decode_base64
from sessions.errors import PeerError

MAX_APPEND_BYTES = 15 * 1024 * 1024
"""Largest `input_audio_buffer.append` event that the protocol allows."""

_LONGEST_ERROR = 400
"""Characters of an error's message and param, which repeat what the client sent."""

_CONTAINERS = {b"RIFF": "a WAV file", b"OggS": "an Ogg file", b"fLaC": "a FLAC file", b"ID3": "an MP3 file"}


class Refusal(PeerError):
    """A client message that cannot be obeyed. param: the field at fault, as the protocol's `error.param`."""

    def __init__(self, what: str, *, code: str, param: str = "", mend: str = "") -> None:
        super().__init__(what, code=code, mend=mend)
        self.param = param


class _Fields(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of every object inside a client message."""


class AudioFormat(_Fields, frozen=True):
    type: str
    rate: int | None = None


class TurnDetectionFields(_Fields, frozen=True):
    """Fields of server_vad and semantic_vad together."""

    type: Literal["server_vad", "semantic_vad"]
    threshold: Annotated[float, Meta(ge=0, le=1)] | None = None
    prefix_padding_ms: Annotated[int, Meta(ge=0, le=10_000)] | None = None
    silence_duration_ms: Annotated[int, Meta(ge=0, le=30_000)] | None = None
    idle_timeout_ms: int | None = None
    create_response: bool | None = None
    interrupt_response: bool | None = None
    eagerness: str | None = None


class Transcription(_Fields, frozen=True):
    model: str | None = None
    language: str | None = None
    prompt: str | None = None
    languages: list[str] | None = None
    keywords: list[str] | None = None
    delay: str | None = None


class AudioInput(_Fields, frozen=True):
    format: AudioFormat | UnsetType = UNSET
    noise_reduction: dict[str, Any] | UnsetType | None = UNSET
    transcription: Transcription | UnsetType | None = UNSET
    turn_detection: TurnDetectionFields | UnsetType | None = UNSET


class AudioOutput(_Fields, frozen=True):
    format: AudioFormat | UnsetType = UNSET
    voice: str | dict[str, Any] | UnsetType = UNSET
    speed: Annotated[float, Meta(ge=0.25, le=1.5)] | UnsetType = UNSET


class AudioFields(_Fields, frozen=True):
    input: AudioInput | UnsetType = UNSET
    output: AudioOutput | UnsetType = UNSET


Modalities = Annotated[list[Literal["audio", "text"]], Meta(min_length=1, max_length=2)]
MaxTokens = Annotated[int, Meta(ge=1, le=4096)] | Literal["inf"]


class SessionFields(_Fields, frozen=True):
    """`session` of a session.update: fields that are not given stay as they are."""

    type: Literal["realtime", "transcription"]
    model: str | UnsetType = UNSET
    instructions: str | UnsetType = UNSET
    output_modalities: Modalities | UnsetType = UNSET
    max_output_tokens: MaxTokens | UnsetType | None = UNSET
    audio: AudioFields | UnsetType = UNSET
    tools: list[dict[str, Any]] | UnsetType = UNSET
    tool_choice: Any = None
    parallel_tool_calls: Any = None
    prompt: Any = None
    reasoning: Any = None
    tracing: Any = None
    include: Any = None
    truncation: Any = None


class Content(_Fields, frozen=True):
    type: str
    text: str | None = None
    audio: str | None = None
    transcript: str | None = None
    image_url: Any = None
    detail: Any = None


class NewItem(_Fields, frozen=True):
    """A conversation item as a client gives it. Fields of other kinds than messages are known but not typed."""

    type: str
    id: str | None = None
    object: str | None = None
    status: str | None = None
    role: str | None = None
    content: list[Content] | None = None
    call_id: Any = None
    name: Any = None
    arguments: Any = None
    output: Any = None


class ResponseFields(_Fields, frozen=True):
    """`response` of a response.create: overrides for this one reply."""

    conversation: str = "auto"
    input: list[NewItem] | None = None
    instructions: str | None = None
    output_modalities: Modalities | None = None
    max_output_tokens: MaxTokens | None = None
    audio: AudioFields | None = None
    metadata: dict[str, str] | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: Any = None
    parallel_tool_calls: Any = None
    prompt: Any = None
    reasoning: Any = None


class _Message(msgspec.Struct, frozen=True, tag_field="type", forbid_unknown_fields=True):
    """Base of all client messages."""

    event_id: str | None = None


class SessionUpdate(_Message, frozen=True, kw_only=True, tag="session.update"):
    session: SessionFields


class Append(_Message, frozen=True, kw_only=True, tag="input_audio_buffer.append"):
    audio: str


class Commit(_Message, frozen=True, tag="input_audio_buffer.commit"):
    pass


class Clear(_Message, frozen=True, tag="input_audio_buffer.clear"):
    pass


class ItemCreate(_Message, frozen=True, kw_only=True, tag="conversation.item.create"):
    item: NewItem
    previous_item_id: str | None = None


class ItemDelete(_Message, frozen=True, kw_only=True, tag="conversation.item.delete"):
    item_id: str


class ItemRetrieve(_Message, frozen=True, kw_only=True, tag="conversation.item.retrieve"):
    item_id: str


class ItemTruncate(_Message, frozen=True, kw_only=True, tag="conversation.item.truncate"):
    item_id: str
    content_index: Annotated[int, Meta(ge=0)]
    audio_end_ms: Annotated[int, Meta(ge=0)]


class ResponseCreate(_Message, frozen=True, tag="response.create"):
    response: ResponseFields | None = None


class ResponseCancel(_Message, frozen=True, tag="response.cancel"):
    response_id: str | None = None


class OutputClear(_Message, frozen=True, tag="output_audio_buffer.clear"):
    """Belongs to WebRTC and SIP."""


ClientMessage = (
    SessionUpdate
    | Append
    | Commit
    | Clear
    | ItemCreate
    | ItemDelete
    | ItemRetrieve
    | ItemTruncate
    | ResponseCreate
    | ResponseCancel
    | OutputClear
)

_decoder = msgspec.json.Decoder(ClientMessage)


@dataclass(frozen=True, slots=True)
class Refused:
    """A client message that could not be read, and what to answer."""

    event_id: str
    problem: Refusal


def decode_client(text: str | bytes) -> ClientMessage | Refused:
    """One client message. Never raises: what does not fit comes back as `Refused`."""
    try:
        return _decoder.decode(text)
    except msgspec.ValidationError as error:
        return Refused(_event_id(text), _explain(str(error)))
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        what = f"the message is not JSON ({_lower(str(error))})"
        return Refused(_event_id(text), Refusal(what, code="invalid_json", mend="Send one JSON object a message"))


def decode_audio(text: str, param: str = "audio") -> bytes:
    """The bytes of an append. Raises `Refusal` for what is not raw PCM in strict base64."""
    if len(text) > MAX_APPEND_BYTES:
        what = f"{len(text) / 1024**2:.1f} MiB of audio in one message; the limit is 15 MiB"
        raise Refusal(what, code="invalid_value", param=param, mend="Append it in smaller pieces")
    decoded = decode_base64(text)
    if decoded.fault or decoded.note:
        mend = "Send standard base64 with its padding (=), without line breaks"
        raise Refusal(decoded.fault or decoded.note, code="invalid_value", param=param, mend=mend)
    for magic, name in _CONTAINERS.items():
        if decoded.data.startswith(magic):
            what = f"{name} was sent as audio/pcm (it begins with {magic.decode()})"
            raise Refusal(what, code="invalid_value", param=param, mend="Send the samples alone, without any header")
    return decoded.data


def _event_id(text: str | bytes) -> str:
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        return ""
    value = message.get("event_id") if isinstance(message, dict) else None
    # Half a surrogate pair can be written in JSON, but in no message that could carry it back.
    return value if isinstance(value, str) and not re.search("[\ud800-\udfff]", value) else ""


# What a client named may hold line breaks, quotes and even this pattern: the last place is msgspec's own.
_PLACED = re.compile(r"(.*) - at `\$(.*?)`", re.DOTALL)
_FIELD = re.compile(r"Object (contains unknown|missing required) field `(.*)`", re.DOTALL)


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _explain(error: str) -> Refusal:
    """msgspec's "MESSAGE - at `$.session.audio`" in the protocol's own terms."""
    message, where = error, ""
    if (placed := _PLACED.fullmatch(error)) is not None:
        message, where = placed.groups()
    path = where.removeprefix(".")
    if (field := _FIELD.fullmatch(message)) is not None:
        param = f"{path}.{field[2]}" if path else field[2]
        if field[1] == "contains unknown":
            return Refusal(f"unknown parameter {param!r}", code="unknown_parameter", param=param, mend="Leave it out")
        what = f"missing required parameter {param!r}"
        return Refusal(what, code="missing_required_parameter", param=param, mend="Add it")
    if message.startswith("Invalid") and path == "type":
        what = f"unknown message type {message.removeprefix('Invalid value ')}"
        return Refusal(what, code="invalid_value", param="type", mend="Send a client event of the GA protocol")
    code = "invalid_type" if ", got" in message else "invalid_value"
    return Refusal(f"{path or 'the message'}: {_lower(message)}", code=code, param=path)


# ---- what the server sends ---------------------------------------------------------------------------------------
# Builders return the message without its `event_id`; `to_text` adds it.

Json = dict[str, Any]


def to_text(message: Json, event_id: str) -> str:
    """Compact JSON text of a server message."""
    return json.dumps({"event_id": event_id, **message}, separators=(",", ":"), ensure_ascii=False)


def session_event(kind: Literal["session.created", "session.updated"], session: Json) -> Json:
    return {"type": kind, "session": session}


def error(problem: PeerError, event_id: str = "", error_type: str = "invalid_request_error") -> Json:
    """event_id: of the client message at fault, where there is one."""
    return {
        "type": "error",
        "error": {
            "type": error_type,
            "code": problem.code or None,
            "message": _clipped(str(problem)),
            "param": _clipped(getattr(problem, "param", "")) or None,
            "event_id": event_id or None,
        },
    }


def _clipped(text: str) -> str:
    return text if len(text) <= _LONGEST_ERROR else f"{text[:_LONGEST_ERROR]}…"


def speech_started(item_id: str, audio_start_ms: int) -> Json:
    return {"type": "input_audio_buffer.speech_started", "audio_start_ms": audio_start_ms, "item_id": item_id}


def speech_stopped(item_id: str, audio_end_ms: int) -> Json:
    return {"type": "input_audio_buffer.speech_stopped", "audio_end_ms": audio_end_ms, "item_id": item_id}


def committed(item_id: str, previous_item_id: str | None) -> Json:
    return {"type": "input_audio_buffer.committed", "item_id": item_id, "previous_item_id": previous_item_id}


def cleared() -> Json:
    return {"type": "input_audio_buffer.cleared"}


def message_item(item_id: str, role: str, status: str, content: list[Json]) -> Json:
    """A message item. content: parts such as {"type": "output_audio", "transcript": …}."""
    kind = {"id": item_id, "object": "realtime.item", "type": "message"}
    return {**kind, "status": status, "role": role, "content": content}


def call_item(item_id: str, status: str, call_id: str, name: str, arguments: str) -> Json:
    kind = {"id": item_id, "object": "realtime.item", "type": "function_call"}
    return {**kind, "status": status, "call_id": call_id, "name": name, "arguments": arguments}


def item_event(kind: Literal["added", "done"], item: Json, previous_item_id: str | None) -> Json:
    return {"type": f"conversation.item.{kind}", "previous_item_id": previous_item_id, "item": item}


def item_retrieved(item: Json) -> Json:
    return {"type": "conversation.item.retrieved", "item": item}


def item_deleted(item_id: str) -> Json:
    return {"type": "conversation.item.deleted", "item_id": item_id}


def item_truncated(item_id: str, audio_end_ms: int) -> Json:
    kind = "conversation.item.truncated"
    return {"type": kind, "item_id": item_id, "content_index": 0, "audio_end_ms": audio_end_ms}


def user_transcript(item_id: str, transcript: str, audio_s: float) -> Json:
    return {
        "type": "conversation.item.input_audio_transcription.completed",
        "item_id": item_id,
        "content_index": 0,
        "transcript": transcript,
        "usage": {"type": "duration", "seconds": audio_s},
    }


def response_event(kind: Literal["created", "done"], response: Json) -> Json:
    return {"type": f"response.{kind}", "response": response}


@dataclass(frozen=True, slots=True)
class Place:
    """Where in a response an output event belongs."""

    response_id: str
    item_id: str
    output_index: int = 0

    def event(self, kind: str, **fields: Any) -> Json:
        """An event about this place's content part."""
        return {
            "type": kind,
            "response_id": self.response_id,
            "item_id": self.item_id,
            "output_index": self.output_index,
            "content_index": 0,
            **fields,
        }

    def item_event(self, kind: Literal["added", "done"], item: Json) -> Json:
        """`response.output_item.added` or `.done`."""
        where = {"response_id": self.response_id, "output_index": self.output_index}
        return {"type": f"response.output_item.{kind}", **where, "item": item}

    def arguments_event(self, kind: Literal["delta", "done"], **fields: Any) -> Json:
        """A function call's arguments; such an item has no content part."""
        where = {"response_id": self.response_id, "item_id": self.item_id, "output_index": self.output_index}
        return {"type": f"response.function_call_arguments.{kind}", **where, **fields}


def text_tokens(text: str) -> int:
    """About how many tokens `text` has, where its model does not say: one per four bytes of UTF-8."""
    return -(-len(text.encode()) // 4)


def usage(input_audio_ms: int, input_text: int, cached_text: int, output_audio_ms: int, output_text: int) -> Json:
    """Token counts. Text as given, in tokens; audio by the published rates: one per 100 ms of the user's audio, one
    per 50 ms of the reply's."""
    audio_in, audio_out = -(-input_audio_ms // 100), -(-output_audio_ms // 50)
    text_in, text_out = input_text, output_text
    input_details = {
        "text_tokens": text_in,
        "audio_tokens": audio_in,
        "image_tokens": 0,
        "cached_tokens": cached_text,
        "cached_tokens_details": {"text_tokens": cached_text, "audio_tokens": 0, "image_tokens": 0},
    }
    return {
        "total_tokens": audio_in + text_in + audio_out + text_out,
        "input_tokens": audio_in + text_in,
        "output_tokens": audio_out + text_out,
        "input_token_details": input_details,
        "output_token_details": {"text_tokens": text_out, "audio_tokens": audio_out},
    }
