"""What the user says: the input buffer, and turn detection over it where the session wants it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from clients.wire.openai_realtime import PCM_RATE_HZ
from clients.wire.openai_realtime_server import Refusal
from clients.wire.pcm import PcmJoiner
from servers.fronts.openai_realtime.buffer import MAX_HELD_S, InputBuffer
from servers.listening import Listener
from servers.speech_model import Pcm, VoiceDetector
from servers.vad import SpeechStarted, TurnDetection, VadEvent

MIN_COMMIT_SAMPLES = PCM_RATE_HZ // 10
"""The protocol refuses to commit less than 100 ms."""


@dataclass(frozen=True, slots=True)
class Utterance:
    """A committed user turn. item_id: announced when speech began, or new."""

    item_id: str
    pcm: Pcm


class TurnHandler(Protocol):
    """What happens when turn detection decides. Called in order, on the event loop."""

    async def speech_started(self, item_id: str, audio_start_ms: int) -> None: ...

    async def speech_stopped(self, audio_end_ms: int, said: Utterance) -> None: ...


@dataclass(frozen=True, slots=True)
class _Speech:
    """Speech under way. start: position of its first sample, padding included."""

    item_id: str
    start: int


class Hearing:
    """One connection's ears."""

    def __init__(
        self, open_detector: Callable[[], VoiceDetector], handler: TurnHandler, new_item_id: Callable[[], str]
    ) -> None:
        self._open_detector, self._handler, self._new_item_id = open_detector, handler, new_item_id
        self._buffer = InputBuffer()
        self._joiner = PcmJoiner()
        self._listener: Listener | None = None
        self._speech: _Speech | None = None

    async def append(self, data: bytes, before_judging: Callable[[Pcm], None], *, waiting_samples: int = 0) -> None:
        """Take in PCM bytes; a sample cut in two is joined. Raises `Refusal` if the buffer is full.

        waiting_samples: committed and not answered yet; they count as held · before_judging: gets the samples (int16,
        24 kHz) before turn detection does.
        """
        # In silence next to nothing is held, unless audio comes faster than it can be judged.
        if waiting_samples + self._buffer.held_samples + len(data) // 2 > MAX_HELD_S * PCM_RATE_HZ:
            what = f"{MAX_HELD_S // 60} minutes of audio wait for a reply: the input audio buffer is full"
            raise Refusal(what, code="input_audio_buffer_full", param="audio", mend="Ask for the reply, or clear it")
        pcm = self._joiner.feed(data)
        self._buffer.append(pcm)
        before_judging(pcm)
        if self._listener is not None:
            await self._listener.feed(pcm)

    async def commit(self) -> Utterance:
        """Everything that the user said since the last commit. Raises `Refusal` for less than 100 ms."""
        await self.settle()
        silent = self._listener is not None and self._speech is None
        start = self._buffer.start if self._speech is None else self._speech.start
        samples = 0 if silent else self._buffer.end - start
        if samples < MIN_COMMIT_SAMPLES:
            what = f"the input audio buffer is too small: it holds {samples * 1000 / PCM_RATE_HZ:.2f} ms of audio"
            mend = "Append at least 100 ms before a commit" + (", or leave it to server VAD" if silent else "")
            raise Refusal(what, code="input_audio_buffer_commit_empty", mend=mend)
        said = Utterance(
            self._new_item_id() if self._speech is None else self._speech.item_id,
            self._buffer.take(start, self._buffer.end),
        )
        await self._begin_anew()
        return said

    async def clear(self) -> None:
        await self.settle()
        self._buffer.clear()
        await self._begin_anew()

    async def detect(self, settings: TurnDetection | None) -> None:
        """Take over turn detection settings; None for manual turns. The buffer stays."""
        if settings == self._settings:
            return
        await self.settle()
        await self._close_listener()
        self._speech = None
        if settings is not None:
            self._listener = self._new_listener(settings)

    async def aclose(self) -> None:
        await self._close_listener()

    @property
    def _settings(self) -> TurnDetection | None:
        return None if self._listener is None else self._listener.settings

    async def settle(self) -> None:
        """Wait until all audio so far has been judged."""
        if self._listener is not None:
            await self._listener.drain()

    async def _begin_anew(self) -> None:
        self._joiner = PcmJoiner()
        self._speech = None
        settings = self._settings
        if settings is not None:
            await self._close_listener()
            self._listener = self._new_listener(settings)

    async def _close_listener(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            await listener.aclose()

    def _new_listener(self, settings: TurnDetection) -> Listener:
        return Listener(
            self._open_detector(),
            settings,
            on_event=self._judge,
            on_progress=self._forget,
            rate_hz=PCM_RATE_HZ,
            origin=self._buffer.end,
        )

    async def _judge(self, event: VadEvent, settings: TurnDetection) -> None:
        if isinstance(event, SpeechStarted):
            padding = settings.prefix_padding_ms * PCM_RATE_HZ // 1000
            start = max(event.sample - padding, self._buffer.start)
            self._speech = _Speech(self._new_item_id(), start)
            await self._handler.speech_started(self._speech.item_id, start * 1000 // PCM_RATE_HZ)
        elif self._speech is not None:
            said = Utterance(self._speech.item_id, self._buffer.take(self._speech.start, event.sample))
            self._speech = None
            await self._handler.speech_stopped(event.sample * 1000 // PCM_RATE_HZ, said)

    def _forget(self, earliest_start: int, settings: TurnDetection) -> None:
        """In silence, keep no more than the padding that a next turn may want."""
        if self._speech is None:
            self._buffer.drop_before(earliest_start - settings.prefix_padding_ms * PCM_RATE_HZ // 1000)
