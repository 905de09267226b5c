"""What a client may set on an OpenAI Realtime session, and what this server says no to, by name."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from msgspec import UNSET

from clients.wire.openai_realtime import PCM_RATE_HZ
from clients.wire.openai_realtime_server import (
    AudioFields,
    AudioFormat,
    AudioInput,
    AudioOutput,
    Json,
    Refusal,
    ResponseFields,
    SessionFields,
    Transcription,
    TurnDetectionFields,
)
from servers.speech_model import SessionSettings
from servers.vad import TurnDetection

_DEFAULT_TURNS = TurnDetection()
_PCM: Json = {"type": "audio/pcm", "rate": PCM_RATE_HZ}


@dataclass(frozen=True, slots=True)
class Session:
    """The settings in force. The protocol's default is server VAD.

    transcription: as the client gave it, null for none · max_output_tokens: None for no limit.
    """

    instructions: str = ""
    voice: str = ""
    text_only: bool = False
    max_output_tokens: int | None = None
    turn_detection: TurnDetection | None = _DEFAULT_TURNS
    transcription: Json | None = None

    def changed_by(self, fields: SessionFields) -> Session:
        """The session after an update. Raises `Refusal` for the first field that cannot be granted."""
        if fields.type != "realtime":
            what = "transcription sessions are not served here"
            raise Refusal(what, code="invalid_value", param="session.type", mend='Use "realtime"')
        _refuse_tools(fields.tools or None, fields.prompt, "session")
        session = self
        if fields.instructions is not UNSET:
            session = replace(session, instructions=fields.instructions)
        if fields.output_modalities is not UNSET:
            session = replace(session, text_only=_text_only(fields.output_modalities, "session"))
        if fields.max_output_tokens is not UNSET:
            session = replace(session, max_output_tokens=_max_tokens(fields.max_output_tokens))
        if fields.audio is UNSET:
            return session
        if fields.audio.output is not UNSET:
            session = session._with_output(fields.audio.output, "session.audio.output")
        return session if fields.audio.input is UNSET else session._with_input(fields.audio.input)

    def for_reply(self, fields: ResponseFields) -> Session:
        """The session as one reply's overrides change it. Raises `Refusal`."""
        _refuse_tools(fields.tools, fields.prompt, "response")
        session = self
        if fields.instructions is not None:
            session = replace(session, instructions=fields.instructions)
        if fields.output_modalities is not None:
            session = replace(session, text_only=_text_only(fields.output_modalities, "response"))
        if fields.max_output_tokens is not None:
            session = replace(session, max_output_tokens=_max_tokens(fields.max_output_tokens))
        if isinstance(fields.audio, AudioFields) and fields.audio.output is not UNSET:
            session = session._with_output(fields.audio.output, "response.audio.output")
        return session

    def _with_input(self, fields: AudioInput) -> Session:
        session = self
        if fields.format is not UNSET:
            _check_format(fields.format, "session.audio.input.format")
        if fields.transcription is not UNSET:
            session = replace(session, transcription=_transcription(fields.transcription))
        if fields.turn_detection is not UNSET:
            session = replace(session, turn_detection=_turn_detection(fields.turn_detection))
        return session

    def _with_output(self, fields: AudioOutput, param: str) -> Session:
        if fields.format is not UNSET:
            _check_format(fields.format, f"{param}.format")
        if fields.speed is not UNSET and fields.speed != 1.0:
            what = f"a speed of {fields.speed} is not served here"
            raise Refusal(what, code="invalid_value", param=f"{param}.speed", mend="Leave it at 1.0")
        if fields.voice is UNSET:
            return self
        if not isinstance(fields.voice, str):
            what = "custom voices are not served here"
            raise Refusal(what, code="invalid_value", param=f"{param}.voice", mend="Give a voice by its name")
        return replace(self, voice=fields.voice)

    def settings(self) -> SessionSettings:
        """What the speech model is told of it."""
        return SessionSettings(
            instructions=self.instructions,
            voice=self.voice,
            text_only=self.text_only,
            max_output_tokens=self.max_output_tokens,
        )

    @property
    def modalities(self) -> list[str]:
        return ["text"] if self.text_only else ["audio"]

    def max_tokens_json(self) -> int | str:
        return "inf" if self.max_output_tokens is None else self.max_output_tokens

    def output_json(self) -> Json:
        """Format and voice as a response states them."""
        return {"format": _PCM, "voice": self.voice}

    def to_json(self, session_id: str, model: str) -> Json:
        """The effective session. What the server does not do shows as null, whatever the client asked."""
        return {
            "type": "realtime",
            "object": "realtime.session",
            "id": session_id,
            "model": model,
            "output_modalities": self.modalities,
            "instructions": self.instructions,
            "max_output_tokens": self.max_tokens_json(),
            "tools": [],
            "tool_choice": "none",
            "tracing": None,
            "prompt": None,
            "audio": {
                "input": {
                    "format": _PCM,
                    "noise_reduction": None,
                    "transcription": self.transcription,
                    "turn_detection": _turn_detection_json(self.turn_detection),
                },
                "output": {**self.output_json(), "speed": 1.0},
            },
        }


