"""The conversation's items as the client sees them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from clients.wire import openai_realtime_server as wire
from clients.wire.openai_realtime import PCM_RATE_HZ
from clients.wire.openai_realtime_server import Content, Json, NewItem, Refusal
from clients.wire.pcm import PcmJoiner
from servers.fronts.openai_realtime.buffer import MAX_HELD_S
from servers.speech_model import Pcm

_TEXT_KINDS = {"user": "input_text", "assistant": "output_text", "system": "input_text"}


@dataclass(slots=True)
class Item:
    """One message, or one function call, of the conversation.

    kind: content type on the wire (input_audio, input_text, output_audio, output_text) or function_call ·
    text: its words, spoken or written; the arguments of a call · audio_samples: length of its sound ·
    waiting: said by the user and not answered yet · pcm: its sound, kept only while it waits.
    """

    id: str
    role: str
    kind: str
    text: str = ""
    status: str = "completed"
    audio_samples: int = 0
    waiting: bool = False
    pcm: Pcm = field(default_factory=lambda: np.empty(0, dtype=np.int16))
    call_id: str = ""
    function: str = ""

    @property
    def audio_ms(self) -> int:
        return self.audio_samples * 1000 // PCM_RATE_HZ

    def to_json(self, *, empty: bool = False) -> Json:
        """empty: as it stands before its first word."""
        if self.kind == "function_call":
            return wire.call_item(self.id, self.status, self.call_id, self.function, "" if empty else self.text)
        return wire.message_item(self.id, self.role, self.status, [] if empty else [self._content()])

    def _content(self) -> Json:
        if self.kind in ("input_audio", "output_audio"):
            unknown = self.kind == "input_audio" and not self.text
            return {"type": self.kind, "transcript": None if unknown else self.text}
        return {"type": self.kind, "text": self.text}

    def cut(self, audio_end_ms: int) -> None:
        """Keep what was said in the first `audio_end_ms`; of the words as many whole ones as fit in proportion."""
        samples = audio_end_ms * PCM_RATE_HZ // 1000
        if samples < self.audio_samples:
            self.text = self.text[: len(self.text) * samples // self.audio_samples].rpartition(" ")[0]
            self.audio_samples = samples


class Conversation:
    """Items in order, each with an id of its own."""

    def __init__(self) -> None:
        self.items: list[Item] = []

    @property
    def last_id(self) -> str | None:
        return self.items[-1].id if self.items else None

    def add(self, item: Item) -> str | None:
        """Append; returns the id of the item before it."""
        previous = self.last_id
        self.items.append(item)
        return previous

    def previous_id(self, item: Item) -> str | None:
        """The id of the item before `item`, which is in the conversation."""
        index = next(index for index, one in enumerate(self.items) if one is item)
        return self.items[index - 1].id if index else None

    def find(self, item_id: str, action: Literal["delete", "retrieve", "truncate"]) -> Item:
        """Raises `Refusal` if there is no such item."""
        for item in self.items:
            if item.id == item_id:
                return item
        code = f"item_{action}_invalid_item_id"
        raise Refusal(f"there is no item {item_id!r}", code=code, param="item_id", mend="Use the id of a live item")

    def waiting(self) -> list[Item]:
        return [item for item in self.items if item.waiting]

    @property
    def waiting_samples(self) -> int:
        """Audio that is kept for the next reply."""
        return sum(len(item.pcm) for item in self.items)

    def check_room(self, item: Item) -> None:
        """Raises `Refusal` if more audio than the limit would wait for a reply."""
        if len(item.pcm) and self.waiting_samples + len(item.pcm) > MAX_HELD_S * PCM_RATE_HZ:
            what = f"{MAX_HELD_S // 60} minutes of audio wait for a reply"
            raise Refusal(what, code="input_audio_buffer_full", param="item.content", mend="Ask for the reply")

    def check_place(self, fields: NewItem, previous_item_id: str | None) -> None:
        """Raises `Refusal` unless the new item would stand at the end, under an id that is free."""
        if previous_item_id is not None and previous_item_id != self.last_id:
            what = "items can only be added at the end of the conversation here"
            code, param = "item_create_invalid_previous_item_id", "previous_item_id"
            raise Refusal(what, code=code, param=param, mend="Leave previous_item_id out")
        if fields.id and any(item.id == fields.id for item in self.items):
            what = f"there is an item {fields.id!r} already"
            raise Refusal(what, code="item_create_duplicate_item_id", param="item.id", mend="Choose another id")


def read_item(fields: NewItem, new_id: str, param: str = "item") -> Item:
    """An item as a client gives it. Raises `Refusal` for all but messages of text, and user messages of audio."""
    if fields.type != "message":
        what = f"items of type {fields.type!r} are not served here"
        raise Refusal(what, code="invalid_value", param=f"{param}.type", mend='Use "message"')
    role = fields.role or ""
    if role not in _TEXT_KINDS:
        what = f"role {role!r} is not known"
        raise Refusal(what, code="invalid_value", param=f"{param}.role", mend="Use user, assistant or system")
    if not fields.content:
        what = "a message needs content"
        raise Refusal(what, code="missing_required_parameter", param=f"{param}.content", mend="Add a part")
    item = Item(fields.id or new_id, role, _TEXT_KINDS[role], waiting=role == "user")
    sounds: list[Pcm] = []
    for index, part in enumerate(fields.content):
        place = f"{param}.content[{index}]"
        if role == "user" and part.type == "input_audio":
            sounds.append(_sound(part, place))
        else:
            item.text += _words(part, role, place)
    if sounds:
        item.kind, item.pcm = "input_audio", np.concatenate(sounds)
        item.audio_samples = len(item.pcm)
    return item


def _sound(part: Content, place: str) -> Pcm:
    return PcmJoiner().feed(wire.decode_audio(part.audio or "", f"{place}.audio"))


def _words(part: Content, role: str, place: str) -> str:
    if part.type != _TEXT_KINDS[role]:
        what = f"content of type {part.type!r} is not served here in a message of the {role}"
        raise Refusal(what, code="invalid_value", param=f"{place}.type", mend=f"Use {_TEXT_KINDS[role]}")
    if part.text is None:
        raise Refusal("text is missing", code="missing_required_parameter", param=f"{place}.text", mend="Add it")
    return part.text
