"""The OpenAI Realtime front: what the speech model is told, and how a conversation is edited."""

from __future__ import annotations

import asyncio
import base64

import numpy as np
import pytest

from servers.speech_model import Audio, Text, ToolCall
from tests.support.listening_model import ListeningServer
from tests.support.realtime_client import Json, MemoryClient, in_memory, refused, talk, tone, types
from tests.support.virtual_time import VirtualClock, run_virtual

# ---- what the model is told ----------------------------------------------------------------------------------------


def test_overrides_hold_for_one_reply() -> None:
    server = ListeningServer()

    async def hold(client: MemoryClient) -> None:
        await client.append(tone(200))
        await client.send("input_audio_buffer.commit")
        overrides = {
            "instructions": "Shout.",
            "output_modalities": ["text"],
            "max_output_tokens": 50,
            "metadata": {"a": "b"},
        }
        await client.send("response.create", response=overrides)
        events = await client.until("response.done")
        assert "response.output_audio.delta" not in types(events)
        assert types(events).count("response.output_text.delta") == 2
        response = events[-1]["response"]
        assert response["metadata"] == {"a": "b"}
        assert response["output_modalities"] == ["text"]
        assert response["output"][0]["content"] == [{"type": "output_text", "text": "One two three four."}]
        await asyncio.sleep(1)
        [turn] = server.told.turns
        assert (turn.instructions, turn.text_only) == ("Shout.", True)
        assert server.told.settings[-1].max_output_tokens == 50
        await client.turn()
        assert server.told.settings[-1].max_output_tokens is None
        plain = await client.turn()
        assert "response.output_audio.delta" in types(plain)
        assert server.told.turns[1].instructions is None

    talk(server, hold)


def test_text_turns_and_seeded_lines() -> None:
    server = ListeningServer()

    async def hold(client: MemoryClient) -> None:
        async def line(role: str, kind: str, text: str) -> Json:
            item = {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}
            await client.send("conversation.item.create", item=item)
            return await client.event("conversation.item.done")

        await line("user", "input_text", "What is your name?")
        await line("assistant", "output_text", "Anna.")
        await line("user", "input_text", "And how old are you?")
        await client.send("response.create")
        await client.event("response.done")
        assert server.told.remembered == [("user", "What is your name?"), ("assistant", "Anna.")]
        assert server.told.turns[0].text == "And how old are you?"
        assert len(server.told.turns[0].pcm) == 0

    talk(server, hold)


def test_spoken_items_may_be_created_whole() -> None:
    server = ListeningServer()

    async def hold(client: MemoryClient) -> None:
        audio = base64.b64encode(tone(300).tobytes()).decode()
        item = {"type": "message", "role": "user", "content": [{"type": "input_audio", "audio": audio}]}
        await client.send("conversation.item.create", item=item)
        await client.send("response.create")
        await client.event("response.done")
        assert len(server.told.turns[0].pcm) == 7200

    talk(server, hold)


@pytest.mark.parametrize(
    ("item", "param"),
    [
        ({"type": "function_call_output", "call_id": "c", "output": "1"}, "item.type"),
        ({"type": "message", "role": "robot", "content": [{"type": "input_text", "text": "x"}]}, "item.role"),
        ({"type": "message", "role": "user", "content": []}, "item.content"),
        ({"type": "message", "role": "user", "content": [{"type": "input_image"}]}, "item.content[0].type"),
        ({"type": "message", "role": "user", "content": [{"type": "input_text"}]}, "item.content[0].text"),
        (
            {"type": "message", "role": "user", "content": [{"type": "input_audio", "audio": "*"}]},
            "item.content[0].audio",
        ),
    ],
)
def test_items_that_are_refused(item: Json, param: str) -> None:
    async def hold(client: MemoryClient) -> None:
        assert (await refused(client, "conversation.item.create", item=item))["param"] == param

    talk(ListeningServer(), hold)


def test_two_commits_make_one_turn() -> None:
    server = ListeningServer()

    async def hold(client: MemoryClient) -> None:
        for _ in range(2):
            await client.append(tone(200))
            await client.send("input_audio_buffer.commit")
        await client.send("response.create")
        await client.event("response.done")
        assert len(server.told.turns[0].pcm) == 9600

    talk(server, hold)