def _refuse_tools(tools: list[dict[str, Any]] | None, prompt: object, where: str) -> None:
    if tools:
        what = "function tools are not served here"
        raise Refusal(what, code="invalid_value", param=f"{where}.tools", mend="Leave the list out or empty")
    if prompt is not None:
        what = "stored prompts are not served here"
        raise Refusal(what, code="invalid_value", param=f"{where}.prompt", mend="Send the text as `instructions`")


def _check_format(wanted: AudioFormat, param: str) -> None:
    if wanted.type != "audio/pcm":
        what = f"the audio format {wanted.type!r} is not served here"
        mend = f'Use {{"type": "audio/pcm", "rate": {PCM_RATE_HZ}}}'
        raise Refusal(what, code="invalid_value", param=f"{param}.type", mend=mend)
    if wanted.rate not in (None, PCM_RATE_HZ):
        what = f"audio/pcm has a rate of {PCM_RATE_HZ} Hz here, not {wanted.rate}"
        raise Refusal(what, code="invalid_value", param=f"{param}.rate", mend="Resample to that rate")


def _text_only(modalities: list[Any], where: str) -> bool:
    if len(modalities) > 1:
        what = "text and audio cannot be asked for at once"
        mend = 'Use ["audio"], which brings a transcript, or ["text"]'
        raise Refusal(what, code="invalid_value", param=f"{where}.output_modalities", mend=mend)
    return bool(modalities == ["text"])


def _max_tokens(value: object) -> int | None:
    return value if isinstance(value, int) else None


def _transcription(wanted: Transcription | None) -> Json | None:
    """Kept as given: it turns transcripts on; the speech model's own recogniser makes them."""
    if wanted is None:
        return None
    given = {name: getattr(wanted, name) for name in ("model", "language", "prompt")}
    return {name: value for name, value in given.items() if value is not None}


def _turn_detection(wanted: TurnDetectionFields | None) -> TurnDetection | None:
    param = "session.audio.input.turn_detection"
    if wanted is None:
        return None
    if wanted.type == "semantic_vad":
        what = "turn detection by semantic_vad is not served here"
        mend = "Use server_vad, or null for manual turns"
        raise Refusal(what, code="invalid_value", param=f"{param}.type", mend=mend)
    if wanted.eagerness is not None:
        what = "eagerness belongs to semantic_vad"
        raise Refusal(what, code="invalid_value", param=f"{param}.eagerness", mend="Leave it out")
    if wanted.idle_timeout_ms is not None:
        what = "an idle timeout is not served here"
        raise Refusal(what, code="invalid_value", param=f"{param}.idle_timeout_ms", mend="Leave it out")
    names = ("threshold", "prefix_padding_ms", "silence_duration_ms", "create_response", "interrupt_response")
    given = {name: getattr(wanted, name) for name in names}
    return TurnDetection(**{name: value for name, value in given.items() if value is not None})


def _turn_detection_json(settings: TurnDetection | None) -> Json | None:
    if settings is None:
        return None
    return {
        "type": "server_vad",
        "threshold": settings.threshold,
        "prefix_padding_ms": settings.prefix_padding_ms,
        "silence_duration_ms": settings.silence_duration_ms,
        "create_response": settings.create_response,
        "interrupt_response": settings.interrupt_response,
        "idle_timeout_ms": None,
    }
