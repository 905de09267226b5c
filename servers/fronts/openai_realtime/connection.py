"""One client of the OpenAI Realtime front (GA): message in, messages out. Knows no socket."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

from clients.wire import openai_realtime_server as wire
from clients.wire.openai_realtime import PCM_RATE_HZ
from clients.wire.openai_realtime_server import Json, Refusal, ResponseFields
from servers.fronts.openai_realtime.conversation import Item, read_item
from servers.fronts.openai_realtime.hearing import Hearing, Utterance
from servers.fronts.openai_realtime.noticing import Attention
from servers.fronts.openai_realtime.replies import Replies
from servers.fronts.openai_realtime.session import Session
from servers.fronts.outbox import Outbox, Send
from servers.speech_model import ConnectionFaults, Misbehaving, Noticing, Prompting, SpeechModelServer
from servers.write_log import WriteLog
from sessions.clock import NS_PER_MS, Clock
from sessions.errors import PeerError, SetupError

_log = logging.getLogger("duologue.serve")


class RealtimeConnection:
    """Give it each text message with its arrival; it writes through `send`.

    Replies run as tasks of the running loop until `on_disconnect`. One object serves one connection.
    """

    def __init__(
        self,
        model_server: SpeechModelServer,
        clock: Clock,
        send: Send,
        close: Callable[[int, str], Awaitable[None]],
        abort: Callable[[], None],
        *,
        write_log: WriteLog | None = None,
        name: str = "",
    ) -> None:
        """close: close the connection with a code and reason · abort: break it · name: in the write log."""
        self._server, self._clock = model_server, clock
        self._faults = model_server.connection_faults if isinstance(model_server, Misbehaving) else ConnectionFaults()
        self._outbox = Outbox(clock, send, write_log, name)
        self._close, self._abort = close, abort
        self._events = 0
        self._pings: asyncio.Task[None] | None = None
        self._session_id = self.new_id("sess")
        self._session = Session(voice=model_server.voices[0] if model_server.voices else "")
        self._replies = Replies(model_server, self, self.new_id("conv"))
        if self._replies.model.rate_hz != PCM_RATE_HZ:
            what = f"the model {model_server.name} speaks at {self._replies.model.rate_hz} Hz"
            raise SetupError(what, f"OpenAI Realtime needs one that speaks at {PCM_RATE_HZ} Hz")
        model = self._replies.model
        self._attention = Attention(self, model.notice) if isinstance(model, Noticing) else None
        self._hearing = Hearing(model_server.voice_detector, self._attention or self, lambda: self.new_id("item"))
        self._prompting: asyncio.Task[None] | None = None

    # ---- the connection's life ---------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Greet the client."""
        faults = self._faults
        if faults.greeting_delay_ms:
            await self._clock.sleep_until_ns(self._clock.now_ns() + faults.greeting_delay_ms * NS_PER_MS)
        for text in faults.first_messages:
            await self.post_raw(text)
        if faults.greets:
            await self.post(wire.session_event("session.created", self._session_json()))
        await self._hearing.detect(self._session.turn_detection)
        if faults.ping_interval_ms:
            self._pings = asyncio.create_task(self._ping(), name="pings")
        if isinstance(self._replies.model, Prompting):
            self._prompting = asyncio.create_task(self._prompt(self._replies.model), name="prompting")

    async def on_message(self, text: str, t_ns: int) -> None:
        """One text message that arrived at `t_ns`. Whatever is wrong with it is answered; the session lives on."""
        message = wire.decode_client(text)
        if isinstance(message, wire.Refused):
            await self.post(wire.error(message.problem, message.event_id))
            return
        try:
            await self._obey(message, t_ns)
        except PeerError as problem:
            await self.post(wire.error(problem, message.event_id or ""))
        except Exception as error:  # noqa: BLE001 — a fault of this server must not cost the client its session
            _log.error("could not obey %s", type(message).__name__, exc_info=error)
            failure = PeerError(f"the server failed: {error}", code="server_error")
            await self.post(wire.error(failure, message.event_id or "", "server_error"))

    async def on_disconnect(self) -> None:
        """The client is gone: stop all work for it."""
        tasks = {task for task in (self._pings, self._prompting) if task is not None}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        await self._hearing.aclose()
        if self._attention is not None:
            await self._attention.aclose()
        await self._replies.aclose()

    # ---- what replies and pings write with ---------------------------------------------------------------------------

    async def post(self, message: Json, *, response_id: str = "", samples: int = 0) -> None:
        self._events += 1
        text = wire.to_text(message, f"event_{self._session_id[5:13]}_{self._events}")
        await self._outbox.write(text, message["type"], response_id=response_id, samples=samples)

    async def post_raw(self, text: str) -> None:
        await self._outbox.write(text, "raw")

    async def close(self, code: int, reason: str) -> None:
        await self._close(code, reason)

    def abort(self) -> None:
        self._abort()

    def note(self, kind: str, t_ns: int, response_id: str) -> None:
        self._outbox.note(kind, t_ns, response_id)

    def new_id(self, kind: str) -> str:
        return f"{kind}_{uuid4().hex[:21]}"

    # ---- turn detection decides --------------------------------------------------------------------------------------

    async def speech_started(self, item_id: str, audio_start_ms: int) -> None:
        await self.post(wire.speech_started(item_id, audio_start_ms))
        settings, current = self._session.turn_detection, self._replies.current
        if settings is not None and settings.interrupt_response and current is not None:
            await self._replies.cancel(current, "turn_detected")

    async def speech_stopped(self, audio_end_ms: int, said: Utterance) -> None:
        ended_ns = self._clock.now_ns()
        await self.post(wire.speech_stopped(said.item_id, audio_end_ms))
        await self._add_spoken(said)
        settings = self._session.turn_detection
        if settings is None or not settings.create_response:
            return
        try:
            await self._replies.respond(self._session, ResponseFields(), ended_ns)
        except PeerError as problem:
            await self.post(wire.error(problem))

    async def _prompt(self, model: Prompting) -> None:
        """Whenever the model wants to speak unasked, it does, unless it is speaking anyway."""
        while await model.wants_to_speak():
            if self._replies.current is None:
                await self._replies.respond(self._session, ResponseFields(), self._clock.now_ns())

    # ---- client messages ---------------------------------------------------------------------------------------------

    async def _obey(self, message: wire.ClientMessage, t_ns: int) -> None:
        match message:
            case wire.Append(audio=audio):
                await self._append(audio, t_ns)
            case wire.Commit():
                await self._add_spoken(await self._hearing.commit())
            case wire.Clear():
                await self._hearing.clear()
                await self.post(wire.cleared())
            case wire.ResponseCreate(response=fields):
                await self._hearing.settle()
                await self._replies.respond(self._session, fields or ResponseFields(), t_ns)
            case wire.ResponseCancel(response_id=reply_id):
                await self._cancel(reply_id)
            case wire.SessionUpdate(session=fields):
                await self._update(fields)
            case wire.OutputClear():
                what = "output_audio_buffer.clear belongs to WebRTC and SIP"
                raise Refusal(what, code="invalid_value", param="type", mend="Stop your own play-out, and truncate")
            case _:
                await self._edit(message)

    async def _edit(self, message: Any) -> None:
        conversation = self._replies.conversation
        match message:
            case wire.ItemCreate(item=fields, previous_item_id=previous):
                conversation.check_place(fields, previous)
                item = read_item(fields, self.new_id("item"))
                conversation.check_room(item)
                if not item.waiting:
                    self._replies.remember(item)
                await self._add(item)
            case wire.ItemRetrieve(item_id=item_id):
                await self.post(wire.item_retrieved(conversation.find(item_id, "retrieve").to_json()))
            case wire.ItemDelete(item_id=item_id):
                await self._replies.forget(conversation.find(item_id, "delete"), self._session)
                await self.post(wire.item_deleted(item_id))
            case wire.ItemTruncate(item_id=item_id, content_index=index, audio_end_ms=end_ms):
                if index != 0:
                    what = f"there is no content part {index}"
                    raise Refusal(what, code="invalid_value", param="content_index", mend="Use 0")
                self._replies.truncate(conversation.find(item_id, "truncate"), end_ms)
                await self.post(wire.item_truncated(item_id, end_ms))

    async def _append(self, audio: str, t_ns: int) -> None:
        data = wire.decode_audio(audio)
        waiting = self._replies.conversation.waiting_samples
        await self._hearing.append(data, lambda pcm: self._replies.model.hear(pcm, t_ns), waiting_samples=waiting)

    async def _update(self, fields: wire.SessionFields) -> None:
        if self._faults.ignores_settings:
            return
        session = self._session.changed_by(fields)
        if self._replies.has_spoken and session.voice != self._session.voice:
            what = "the voice cannot be changed once the assistant has spoken"
            raise Refusal(
                what, code="cannot_update_voice", param="session.audio.output.voice", mend="Open a new session"
            )
        self._replies.configure(session)
        self._session = session
        await self._hearing.detect(session.turn_detection)
        await self.post(wire.session_event("session.updated", self._session_json()))

    async def _cancel(self, reply_id: str | None) -> None:
        reply = self._replies.find(reply_id)
        if reply is None:
            what = "there is no active response to cancel"
            raise Refusal(what, code="response_cancel_not_active", mend="Nothing needs to be done")
        await self._replies.cancel(reply, "client_cancelled")

    async def _add_spoken(self, said: Utterance) -> None:
        item = Item(said.item_id, "user", "input_audio", audio_samples=len(said.pcm), waiting=True, pcm=said.pcm)
        await self.post(wire.committed(item.id, self._replies.conversation.last_id))
        await self._add(item)

    async def _add(self, item: Item) -> None:
        previous = self._replies.conversation.add(item)
        await self.post(wire.item_event("added", item.to_json(), previous))
        await self.post(wire.item_event("done", item.to_json(), previous))

    async def _ping(self) -> None:
        due_ns = self._clock.now_ns()
        while True:
            due_ns += self._faults.ping_interval_ms * NS_PER_MS
            await self._clock.sleep_until_ns(due_ns)
            await self._outbox.write(self._faults.ping_message, "ping")

    def _session_json(self) -> Json:
        return self._session.to_json(self._session_id, self._server.name)