def test_samples_cut_in_two_are_joined_and_the_rest_dies_with_the_buffer() -> None:
    server = ListeningServer()

    async def hold(client: MemoryClient) -> None:
        data = tone(200).tobytes()
        for piece in (data[:4063], data[4063:4064], data[4064:]):
            await client.send("input_audio_buffer.append", audio=base64.b64encode(piece).decode())
        await client.send("input_audio_buffer.append", audio=base64.b64encode(b"\x01").decode())
        await client.send("input_audio_buffer.commit")
        await client.send("response.create")
        await client.event("response.done")
        await client.turn(tone(100))
        assert np.array_equal(server.told.turns[0].pcm, tone(200))
        assert np.array_equal(server.told.turns[1].pcm, tone(100))

    talk(server, hold)


@pytest.mark.parametrize("wanted", [True, False])
def test_transcripts_of_the_user_come_where_they_were_asked_for(wanted: bool) -> None:
    async def hold(client: MemoryClient) -> None:
        transcription = {"model": "whisper-1"} if wanted else None
        audio = {"input": {"transcription": transcription}}
        await client.send("session.update", session={"type": "realtime", "audio": audio})
        events = await client.turn()
        completed = [
            event for event in events if event["type"] == "conversation.item.input_audio_transcription.completed"
        ]
        committed = next(event for event in events if event["type"] == "input_audio_buffer.committed")
        assert [(event["item_id"], event["transcript"]) for event in completed] == (
            [(committed["item_id"], "hello there")] if wanted else []
        )
        await client.send("conversation.item.retrieve", item_id=committed["item_id"])
        item = (await client.event("conversation.item.retrieved"))["item"]
        assert item["content"] == [{"type": "input_audio", "transcript": "hello there"}]

    talk(ListeningServer(), hold)


def test_words_that_are_not_spoken_and_tool_calls_are_items_of_their_own() -> None:
    server = ListeningServer(
        Text("Listen. "),
        Audio(np.ones(2400, dtype=np.int16)),
        Text("Table 1", "written"),
        ToolCall("look_up", '{"q":1}'),
        Text("Done."),
    )

    async def hold(client: MemoryClient) -> None:
        events = await client.turn()
        output = events[-1]["response"]["output"]
        assert [item["type"] for item in output] == ["message", "message", "function_call", "message"]
        assert [item["content"][0]["type"] for item in output if item["type"] == "message"] == [
            "output_audio",
            "output_text",
            "output_audio",
        ]
        assert output[2]["arguments"] == '{"q":1}'
        assert [event["output_index"] for event in events if event["type"] == "response.output_item.done"] == [
            0,
            1,
            2,
            3,
        ]
        assert types(events).count("response.function_call_arguments.done") == 1

    talk(server, hold)


# ---- editing -------------------------------------------------------------------------------------------------------


async def _spoken(client: MemoryClient) -> str:
    item: str = (await client.turn())[-1]["response"]["output"][0]["id"]
    await asyncio.sleep(1)
    return item


def test_truncate_tells_the_model_and_forgets_the_words() -> None:
    server = ListeningServer()

    async def hold(client: MemoryClient) -> None:
        item = await _spoken(client)
        cut = {"item_id": item, "content_index": 0, "audio_end_ms": 1000}
        await client.send("conversation.item.truncate", **cut)
        assert (await client.event("conversation.item.truncated"))["audio_end_ms"] == 1000
        assert server.told.heard_ms == [1000]
        await client.send("conversation.item.retrieve", item_id=item)
        content = (await client.event("conversation.item.retrieved"))["item"]["content"]
        assert content == [{"type": "output_audio", "transcript": "One two"}]

    talk(server, hold)


def test_truncate_beyond_what_was_sent_is_refused() -> None:
    async def hold(client: MemoryClient) -> None:
        item = await _spoken(client)
        for end_ms in (2001, 10_000):
            error = await refused(
                client, "conversation.item.truncate", item_id=item, content_index=0, audio_end_ms=end_ms
            )
            assert (error["code"], error["param"]) == ("invalid_value", "audio_end_ms")
            assert "2000 ms" in error["message"]
        await client.send("conversation.item.truncate", item_id=item, content_index=0, audio_end_ms=2000)
        await client.event("conversation.item.truncated")

    talk(ListeningServer(), hold)


