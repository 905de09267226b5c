"""Small fronts in the wire protocols of the peers, with any speech model of ours behind them.

`?session=NAME` names the connection in the write log; its replies are NAME#0, NAME#1 …, or begin with the number in
`&turn=`. Each `Audio` piece leaves as one packet, and the clock is read immediately before each write.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from abc import ABC, abstractmethod
from contextlib import aclosing

import numpy as np
from aiohttp import WSMessage, WSMsgType, web

from servers.fronts.table import FrontContext
from servers.speech_model import Audio, Pcm, RawAudio, Stage, UserTurn
from servers.write_log import Write

AUDIO = "audio"
"""The type of the written messages that hold audio."""
END_OF_TURN_SAMPLES = 1440
"""60 ms of zeros after speech end a turn where the protocol has no message for that."""
_NO_AUDIO = np.zeros(0, np.int16)


class _Talk(ABC):
    """One connection."""

    def __init__(self, context: FrontContext, ws: web.WebSocketResponse, name: str, first_reply: int) -> None:
        self._clock, self._log = context.clock, context.write_log
        self._ws, self._name = ws, name
        self.model = context.model_server.open()
        self._replies = first_reply
        self.task: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Greet, where the protocol does."""
        return

    @abstractmethod
    async def take(self, message: WSMessage, t_ns: int) -> None:
        """One message of the client."""

    @abstractmethod
    async def packet(self, data: bytes, reply_id: str) -> None:
        """Send one packet of audio, by `write`."""

    @abstractmethod
    async def begin(self, reply_id: str) -> None:
        """Say that a reply begins, where the protocol does: just before its first packet.

        Not at once: `voice-evals` never finds a reply that is announced before the last frame of the user, sent at its
        start, would have been spoken.
        """

    @abstractmethod
    async def end(self, reply_id: str) -> None:
        """Say that it is over, where the protocol does."""

    def answer(self, ended_ns: int) -> None:
        """The user's turn is over."""
        self.task = asyncio.create_task(self._reply(ended_ns))

    async def _reply(self, ended_ns: int) -> None:
        number = self._replies
        self._replies += 1
        reply_id = f"{self._name}#{number}"
        begun = False
        with contextlib.suppress(ConnectionError):
            async with aclosing(self.model.reply(UserTurn(_NO_AUDIO, ended_ns, number))) as pieces:
                async for piece in pieces:
                    if isinstance(piece, Stage):
                        self._note(piece.t_ns, f"stage.{piece.name}", reply_id)
                        continue
                    if not isinstance(piece, Audio | RawAudio):
                        continue
                    if not begun:
                        begun = True
                        await self.begin(reply_id)
                    await self.packet(_data(piece), reply_id)
            await self.end(reply_id)

    async def write(self, message: str | bytes, reply_id: str, samples: int) -> None:
        self._note(self._clock.now_ns(), AUDIO, reply_id, samples)
        if isinstance(message, str):
            await self._ws.send_str(message)
        else:
            await self._ws.send_bytes(message)

    async def tell(self, message: dict[str, str]) -> None:
        await self._ws.send_str(json.dumps(message))

    def _note(self, t_ns: int, kind: str, reply_id: str, samples: int = 0) -> None:
        if self._log is not None:
            self._log.add(Write(t_ns, self._name, kind, reply_id, samples))


def _data(piece: Audio | RawAudio) -> bytes:
    return piece.data if isinstance(piece, RawAudio) else piece.pcm.astype("<i2").tobytes()


