"""Rude clients against the front: in memory with anything that JSON can say, and on sockets with bad manners."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from clients.wire import openai_realtime as wire
from clients.wire import openai_realtime_server as server_wire
from servers.app import serve
from servers.fronts import websocket as shell
from servers.fronts.openai_realtime import conversation, hearing
from servers.models.behaviour import Behaviour, ReplyPlan
from servers.models.cascade_history import History
from servers.models.metronome import MetronomeServer
from servers.speech_model import Audio, Text, Usage
from tests.support.listening_model import ListeningServer
from tests.support.realtime_client import (
    EVENT_TYPES,
    Json,
    MemoryClient,
    in_memory,
    refused,
    silence,
    talk,
    tone,
    types,
)
from tests.support.virtual_time import VirtualClock, run_virtual

QUICK = ReplyPlan(delay_ms=1, duration_ms=40, packet_ms=20, pace="burst")

# ---- anything that JSON can say ------------------------------------------------------------------------------------

_NAMES = [
    *("type", "event_id", "session", "audio", "input", "output", "format", "rate", "turn_detection", "threshold"),
    *("silence_duration_ms", "prefix_padding_ms", "transcription", "voice", "speed", "instructions", "tools", "item"),
    *("item_id", "content", "content_index", "audio_end_ms", "role", "text", "response", "conversation", "metadata"),
    *("output_modalities", "max_output_tokens", "previous_item_id", "response_id", "id", "call_id", "prompt", "x\ny"),
]
_KINDS = [
    *("session.update", "input_audio_buffer.append", "input_audio_buffer.commit", "input_audio_buffer.clear"),
    *("conversation.item.create", "conversation.item.delete", "conversation.item.retrieve", "response.create"),
    *("conversation.item.truncate", "response.cancel", "output_audio_buffer.clear"),
]
_WORDS = [
    *("realtime", "server_vad", "semantic_vad", "message", "user", "assistant", "system", "input_text", "input_audio"),
    *("output_text", "item_reference", "none", "auto", "inf", "text", "audio", "audio/pcm", "metronome", "AAAA", "AAA"),
    *("a\nb", "`", "it's - at `$.x`", "\ud800"),
]
_leaves = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.sampled_from(_WORDS), st.text(max_size=20),
    st.integers(-(10**30), 10**30),
)  # fmt: skip
_values = st.recursive(
    _leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(_NAMES), inner, max_size=4),
    max_leaves=12,
)
_messages = st.fixed_dictionaries(
    {"type": st.sampled_from(_KINDS) | _leaves, "event_id": st.sampled_from(["mine", "e\n2"])},
).flatmap(lambda base: st.dictionaries(st.sampled_from(_NAMES[2:]), _values, max_size=4).map(lambda more: base | more))


def _cut(document: Json, choice: st.DataObject) -> Json:
    """A good message with one of its values, anywhere inside, replaced or taken out."""
    copy: Json = json.loads(json.dumps(document))
    place: Any = copy
    while True:
        keys = [key for key in place if key != "event_id"] if isinstance(place, dict) else list(range(len(place)))
        key = choice.draw(st.sampled_from(keys))
        if isinstance(place[key], dict | list) and place[key] and choice.draw(st.booleans()):
            place = place[key]
            continue
        if choice.draw(st.booleans()) and isinstance(place, dict):
            del place[key]
        else:
            place[key] = choice.draw(_values)
        return copy


_ITEM = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi."}]}
_TURNS = {"type": "server_vad", "threshold": 0.5, "prefix_padding_ms": 300, "silence_duration_ms": 500}
_INPUT = {"format": {"type": "audio/pcm", "rate": 24000}, "turn_detection": _TURNS, "transcription": {"model": "m"}}
_OUTPUT = {"voice": "metronome", "speed": 1.0, "format": {"type": "audio/pcm", "rate": 24000}}
_SESSION = {"type": "realtime", "instructions": "x", "audio": {"input": _INPUT, "output": _OUTPUT}, "tools": []}
_RESPONSE = {"conversation": "none", "input": [_ITEM, {"type": "item_reference", "id": "x"}], "metadata": {"a": "b"}}
_GOOD: list[Json] = [
    {"type": "session.update", "event_id": "mine", "session": _SESSION},
    {"type": "conversation.item.create", "event_id": "mine", "item": _ITEM, "previous_item_id": None},
    {"type": "conversation.item.truncate", "event_id": "mine", "item_id": "x", "content_index": 0, "audio_end_ms": 1},
    {"type": "response.create", "event_id": "mine", "response": _RESPONSE},
    {"type": "input_audio_buffer.append", "event_id": "mine", "audio": "AAAA"},
]


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.data())
def test_whatever_a_client_sends_the_session_lives_and_every_error_names_its_message(data: st.DataObject) -> None:
    batch = data.draw(st.lists(_messages, max_size=8))
    batch += [_cut(good, data) for good in data.draw(st.lists(st.sampled_from(_GOOD), max_size=8))]

    async def hold(client: MemoryClient) -> None:
        for message in batch:
            await client.send_text(json.dumps(message))
            event_id = message.get("event_id")
            for event in client.unread():
                if event["type"] == "error":
                    error = event["error"]
                    assert error["event_id"] == event_id, error
                    assert error["code"] != "server_error", error
        for text in client.raw:
            text.encode()  # else the connection would break where it is written
        await client.session(None)
        await client.send("input_audio_buffer.clear")
        client.unread()
        await client.append(tone(200))
        await client.send("input_audio_buffer.commit")
        await client.send("response.create")
        events = await client.until(lambda event: event["type"] == "response.done")
        assert "error" not in types(events) or events[-1]["type"] == "response.done"

    async def main(clock: VirtualClock) -> None:
        async with in_memory(MetronomeServer(Behaviour(reply=QUICK), clock), clock) as client:
            await hold(client)

    run_virtual(main)


@settings(max_examples=200)
@given(st.text() | st.binary().map(lambda raw: raw.decode("utf-8", "replace")))
def test_any_text_at_all_is_read_or_refused(text: str) -> None:
    read = server_wire.decode_client(text)
    assert isinstance(read, server_wire.Refused)
    server_wire.to_text(server_wire.error(read.problem, read.event_id), "e").encode()


@pytest.mark.parametrize(
    ("message", "code", "param"),
    [
        ({"type": "a\nb"}, "invalid_value", "type"),
        ({"type": "it's - at `$.x`"}, "invalid_value", "type"),
        ({"type": "response.cancel", "a\nb": 1}, "unknown_parameter", "a\nb"),
        ({"type": "response.cancel", "": 1}, "unknown_parameter", None),
        ({"type": "response.create", "response": {"a` - at `$.b": 1}}, "unknown_parameter", "response.a` - at `$.b"),
        ({"type": "session.update", "session": {}}, "missing_required_parameter", "session.type"),
    ],
)
def test_odd_names_are_named_as_they_are(message: Json, code: str, param: str | None) -> None:
    async def hold(client: MemoryClient) -> None:
        client.unread()
        await client.send_text(json.dumps({"event_id": "mine", **message}))
        [event] = client.unread()
        error = event["error"]
        assert (error["code"], error["param"], error["event_id"]) == (code, param, "mine")

    talk(ListeningServer(), hold)


def test_an_error_does_not_repeat_megabytes() -> None:
    async def hold(client: MemoryClient) -> None:
        error = await refused(client, "conversation.item.retrieve", item_id="x" * 2**20)
        assert len(error["message"]) < 500

    talk(ListeningServer(), hold)


# ---- conversations -------------------------------------------------------------------------------------------------


def test_settings_changed_during_a_reply_with_overrides_stay_changed() -> None:
    server = ListeningServer()

    async def hold(client: MemoryClient) -> None:
        await client.append(tone(200))
        await client.send("input_audio_buffer.commit")
        await client.send("response.create", response={"max_output_tokens": 50})
        await client.session(None, instructions="Be brief.", max_output_tokens=70)
        await client.event("response.done")
        await client.turn()
        told = server.told.settings[-1]
        assert (told.instructions, told.max_output_tokens) == ("Be brief.", 70)

    talk(server, hold)


def test_a_reference_to_a_spoken_turn_brings_its_words() -> None:
    server = ListeningServer()

    async def hold(client: MemoryClient) -> None:
        await client.session(None, audio={"input": {"turn_detection": None, "transcription": {"model": "any"}}})
        await client.append(tone(200))
        await client.send("input_audio_buffer.commit")
        item_id = (await client.event("conversation.item.done"))["item"]["id"]
        await client.send("response.create")
        await client.event("response.done")
        given: Json = {"conversation": "none", "input": [{"type": "item_reference", "id": item_id}]}
        await client.send("response.create", response=given)
        await client.event("response.done")
        assert len(server.told.turns[0].pcm) == 4800
        assert server.told.turns[1].text != ""

    talk(server, hold)


def test_usage_is_the_models_own_count_where_it_counts() -> None:
    async def hold(client: MemoryClient) -> None:
        usage = (await client.turn())[-1]["response"]["usage"]
        assert usage["input_token_details"]["text_tokens"] == 70
        assert usage["input_token_details"]["audio_tokens"] == 2
        assert usage["input_token_details"]["cached_tokens"] == 50
        assert usage["output_token_details"] == {"text_tokens": 9, "audio_tokens": 2}
        assert (usage["input_tokens"], usage["output_tokens"], usage["total_tokens"]) == (72, 11, 83)

    talk(ListeningServer(Text("Yes."), Audio(tone(100)), Usage(70, 50, 9)), hold)


def test_audio_that_nobody_asks_about_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hearing, "MAX_HELD_S", 1)
    monkeypatch.setattr(conversation, "MAX_HELD_S", 1)

    async def hold(client: MemoryClient) -> None:
        for _ in range(3):
            await client.append(tone(300))
            await client.send("input_audio_buffer.commit")
        audio = wire.append(tone(300))
        error = await refused(client, "input_audio_buffer.append", audio=json.loads(audio)["audio"])
        assert error["code"] == "input_audio_buffer_full"
        part = {"type": "input_audio", "audio": json.loads(audio)["audio"]}
        item = {"type": "message", "role": "user", "content": [part]}
        assert (await refused(client, "conversation.item.create", item=item))["code"] == "input_audio_buffer_full"
        await client.send("response.create")
        await client.event("response.done")
        await client.append(silence(900))
        await client.send("input_audio_buffer.commit")
        assert types(client.unread())[0] == "input_audio_buffer.committed"

    talk(ListeningServer(), hold)


# ---- bad manners on sockets ----------------------------------------------------------------------------------------


@pytest.mark.sockets
async def test_a_client_that_pings_and_never_reads_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shell, "MAX_UNREAD_BYTES", 2**16)
    async with serve(MetronomeServer(Behaviour(reply=QUICK))) as server, connect(server.url) as ws:
        assert await (await ws.ping()) >= 0
        ws.transport.pause_reading()
        frame = b"\x89\xfd" + b"\x00\x00\x00\x00" + b"p" * 125
        async with asyncio.timeout(30):
            while len(server.connections):
                ws.transport.write(frame * 2000)
                await asyncio.sleep(0.001)
        ws.transport.abort()


@pytest.mark.sockets
async def test_keys_come_in_the_ways_that_clients_have() -> None:
    async with serve(MetronomeServer(Behaviour(reply=QUICK)), api_key="sesame") as server:
        good: list[Json] = [
            {"additional_headers": {"Authorization": "bearer sesame", "OpenAI-Beta": "realtime=v1"}},
            {"subprotocols": ["realtime", "openai-insecure-api-key.sesame", "openai-beta.realtime-v1"]},
        ]
        for options in good:
            async with connect(f"{server.url}?model=any", **options) as ws:
                assert json.loads(await ws.recv())["type"] == "session.created"
                assert ws.subprotocol == ("realtime" if "subprotocols" in options else None)
        bad: list[Json] = [
            {},
            {"additional_headers": {"Authorization": "Bearer \u00ff"}},
            {"additional_headers": {"Authorization": "Bearer"}},
            {"subprotocols": ["realtime", "openai-insecure-api-key.open"]},
        ]
        for options in bad:
            with pytest.raises(InvalidStatus) as answer:
                await connect(server.url, **options)
            assert answer.value.response.status_code == 401
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        writer.write(b"GET /v1/realtime HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer \xff\xfe\r\n\r\n")
        assert b" 401 " in await reader.readline()
        writer.close()


@pytest.mark.sockets
async def test_plain_http_and_idle_crowds_disturb_nobody() -> None:
    async with serve(MetronomeServer(Behaviour(reply=QUICK))) as server, aiohttp.ClientSession() as http:
        place = server.url.replace("ws:", "http:")
        async with http.get(place) as answer:
            assert answer.status == 400
        async with http.post(place) as answer:
            assert answer.status == 405
        halves = [await asyncio.open_connection("127.0.0.1", server.port) for _ in range(50)]
        for _, writer in halves:
            writer.write(b"GET /v1/realtime HTTP/1.1\r\nHost:")
        idle = [await connect(server.url) for _ in range(100)]
        async with connect(server.url) as ws:
            await ws.send(wire.session_update(event_id="s", server_vad=None, voice="", instructions=""))
            await ws.send(wire.append(tone(200)))
            await ws.send(wire.commit("c"))
            await ws.send(wire.create_response("r"))
            seen = [""]
            while seen[-1] != "response.done":
                seen.append(json.loads(await ws.recv())["type"])
                assert seen[-1] in EVENT_TYPES
                assert seen[-1] != "error"
        for client in idle:
            client.transport.abort()
        for _, writer in halves:
            writer.close()


# ---- long conversations --------------------------------------------------------------------------------------------


def test_forgetting_makes_room_for_many_turns() -> None:
    """Each time that old turns are forgotten the model reads all that is left anew: it must not be at every turn."""
    history = History()
    beginnings: list[str] = []
    for number in range(60):
        history.add("user", f"{number} " + "word " * 60)
        messages = history.messages("Be brief.", 2000)
        assert messages[-1]["content"].startswith(f"{number} ")
        assert sum(len(message["content"]) // 3 for message in messages) <= 2000
        beginnings.append(messages[1]["content"])
        history.begin_reply().said("Yes.")
    assert len(set(beginnings)) <= 8