def test_a_truncate_right_after_a_cancel_reaches_the_model_when_it_rests() -> None:
    server = ListeningServer(hangs=True)

    async def hold(client: MemoryClient) -> None:
        await client.append(tone(200))
        await client.send("input_audio_buffer.commit")
        await client.send("response.create")
        await client.event("response.output_audio.delta")
        delta = await client.event("response.output_audio.delta")
        await client.send("response.cancel")
        await client.send("conversation.item.truncate", item_id=delta["item_id"], content_index=0, audio_end_ms=700)
        await client.event("conversation.item.truncated")
        assert server.told.heard_ms == []
        await asyncio.sleep(1)
        assert server.told.heard_ms == [700]

    talk(server, hold)


def test_only_the_latest_reply_can_be_truncated_and_only_replies() -> None:
    async def hold(client: MemoryClient) -> None:
        first = await _spoken(client)
        await _spoken(client)
        user = next(m["item_id"] for _, m in client.received if m["type"] == "input_audio_buffer.committed")
        for item_id in (first, user, "item_none"):
            cut = {"item_id": item_id, "content_index": 0, "audio_end_ms": 0}
            error = await refused(client, "conversation.item.truncate", **cut)
            assert error["code"] == "item_truncate_invalid_item_id"

    talk(ListeningServer(), hold)


def test_delete_makes_the_model_forget() -> None:
    server = ListeningServer()

    async def hold(client: MemoryClient) -> None:
        await _spoken(client)
        last = await _spoken(client)
        await client.send("conversation.item.delete", item_id=last)
        await client.event("conversation.item.deleted")
        assert server.told.opened == 2
        assert server.told.closed == 1
        assert server.told.remembered == [
            ("user", "hello there"),
            ("assistant", "One two three four."),
            ("user", "hello there"),
        ]
        assert (await refused(client, "conversation.item.delete", item_id=last))["code"] == (
            "item_delete_invalid_item_id"
        )

    talk(server, hold)


def test_a_waiting_item_is_deleted_before_the_model_ever_hears_it() -> None:
    server = ListeningServer()

    async def hold(client: MemoryClient) -> None:
        await client.append(tone(300))
        await client.send("input_audio_buffer.commit")
        item = (await client.event("input_audio_buffer.committed"))["item_id"]
        await client.send("conversation.item.delete", item_id=item)
        await client.event("conversation.item.deleted")
        await client.turn(tone(100))
        assert (server.told.opened, len(server.told.turns[0].pcm)) == (1, 2400)

    talk(server, hold)


def test_a_reply_beside_the_conversation_leaves_it_alone() -> None:
    server = ListeningServer()

    async def hold(client: MemoryClient) -> None:
        await _spoken(client)
        client.unread()
        question = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Sum it up."}]}
        await client.send("response.create", response={"conversation": "none", "input": [question]})
        events = await client.until("response.done")
        assert not [kind for kind in types(events) if kind.startswith("conversation.")]
        assert events[-1]["response"]["conversation_id"] is None
        assert server.told.turns[-1].text == "Sum it up."
        assert server.told.remembered == []
        await client.send("response.create", response={"conversation": "none"})
        await client.event("response.done")
        assert server.told.remembered == [("user", "hello there"), ("assistant", "One two three four.")]
        await asyncio.sleep(1)
        assert (server.told.opened, server.told.closed) == (3, 2)

    talk(server, hold)


def test_a_reply_beside_one_that_is_active() -> None:
    server = ListeningServer(hangs=True)

    async def hold(client: MemoryClient) -> None:
        await client.append(tone(200))
        await client.send("input_audio_buffer.commit")
        await client.send("response.create")
        main = (await client.event("response.created"))["response"]["id"]
        await client.send("response.create", response={"conversation": "none", "input": []})
        aside = (await client.event("response.created"))["response"]["id"]
        await client.send("response.cancel", response_id=aside)
        assert (await client.event("response.done"))["response"]["id"] == aside
        await client.send("response.cancel")
        assert (await client.event("response.done"))["response"]["id"] == main

    talk(server, hold)


def test_connections_know_nothing_of_each_other() -> None:
    server = ListeningServer()

    async def main(clock: VirtualClock) -> None:
        async with in_memory(server, clock) as one, in_memory(server, clock) as two:
            await one.session(None, instructions="One.")
            await two.session(None, instructions="Two.")
            await one.append(tone(500))
            events = await two.turn(tone(100))
            assert types(one.unread()) == []
            await one.send("input_audio_buffer.commit")
            await one.send("response.create")
            await one.until("response.done")
            assert [len(turn.pcm) for turn in server.told.turns] == [2400, 12_000]
            ids = {event["response_id"] for event in events if "response_id" in event}
            assert not ids & {message.get("response_id") for _, message in one.received}

    run_virtual(main)
