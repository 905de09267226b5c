"""OpenAI Realtime (GA) as a client speaks it: what to write, and what the answers mean. No I/O."""

from __future__ import annotations

from urllib.parse import urlsplit, urlunsplit

from clients.dialect import Outgoing, SessionOptions
from clients.events import (
    Fault,
    Pcm,
    PeerEvent,
    ReplyAudio,
    ReplyBegan,
    ReplyEnded,
    ReplyFormat,
    ReplyText,
    SessionAccepted,
    SessionOpened,
    UserSpeech,
    UserText,
)
from clients.reply_audio import Piece, ReplyPcm
from clients.wire import openai_realtime as wire
from sessions.errors import PeerError

DEFAULT_PATH = "/v1/realtime"
_SAID_AT_MOST = 500
_LEARNT_BYTES = 65536


class OpenAIRealtime:
    """One connection's dialect."""

    protocol = "openai-realtime"
    rate_hz = wire.PCM_RATE_HZ

    def __init__(self, options: SessionOptions) -> None:
        self._options = options
        self.protocol_class = "A" if options.turn_detection == "manual" else "B"
        self._greeted = False

    @staticmethod
    def url(target: str) -> str:
        """The address to dial: a target without a path gets the protocol's usual one."""
        parts = urlsplit(target)
        return urlunsplit(parts._replace(path=DEFAULT_PATH)) if parts.path in ("", "/") else target

    def headers(self) -> dict[str, str]:
        key = self._options.api_key
        return {"Authorization": f"Bearer {key}"} if key else {}

    def interpreter(self) -> OpenAIRealtimeInterpreter:
        return OpenAIRealtimeInterpreter()

    def opening(self) -> list[Outgoing]:
        """Nothing: the server speaks first."""
        return []

    def set_up(self, event: PeerEvent) -> tuple[list[Outgoing], bool]:
        """What to write in answer to `event`, and whether the session is ready.

        Raises `PeerError` when the server refuses the session or speaks another dialect.
        """
        if isinstance(event, SessionOpened):
            self._greeted = True
            return [Outgoing("session.update", self._session_update())], False
        if isinstance(event, Fault):
            raise self._refusal(event)
        return [], isinstance(event, SessionAccepted)

    def _session_update(self) -> str:
        options = self._options
        return wire.session_update(
            event_id="session",
            server_vad=None if options.turn_detection == "manual" else dict(options.server_vad),
            voice=options.voice,
            transcribe_model=options.transcribe,
            instructions=options.instructions,
        )

    def _refusal(self, fault: Fault) -> PeerError:
        if fault.kind == "malformed":
            return PeerError(
                f"the server does not speak {self.protocol}: {fault.detail}",
                mend="Check the address and its path, or the --protocol",
            )
        said = fault.detail[:_SAID_AT_MOST].rstrip(".") + (f" [{fault.code}]" if fault.code else "")
        if not self._greeted:  # before any of our messages: no setting of ours can be the reason
            return PeerError(
                f"the server refused the connection: {said}",
                code=fault.code,
                mend="Wait for a free place, use fewer sessions, or check the account's rights",
            )
        return PeerError(
            f"the server refused the session: {said}",
            message_type="session.update",
            code=fault.code,
            mend="Change --voice, --vad or --turn-detection, or the account's rights",
        )

    def audio(self, pcm: Pcm) -> str:
        return wire.append(pcm)

    def end_of_turn(self, turn: int) -> list[Outgoing]:
        """Manual turns: commit and ask for the reply, back to back. With server VAD: nothing."""
        if self.protocol_class != "A":
            return []
        return [
            Outgoing("commit", wire.commit(f"commit-{turn}")),
            Outgoing("request", wire.create_response(f"request-{turn}")),
        ]

    def clear(self, turn: int) -> list[Outgoing]:
        if self.protocol_class != "A":
            return []
        return [Outgoing("clear", wire.clear(f"clear-{turn}"))]

    def cancel(self, turn: int, reply: str = "") -> list[Outgoing]:
        return [Outgoing("cancel", wire.cancel_response(f"cancel-{turn}", reply))]

    def truncate(self, turn: int, item: str, heard_ms: int) -> list[Outgoing]:
        return [Outgoing("truncate", wire.truncate(f"truncate-{turn}", item, heard_ms))]


