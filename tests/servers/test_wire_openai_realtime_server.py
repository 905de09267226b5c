"""The server's side of the codec: whatever a client sends is read or refused; what we send, our own client reads."""

from __future__ import annotations

import base64
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from clients.wire import openai_realtime as client_side
from clients.wire import openai_realtime_server as wire
from servers.models.behaviour import shipped
from servers.models.metronome import load_metronome
from tests.support.realtime_client import in_memory, tone
from tests.support.virtual_time import VirtualClock, run_virtual

KINDS = [
    "session.update",
    "input_audio_buffer.append",
    "input_audio_buffer.commit",
    "conversation.item.create",
    "conversation.item.truncate",
    "response.create",
    "response.cancel",
    "anything.else",
]
NAMES = st.sampled_from(
    ["session", "audio", "input", "item", "item_id", "content", "response", "type", "role", "event_id", "x"]
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.sampled_from(KINDS),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
NO_TURN_ENDS = {"unfinished", "closes", "resets", "never-greets", "other-dialect", "refuses-session", "refuses-401"}
TAKES_REAL_TIME = {"blocked", "flood"}


@given(kind=st.sampled_from(KINDS), fields=st.dictionaries(NAMES, VALUES, max_size=5))
def test_any_json_is_read_or_refused(kind: str, fields: dict[str, Any]) -> None:
    text = json.dumps({**fields, "type": kind})
    message = wire.decode_client(text)
    if isinstance(message, wire.Refused):
        assert message.problem.code
        assert str(message.problem)
        given_id = fields.get("event_id")
        assert message.event_id == (given_id if isinstance(given_id, str) else "")
        answer = wire.to_text(wire.error(message.problem, message.event_id), "e")
        assert isinstance(client_side.decode_server(answer.encode()), client_side.ErrorEvent)


@given(text=st.text(max_size=40))
def test_any_text_is_refused(text: str) -> None:
    assert isinstance(wire.decode_client(text), wire.Refused)


@given(data=st.binary(max_size=200).filter(lambda data: data[:4] not in (b"RIFF", b"OggS", b"fLaC")))
def test_audio_comes_through(data: bytes) -> None:
    if data.startswith(b"ID3"):
        return
    assert wire.decode_audio(base64.b64encode(data).decode()) == data


def test_our_client_reads_all_that_our_server_sends() -> None:
    kinds = set()

    async def main(clock: VirtualClock) -> None:
        for name in sorted(set(shipped()) - NO_TURN_ENDS - TAKES_REAL_TIME):
            async with in_memory(load_metronome(name, clock=clock), clock) as client:
                await client.session(None)
                for _ in range(4):
                    await client.turn(tone(100))
                for text in client.raw:
                    event = client_side.decode_server(text.encode())
                    kinds.add(type(event))
                    is_garbage = text.startswith(("[", "this is"))
                    assert is_garbage or not isinstance(event, client_side.Malformed), (event, text[:200])

    run_virtual(main)
    assert {client_side.AudioDelta, client_side.ToolCall, client_side.TextDelta, client_side.ResponseDone} <= kinds
