"""One response: what the speech model yields, as the protocol's events, piece by piece."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Protocol

from clients.wire import openai_realtime_server as wire
from clients.wire.openai_realtime import PCM_RATE_HZ
from clients.wire.openai_realtime_server import Json, Place
from clients.wire.pcm import encode_base64
from servers.fronts.openai_realtime.conversation import Conversation, Item
from servers.fronts.openai_realtime.session import Session
from servers.speech_model import Audio, Fault, Piece, RawAudio, SpeechModel, Stage, Text, ToolCall, Usage, UserTurn
from sessions.errors import PeerError

_log = logging.getLogger("duologue.serve")


class Wire(Protocol):
    """What a reply needs of its connection."""

    async def post(self, message: Json, *, response_id: str = "", samples: int = 0) -> None: ...

    async def post_raw(self, text: str) -> None: ...

    def note(self, kind: str, t_ns: int, response_id: str) -> None: ...

    def new_id(self, kind: str) -> str: ...

    async def close(self, code: int, reason: str) -> None: ...

    def abort(self) -> None: ...


@dataclass(frozen=True, slots=True)
class ReplyOrder:
    """What a reply was asked to be.

    session: with this reply's overrides · user_item: the spoken turn that it answers, if one · conversation_id: of the
    conversation that its items join, None for none.
    """

    turn: UserTurn
    session: Session
    user_item: Item | None
    conversation_id: str | None
    metadata: dict[str, str] | None = None


@dataclass(slots=True)
class _Output:
    """An output item while it grows. bytes: of audio, so that half a sample counts when its other half comes."""

    item: Item
    place: Place
    bytes: int = 0
    done: bool = False


class Reply:
    """Streams one response. `active` until its end has been announced; `end` may be called by anyone, once."""

    def __init__(self, wire_out: Wire, conversation: Conversation, order: ReplyOrder) -> None:
        self._out, self._conversation, self._order = wire_out, conversation, order
        self.id = wire_out.new_id("resp")
        self.active = True
        self.task: asyncio.Task[None] | None = None
        self.in_conversation = order.conversation_id is not None
        self._outputs: list[_Output] = []
        self._user_words: list[str] = []
        self._usage: Usage | None = None
        self._late = False
        # A piece may take several messages. Whoever ends the reply waits for the piece in hand, and no other follows.
        self._turnstile = asyncio.Lock()
        self._heard_ms: int | None = None

    @property
    def lingers(self) -> bool:
        """Its model is still at work although the reply was cut short: the next one must wait for it."""
        return not self.active and not self._late and self.task is not None and not self.task.done()

    async def begin(self) -> None:
        await self._post(wire.response_event("created", self._to_json("in_progress")))

    def start(self, model: SpeechModel, *, after: asyncio.Task[None] | None, on_rest: Callable[[], None]) -> None:
        """Set the model to work. after: wait for this first · on_rest: called once the model is at rest again."""

        def rest(_: asyncio.Task[None]) -> None:
            if self._heard_ms is not None:
                model.heard(self._heard_ms)
            on_rest()

        self.task = asyncio.create_task(self._run(model, after), name=f"reply {self.id}")
        self.task.add_done_callback(rest)

    async def _run(self, model: SpeechModel, after: asyncio.Task[None] | None) -> None:
        """Carry the model's pieces to the client until it ends, or somebody ends the reply."""
        if after is not None:
            await asyncio.wait({after})
        try:
            async with aclosing(model.reply(self._order.turn)) as pieces:
                async for piece in pieces:
                    async with self._turnstile:
                        if not self.active and not self._late:
                            return
                        await self._carry(piece)
                    if isinstance(piece, Fault) and await self._misbehave(piece):
                        return
            await self.end("completed")
        except PeerError as error:
            await self.end("failed", error=_failure(error.code or "server_error", str(error)))
        except Exception as error:  # noqa: BLE001 — a model that breaks costs its reply, never the connection
            _log.error("the speech model failed in %s", self.id, exc_info=error)
            await self.end("failed", error=_failure("server_error", f"the speech model failed: {error}"))

    def heard(self, model: SpeechModel, item: Item, ms: int) -> None:
        """The user heard only `ms` of `item`. The model is told when it is at rest."""
        item.cut(ms)
        if self.task is None or self.task.done():
            model.heard(ms)
        else:
            self._heard_ms = ms

    def item(self, item_id: str) -> Item | None:
        """This reply's own item of that id."""
        return next((output.item for output in self._outputs if output.item.id == item_id), None)

    @property
    def has_audio(self) -> bool:
        return any(output.bytes for output in self._outputs)

    async def end(self, status: str, reason: str = "", error: Json | None = None) -> None:
        """Announce the end: completed | cancelled | incomplete | failed. Later calls do nothing."""
        if not self.active:
            return
        self.active = False
        async with self._turnstile:
            await self._tell_user_words()
            await self._close_output("completed" if status == "completed" else "incomplete")
            details: Json = {"type": status}
            details |= {"reason": reason} if reason else {}
            details |= {"error": error} if error else {}
            await self._post(wire.response_event("done", self._to_json(status, details)))

    # ---- pieces ----------------------------------------------------------------------------------------------------

    async def _carry(self, piece: Piece) -> None:
        if isinstance(piece, Text) and piece.of == "user":
            self._user_words.append(piece.text)
            return
        if isinstance(piece, Stage):
            self._out.note(f"stage.{piece.name}", piece.t_ns, self.id)
            return
        if isinstance(piece, Usage):
            self._usage = piece
            return
        await self._tell_user_words()
        match piece:
            case Audio(pcm):
                await self._audio(encode_base64(pcm), 2 * len(pcm))
            case RawAudio(data):
                await self._audio(base64.b64encode(data).decode("ascii"), len(data))
            case _ if self._late:
                pass
            case Text(text, of):
                await self._text(text, written=of == "written" or self._order.session.text_only)
            case ToolCall(name, arguments):
                await self._tool_call(name, arguments)
            case Fault("bad_audio", message):
                await self._audio(message, 0)
            case Fault("raw", message):
                await self._out.post_raw(message)
            case _:
                pass

    async def _audio(self, delta: str, size: int) -> None:
        if self._order.session.text_only:
            return
        output = self._late_output() if self._late else await self._output("output_audio")
        before = output.bytes // 2
        output.bytes += size
        samples = output.bytes // 2 - before
        output.item.audio_samples += samples
        message = output.place.event("response.output_audio.delta", delta=delta)
        await self._out.post(message, response_id=self.id, samples=samples)

    async def _text(self, text: str, *, written: bool) -> None:
        if not text:
            return
        output = await self._output("output_text" if written else "output_audio")
        output.item.text += text
        kind = "response.output_text.delta" if written else "response.output_audio_transcript.delta"
        await self._post(output.place.event(kind, delta=text))

    async def _tool_call(self, name: str, arguments: str) -> None:
        output = await self._output("function_call", name)
        output.item.text = arguments
        call = {"call_id": output.item.call_id}
        await self._post(output.place.arguments_event("delta", delta=arguments, **call))
        await self._post(output.place.arguments_event("done", arguments=arguments, name=name, **call))
        await self._close_output("completed")

    async def _output(self, kind: str, function: str = "") -> _Output:
        """The open output item of this kind; opens one if there is none."""
        current = self._outputs[-1] if self._outputs else None
        if current is not None and not current.done:
            if current.item.kind == kind and not function:
                return current
            await self._close_output("completed")
        item = Item(self._out.new_id("item"), "assistant", kind, status="in_progress", function=function)
        if function:
            item.call_id = self._out.new_id("call")
        output = _Output(item, Place(self.id, item.id, len(self._outputs)))
        self._outputs.append(output)
        await self._post(output.place.item_event("added", item.to_json(empty=True)))
        if self.in_conversation:
            previous = self._conversation.add(item)
            await self._post(wire.item_event("added", item.to_json(empty=True), previous))
        if not function:
            await self._post(output.place.event("response.content_part.added", part=_part(item)))
        return output

    def _late_output(self) -> _Output:
        """Sound after the end goes where the last sound went; nothing is announced any more."""
        if not self._outputs:
            item = Item(self._out.new_id("item"), "assistant", "output_audio")
            self._outputs.append(_Output(item, Place(self.id, item.id), done=True))
        return self._outputs[-1]

    async def _close_output(self, status: str) -> None:
        output = self._outputs[-1] if self._outputs else None
        if output is None or output.done:
            return
        output.done = True
        item, place = output.item, output.place
        item.status = status
        if item.kind == "output_audio":
            await self._post(place.event("response.output_audio.done"))
            await self._post(place.event("response.output_audio_transcript.done", transcript=item.text))
        elif item.kind == "output_text":
            await self._post(place.event("response.output_text.done", text=item.text))
        if item.kind != "function_call":
            await self._post(place.event("response.content_part.done", part=_part(item)))
        await self._post(place.item_event("done", item.to_json()))
        if self.in_conversation:
            await self._post(wire.item_event("done", item.to_json(), self._conversation.previous_id(item)))

    async def _tell_user_words(self) -> None:
        if not self._user_words:
            return
        words, self._user_words = "".join(self._user_words), []
        item = self._order.user_item
        if item is None:
            return
        item.text = words
        if self._order.session.transcription is not None:
            await self._post(wire.user_transcript(item.id, words, item.audio_ms / 1000))

    async def _misbehave(self, fault: Fault) -> bool:
        """Do what a fault asks for. True if no further piece is wanted."""
        match fault.kind:
            case "error":
                code = fault.code or "server_error"
                await self.end("failed", error=_failure(code, fault.message or "the model failed"))
            case "incomplete":
                await self.end("incomplete", fault.code or "max_output_tokens")
            case "cancelled":
                await self.end("cancelled", fault.code or "turn_detected")
            case "close":
                await self._out.close(fault.value or 1011, fault.message)
            case "reset":
                self._out.abort()
            case "silent":
                await asyncio.Event().wait()
            case "late_audio":
                self._late = True
                await self.end("completed")
                return False
            case _:
                return False
        return True

    async def _post(self, message: Json) -> None:
        await self._out.post(message, response_id=self.id)

    def _to_json(self, status: str, details: Json | None = None) -> Json:
        order, session = self._order, self._order.session
        return {
            "object": "realtime.response",
            "id": self.id,
            "status": status,
            "status_details": None if status == "completed" else details,
            "output": [output.item.to_json() for output in self._outputs],
            "conversation_id": order.conversation_id,
            "output_modalities": session.modalities,
            "max_output_tokens": session.max_tokens_json(),
            "audio": {"output": session.output_json()},
            "metadata": order.metadata,
            "usage": None if details is None else self._usage_json(),
        }

    def _usage_json(self) -> Json:
        """By the model's own count of its text tokens; by an estimate where it gave none or was cut short."""
        turn, usage = self._order.turn, self._usage
        if usage is None:
            read = (turn.instructions or self._order.session.instructions) + turn.text
            words = "".join(output.item.text for output in self._outputs)
            usage = Usage(wire.text_tokens(read), 0, wire.text_tokens(words))
        sound_ms = sum(output.item.audio_ms for output in self._outputs)
        heard_ms = len(turn.pcm) * 1000 // PCM_RATE_HZ
        return wire.usage(heard_ms, usage.input_tokens, usage.cached_tokens, sound_ms, usage.output_tokens)


def _part(item: Item) -> Json:
    if item.kind == "output_audio":
        return {"type": "audio", "transcript": item.text}
    return {"type": "text", "text": item.text}


def _failure(code: str, message: str) -> Json:
    return {"type": "server_error", "code": code, "message": message}