class OpenAIRealtimeInterpreter:
    """Server messages in, events out; keeps what of each reply's audio is not a whole sample yet."""

    def __init__(self) -> None:
        self._audios: dict[str, ReplyPcm] = {}
        self._known: set[str] = set()
        self._ended: set[str] = set()
        self._fed: tuple[bytes, str] | None = None
        """The last audio that was fed, and its reply: what more of it looks like is yet to be learnt."""
        self._shape: wire.AudioShape | None = None
        self._speaking = ""

    def feed(self, data: bytes) -> list[PeerEvent]:
        event = wire.decode_server(data)
        match event:
            case wire.AudioDelta():
                if len(data) <= _LEARNT_BYTES:
                    self._fed = data, event.response_id
                return self._audio(event)
            case wire.ResponseDone():
                return self._done(event)
            case wire.ResponseCreated(reply):
                return self._began(reply)
            case wire.TranscriptDelta(reply, text) | wire.TextDelta(reply, text):
                return [*self._began(reply), ReplyText(reply, text)]
            case wire.ToolCall(reply):
                return self._began(reply)
            case wire.Malformed(problem):
                return [Fault("malformed", problem)]
            case wire.ErrorEvent():
                return [
                    Fault("error", event.message or event.error_type, event.code or event.error_type, event.event_id)
                ]
            case _:
                return _plain(event)

    def more_audio(self, data: bytes) -> tuple[str, int] | None:
        if self._fed is not None:  # learnt when asked, not when fed: who reads a record never asks
            (fed, self._speaking), self._fed = self._fed, None
            self._shape = wire.AudioShape.of(fed)
        size = None if self._shape is None else self._shape.audio_bytes(data)
        if size is None or size & 1 or not self._audios[self._speaking].is_plain:
            return None
        return self._speaking, size >> 1

    def _began(self, reply: str) -> list[PeerEvent]:
        if reply in self._known:
            return []
        self._known.add(reply)
        return [ReplyBegan(reply)]

    def _audio(self, event: wire.AudioDelta) -> list[PeerEvent]:
        events = self._began(event.response_id)
        if event.audio.fault:
            events.append(Fault("base64", event.audio.fault))
        if event.audio.note:
            events.append(Fault("note", event.audio.note))
        audio = self._audios.setdefault(event.response_id, ReplyPcm(wire.PCM_RATE_HZ))
        audio.item = event.item_id
        return [*events, *_of_piece(event.response_id, event.item_id, audio.feed(event.audio.data))]

    def _done(self, event: wire.ResponseDone) -> list[PeerEvent]:
        if event.response_id in self._ended:  # the first one counts, or a reply would end at two instants
            return []
        self._ended.add(event.response_id)
        events = self._began(event.response_id)
        audio = self._audios.get(event.response_id)
        if audio is not None:
            left = _of_piece(event.response_id, audio.item, audio.end())
            events += [one for one in left if not isinstance(one, ReplyAudio) or len(one.pcm)]
        end = ReplyEnded(
            reply=event.response_id,
            status=event.status,
            reason=event.reason,
            error_code=event.error_code,
            message=event.error_message,
            has_tool_call=event.has_tool_call,
            text=event.text,
        )
        return [*events, end]


def _of_piece(reply: str, item: str, piece: Piece) -> list[PeerEvent]:
    said = [ReplyFormat(reply, one.rate_hz, one.channels, one.bits) for one in piece.formats]
    return [*piece.faults, *said, ReplyAudio(reply, item, piece.pcm)]


def _plain(event: wire.ServerEvent) -> list[PeerEvent]:
    match event:
        case wire.SessionCreated():
            return [SessionOpened()]
        case wire.SessionUpdated():
            return [SessionAccepted()]
        case wire.SpeechStarted():
            return [UserSpeech("started")]
        case wire.SpeechStopped():
            return [UserSpeech("stopped")]
        case wire.Committed():
            return [UserSpeech("committed")]
        case wire.UserTranscript(_, text):
            return [UserText(text)]
        case _:
            return []