class _PcmTalk(_Talk):
    """Raw PCM16 both ways, nothing else: the silence after speech ends a turn."""

    _speaking = False
    _quiet_samples = 0

    async def take(self, message: WSMessage, t_ns: int) -> None:
        if message.type is not WSMsgType.BINARY:
            return
        self.listen(np.frombuffer(message.data, "<i2").astype(np.int16), t_ns)

    def listen(self, pcm: Pcm, t_ns: int) -> None:
        self.model.hear(pcm, t_ns)
        if self._turn_ends(pcm):
            self.answer(t_ns)

    def _turn_ends(self, pcm: Pcm) -> bool:
        speech = np.flatnonzero(pcm)
        if len(speech):
            self._speaking, self._quiet_samples = True, len(pcm) - int(speech[-1]) - 1
        else:
            self._quiet_samples += len(pcm)
        ends = self._speaking and self._quiet_samples >= END_OF_TURN_SAMPLES
        self._speaking = self._speaking and not ends
        return ends

    async def packet(self, data: bytes, reply_id: str) -> None:
        await self.write(data, reply_id, len(data) // 2)

    async def begin(self, reply_id: str) -> None:
        """It says nothing."""

    async def end(self, reply_id: str) -> None:
        """Nor here."""


class _UntoldTalk(_PcmTalk):
    """OpenAI Realtime's events with 16 kHz from the user, as `speech-to-speech` speaks it: the server ends the turn."""

    async def open(self) -> None:
        await self.tell({"type": "session.created"})

    async def take(self, message: WSMessage, t_ns: int) -> None:
        if message.type is not WSMsgType.TEXT:
            return
        event = json.loads(message.data)
        match event.get("type"):
            case "session.update":
                await self.tell({"type": "session.updated"})
            case "input_audio_buffer.append":
                pcm = np.frombuffer(base64.b64decode(event["audio"]), "<i2").astype(np.int16)
                # The model counts at 24 kHz. What sounds does not matter to it, where it ends does, to half a sample.
                self.listen(pcm[np.arange(len(pcm) * 3 // 2) * 2 // 3], t_ns)

    async def begin(self, reply_id: str) -> None:
        await self.tell({"type": "response.created", "response_id": reply_id})

    async def packet(self, data: bytes, reply_id: str) -> None:
        await self.write(_event("response.output_audio.delta", reply_id, "delta", data), reply_id, len(data) // 2)

    async def end(self, reply_id: str) -> None:
        await self.tell({"type": "response.done", "response_id": reply_id})


def _event(kind: str, reply_id: str, field: str, data: bytes) -> str:
    return json.dumps({"type": kind, "response_id": reply_id, field: base64.b64encode(data).decode()})


class _CommitTalk(_Talk):
    """JSON with base64 audio and an explicit end of turn, by the names of the `voice-evals-default-v1` map."""

    async def take(self, message: WSMessage, t_ns: int) -> None:
        if message.type is not WSMsgType.TEXT:
            return
        event = json.loads(message.data)
        match event.get("type"):
            case "session_start":
                await self.tell({"type": "session_ready"})
            case "input_audio":
                self.model.hear(np.frombuffer(base64.b64decode(event["audio"]), "<i2").astype(np.int16), t_ns)
            case "input_commit":
                self.answer(t_ns)

    async def begin(self, reply_id: str) -> None:
        await self.tell({"type": "response_start", "response_id": reply_id})

    async def packet(self, data: bytes, reply_id: str) -> None:
        await self.write(_event("output_audio", reply_id, "audio", data), reply_id, len(data) // 2)

    async def end(self, reply_id: str) -> None:
        await self.tell({"type": "response_done", "response_id": reply_id})


class _PeerFront:
    """A `Front` whose connections are of one kind."""

    path = "/talk"
    talk: type[_Talk]

    def mount(self, app: web.Application, context: FrontContext) -> None:
        async def handle(request: web.Request) -> web.StreamResponse:
            ws = web.WebSocketResponse(compress=False)
            await ws.prepare(request)
            talk = self.talk(context, ws, request.query.get("session", ""), int(request.query.get("turn", 0)))
            await talk.open()
            async for message in ws:
                await talk.take(message, context.clock.now_ns())
            if talk.task is not None:
                talk.task.cancel()
            return ws

        app.router.add_get(self.path, handle)


class PcmFront(_PeerFront):
    """The generic protocol of PyPI `voicebench`."""

    talk = _PcmTalk


class CommitFront(_PeerFront):
    """The reference protocol of PyPI `voice-evals`."""

    talk = _CommitTalk


class UntoldFront(_PeerFront):
    """What the evaluation client of PyPI `speech-to-speech` speaks."""

    talk = _UntoldTalk
