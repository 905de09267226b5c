"""A connection's replies: who answers what, one at a time in the conversation, any number beside it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

import numpy as np

from clients.wire.openai_realtime_server import NewItem, Refusal, ResponseFields
from servers.fronts.openai_realtime.conversation import Conversation, Item, read_item
from servers.fronts.openai_realtime.reply import Reply, ReplyOrder, Wire
from servers.fronts.openai_realtime.session import Session
from servers.speech_model import Pcm, Remembering, SessionSettings, SpeechModel, SpeechModelServer, UserTurn

_NO_SOUND: Pcm = np.empty(0, dtype=np.int16)


@dataclass(frozen=True, slots=True)
class _Context:
    """What one reply answers. said: the turn's items · before: what was said earlier."""

    said: list[Item]
    before: list[Item]


class Replies:
    """The speech model of a connection, and what it says."""

    def __init__(self, server: SpeechModelServer, wire_out: Wire, conversation_id: str) -> None:
        self._server, self._out = server, wire_out
        self._conversation_id = conversation_id
        self.conversation = Conversation()
        self.model: SpeechModel = server.open()
        self._told: SessionSettings | None = None
        self._live: set[Reply] = set()
        self._latest: Reply | None = None
        self._count = 0
        self._resting: set[asyncio.Task[None]] = set()
        self.has_spoken = False

    @property
    def current(self) -> Reply | None:
        """The reply that is being given in the conversation."""
        latest = self._latest
        return latest if latest is not None and latest.active else None

    def configure(self, session: Session) -> None:
        """Tell the model the settings in force. Raises `PeerError` for what it cannot do."""
        self._tell(session.settings())

    def refuse_if_active(self) -> None:
        """Raises `Refusal` while a reply is being given in the conversation."""
        if self.current is not None:
            what = f"the conversation already has an active response ({self.current.id})"
            mend = "Wait for its response.done, or cancel it"
            raise Refusal(what, code="conversation_already_has_active_response", mend=mend)

    async def respond(self, session: Session, fields: ResponseFields, ended_ns: int) -> None:
        """Begin a reply. session: the one in force · ended_ns: when the user's turn was over. Raises `PeerError`."""
        wanted = session.for_reply(fields)
        if fields.conversation not in ("auto", "none"):
            what = f"there is no conversation {fields.conversation!r}"
            raise Refusal(what, code="invalid_value", param="response.conversation", mend='Use "auto" or "none"')
        joins = fields.conversation == "auto"
        if joins and fields.input is not None:
            what = "a reply to items of its own cannot join the conversation here"
            raise Refusal(what, code="invalid_value", param="response.input", mend='Add "conversation": "none"')
        if joins:
            self.refuse_if_active()
        context = self._context(fields)
        turn = _turn(context.said, ended_ns, self._count, fields.instructions, wanted.text_only)
        spoken = [item for item in context.said if item.kind == "input_audio"]
        order = ReplyOrder(
            turn, wanted, spoken[-1] if spoken else None, self._conversation_id if joins else None, fields.metadata
        )
        self._count += 1
        if joins:
            await self._in_turn(order, session, context.said)
        else:
            await self._apart(order, context.before)

    async def cancel(self, reply: Reply, reason: str) -> None:
        """End a reply at once: first the client hears of it, then the model is stopped."""
        await reply.end("cancelled", reason)
        if reply.task is not None:
            reply.task.cancel()

    def find(self, reply_id: str | None) -> Reply | None:
        """The active reply of that id, or the conversation's own for None."""
        if reply_id is None:
            return self.current
        return next((reply for reply in self._live if reply.id == reply_id and reply.active), None)

    def truncate(self, item: Item, audio_end_ms: int) -> None:
        """The user heard only so much of `item`. Raises `Refusal`."""
        if item.kind != "output_audio":
            what = f"the item {item.id!r} is no spoken reply"
            raise Refusal(what, code="item_truncate_invalid_item_id", param="item_id", mend="Truncate replies only")
        if audio_end_ms > item.audio_ms:
            what = f"the audio of this item is {item.audio_ms} ms long, which is less than {audio_end_ms} ms"
            raise Refusal(what, code="invalid_value", param="audio_end_ms", mend="Send what was really played")
        if self._latest is None or self._latest.item(item.id) is None:
            what = "only the latest reply can be truncated here"
            raise Refusal(
                what, code="item_truncate_invalid_item_id", param="item_id", mend="Truncate it before the next"
            )
        self._latest.heard(self.model, item, audio_end_ms)

    def remember(self, item: Item) -> None:
        """Tell the model a line that it is not to answer. Raises `Refusal` if it cannot be told."""
        model = _remembering(self.model, "item.role")
        for waiting in self.conversation.waiting():
            # Typed lines before a seeded one are history, not a question.
            if waiting.kind == "input_text":
                waiting.waiting = False
                model.remember("user", waiting.text)
        model.remember(item.role, item.text)

    async def forget(self, item: Item, session: Session) -> None:
        """Delete an item. What the model has taken in already needs a new model that is told the rest."""
        if not item.waiting:
            self.refuse_if_active()
            if self._latest is not None and self._latest.task is not None and self._latest.lingers:
                await asyncio.wait({self._latest.task})
            rest = [one for one in self.conversation.items if one is not item]
            old, self.model = self.model, self._new_model(session, rest, "item_id")
            self._told = session.settings()
            await old.aclose()
        self.conversation.items.remove(item)

    async def aclose(self) -> None:
        """Stop all work; nothing is announced."""
        tasks = [reply.task for reply in self._live if reply.task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        if self._resting:
            await asyncio.wait(set(self._resting))
        await self.model.aclose()

    # ---- inside ----------------------------------------------------------------------------------------------------

    def _tell(self, settings: SessionSettings) -> None:
        self.model.configure(settings)
        self._told = settings

    def _context(self, fields: ResponseFields) -> _Context:
        items = self.conversation.items
        if fields.input is None:
            return _Context([one for one in items if one.waiting], [one for one in items if not one.waiting])
        given = [self._resolve(one, f"response.input[{index}]") for index, one in enumerate(fields.input)]
        last = len(given)
        while last and given[last - 1].role == "user":
            last -= 1
        return _Context(given[last:], given[:last])

    def _resolve(self, fields: NewItem, param: str) -> Item:
        if fields.type == "item_reference":
            return self.conversation.find(fields.id or "", "retrieve")
        return read_item(fields, "", param)

    async def _in_turn(self, order: ReplyOrder, session: Session, said: list[Item]) -> None:
        model, previous = self.model, self._latest
        wanted = order.session
        # A turn carries its own instructions; what else this reply has of its own, the model must be told. The next
        # one tells it otherwise: by then the session may have changed as well.
        settings = replace(wanted, instructions=session.instructions).settings()
        if settings != (self._told or session.settings()):
            self._tell(settings)
        for item in said:
            item.waiting, item.pcm = False, _NO_SOUND
        reply = Reply(self._out, self.conversation, order)
        self._latest = reply
        self._live.add(reply)
        await reply.begin()
        after = previous.task if previous is not None and previous.lingers else None

        def on_rest() -> None:
            self._live.discard(reply)
            self.has_spoken |= reply.has_audio

        reply.start(model, after=after, on_rest=on_rest)

    async def _apart(self, order: ReplyOrder, before: list[Item]) -> None:
        """A reply with a context of its own: from a model of its own, which is told what was said before."""
        model = self._new_model(order.session, before, "response.input")
        reply = Reply(self._out, self.conversation, order)
        self._live.add(reply)
        await reply.begin()

        def on_rest() -> None:
            self._live.discard(reply)
            task = asyncio.create_task(model.aclose())
            self._resting.add(task)
            task.add_done_callback(self._resting.discard)

        reply.start(model, after=None, on_rest=on_rest)

    def _new_model(self, session: Session, before: list[Item], param: str) -> SpeechModel:
        model = self._server.open()
        model.configure(session.settings())
        lines = [item for item in before if item.text and not item.waiting and item.kind != "function_call"]
        if lines:
            remembering = _remembering(model, param)
            for item in lines:
                remembering.remember(item.role, item.text)
        return model


def _turn(said: list[Item], ended_ns: int, index: int, instructions: str | None, text_only: bool) -> UserTurn:
    sounds = [item.pcm for item in said if item.kind == "input_audio"]
    return UserTurn(
        pcm=np.concatenate(sounds) if sounds else _NO_SOUND,
        ended_ns=ended_ns,
        index=index,
        # Of a spoken item that was answered before only the words are left.
        text="\n".join(item.text for item in said if item.text and not len(item.pcm)),
        instructions=instructions,
        text_only=text_only,
    )


def _remembering(model: SpeechModel, param: str) -> Remembering:
    if not isinstance(model, Remembering):
        what = "this speech model cannot be told what was said before"
        raise Refusal(what, code="invalid_value", param=param, mend="Let the user say it, or type it as a user message")
    return model
