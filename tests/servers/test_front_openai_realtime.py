"""The OpenAI Realtime front. Every event that it sends is checked by the schema of the `openai` package."""

from __future__ import annotations

import asyncio
import base64
import json

import numpy as np
import pytest

from clients.wire import openai_realtime_server as wire
from servers.speech_model import Audio, Fault, RawAudio, Text
from sessions.errors import PeerError
from tests.support.listening_model import ListeningServer
from tests.support.realtime_client import Json, MemoryClient, in_memory, refused, sound, talk, tone, types
from tests.support.virtual_time import VirtualClock, run_virtual

A_REPLY = [
    "response.created",
    "response.output_item.added",
    "conversation.item.added",
    "response.content_part.added",
    "response.output_audio_transcript.delta",
    "response.output_audio.delta",
    "response.output_audio_transcript.delta",
    "response.output_audio.delta",
    "response.output_audio.done",
    "response.output_audio_transcript.done",
    "response.content_part.done",
    "response.output_item.done",
    "conversation.item.done",
    "response.done",
]


def test_the_server_speaks_first_and_shows_the_defaults() -> None:
    async def main(clock: VirtualClock) -> None:
        async with in_memory(ListeningServer(), clock, greeted=False) as client:
            session = client.received[0][1]["session"]
            assert types([message for _, message in client.received]) == ["session.created"]
            assert session["output_modalities"] == ["audio"]
            assert session["audio"]["input"]["format"] == {"type": "audio/pcm", "rate": 24_000}
            vad = session["audio"]["input"]["turn_detection"]
            assert (vad["type"], vad["threshold"], vad["prefix_padding_ms"], vad["silence_duration_ms"]) == (
                "server_vad",
                0.5,
                300,
                500,
            )
            assert session["audio"]["output"]["voice"] == "anna"

    run_virtual(main)


def test_events_of_a_manual_turn_in_order() -> None:
    server = ListeningServer()

    async def hold(client: MemoryClient) -> None:
        for number in range(2):
            events = await client.turn()
            assert types(events) == [
                "input_audio_buffer.committed",
                "conversation.item.added",
                "conversation.item.done",
                *A_REPLY,
            ]
            response = events[-1]["response"]
            assert response["status"] == "completed"
            assert response["output"][0]["content"] == [{"type": "output_audio", "transcript": "One two three four."}]
            assert response["usage"]["output_token_details"]["audio_tokens"] == 40
            assert len(sound(events)) == 48_000
            ids = {event["response_id"] for event in events if "response_id" in event}
            assert ids == {response["id"]}
            chain = [event for event in events if event["type"] == "conversation.item.added"]
            assert chain[1]["previous_item_id"] == chain[0]["item"]["id"] == events[0]["item_id"]
            assert (chain[0]["previous_item_id"] is None) == (number == 0)
        assert [turn.index for turn in server.told.turns] == [0, 1]
        assert [len(turn.pcm) for turn in server.told.turns] == [4800, 4800]

    talk(server, hold)


def test_event_ids_are_unique() -> None:
    async def hold(client: MemoryClient) -> None:
        await client.turn()
        ids = [message["event_id"] for _, message in client.received]
        assert len(ids) == len(set(ids))

    talk(ListeningServer(), hold)


def test_each_piece_of_audio_is_one_packet() -> None:
    sizes = [1, 240, 0, 7919]
    server = ListeningServer(*(Audio(np.ones(size, dtype=np.int16)) for size in sizes))

    async def hold(client: MemoryClient) -> None:
        deltas = [event for event in await client.turn() if event["type"] == "response.output_audio.delta"]
        assert [len(base64.b64decode(delta["delta"])) // 2 for delta in deltas] == sizes
        logged = [entry.samples for entry in client.write_log.entries if entry.type == "response.output_audio.delta"]
        assert logged == sizes

    talk(server, hold)


def test_raw_bytes_count_a_sample_when_its_second_byte_leaves() -> None:
    server = ListeningServer(RawAudio(b"\x01"), RawAudio(b"\x02\x03\x04"), RawAudio(b""), RawAudio(b"\x05"))

    async def hold(client: MemoryClient) -> None:
        await client.turn()
        logged = [entry.samples for entry in client.write_log.entries if entry.type == "response.output_audio.delta"]
        assert logged == [0, 2, 0, 0]

    talk(server, hold)


# ---- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("session", "code", "param"),
    [
        ({}, "missing_required_parameter", "session.type"),
        ({"type": "transcription"}, "invalid_value", "session.type"),
        ({"type": "realtime", "temperature": 0.8}, "unknown_parameter", "session.temperature"),
        ({"type": "realtime", "output_modalities": ["audio", "text"]}, "invalid_value", "session.output_modalities"),
        ({"type": "realtime", "output_modalities": ["video"]}, "invalid_value", "session.output_modalities[0]"),
        ({"type": "realtime", "instructions": 3}, "invalid_type", "session.instructions"),
        ({"type": "realtime", "max_output_tokens": 0}, "invalid_value", "session.max_output_tokens"),
        ({"type": "realtime", "tools": [{"type": "function"}]}, "invalid_value", "session.tools"),
        ({"type": "realtime", "prompt": {"id": "p"}}, "invalid_value", "session.prompt"),
    ],
)
def test_session_fields_that_are_refused(session: Json, code: str, param: str) -> None:
    async def hold(client: MemoryClient) -> None:
        error = await refused(client, "session.update", session=session)
        assert (error["code"], error["param"]) == (code, param)
        assert (await client.turn())[-1]["response"]["status"] == "completed"

    talk(ListeningServer(), hold)


_VAD = "session.audio.input.turn_detection"


@pytest.mark.parametrize(
    ("audio", "code", "param", "word"),
    [
        ({"input": {"format": {"type": "audio/pcmu"}}}, "invalid_value", "session.audio.input.format.type", "pcmu"),
        (
            {"input": {"format": {"type": "audio/pcm", "rate": 16000}}},
            "invalid_value",
            "session.audio.input.format.rate",
            "16000",
        ),
        ({"output": {"format": {"type": "audio/pcma"}}}, "invalid_value", "session.audio.output.format.type", "pcma"),
        ({"output": {"speed": 1.2}}, "invalid_value", "session.audio.output.speed", "1.2"),
        ({"output": {"voice": {"id": "v"}}}, "invalid_value", "session.audio.output.voice", "custom"),
        ({"output": {"voice": "zoe"}}, "invalid_value", None, "anna, ben"),
        ({"input": {"turn_detection": {"type": "semantic_vad"}}}, "invalid_value", f"{_VAD}.type", "semantic_vad"),
        ({"input": {"turn_detection": {"type": "magic"}}}, "invalid_value", f"{_VAD}.type", "magic"),
        (
            {"input": {"turn_detection": {"type": "server_vad", "threshold": 1.5}}},
            "invalid_value",
            f"{_VAD}.threshold",
            "1.0",
        ),
        (
            {"input": {"turn_detection": {"type": "server_vad", "idle_timeout_ms": 5000}}},
            "invalid_value",
            f"{_VAD}.idle_timeout_ms",
            "idle",
        ),
        (
            {"input": {"turn_detection": {"type": "server_vad", "eagerness": "low"}}},
            "invalid_value",
            f"{_VAD}.eagerness",
            "semantic_vad",
        ),
        ({"input": {"gain": 2}}, "unknown_parameter", "session.audio.input.gain", "gain"),
    ],
)
def test_audio_settings_that_are_refused(audio: Json, code: str, param: str | None, word: str) -> None:
    async def hold(client: MemoryClient) -> None:
        error = await refused(client, "session.update", session={"type": "realtime", "audio": audio})
        assert (error["code"], error["param"]) == (code, param)
        assert word in error["message"]

    talk(ListeningServer(), hold)


def test_a_refused_update_changes_nothing_and_a_granted_one_only_what_it_names() -> None:
    server = ListeningServer()

    async def hold(client: MemoryClient) -> None:
        bad = {"type": "realtime", "instructions": "new", "audio": {"output": {"voice": "zoe"}}}
        await refused(client, "session.update", session=bad)
        await client.send("session.update", session={"type": "realtime", "audio": {"output": {"voice": "ben"}}})
        session = (await client.event("session.updated"))["session"]
        assert (session["instructions"], session["audio"]["output"]["voice"]) == ("", "ben")
        assert session["audio"]["input"]["turn_detection"] is None
        assert server.told.settings[-1].voice == "ben"

    talk(server, hold)


def test_the_voice_is_fixed_once_it_was_heard() -> None:
    async def hold(client: MemoryClient) -> None:
        await client.turn()
        await asyncio.sleep(1)
        other = {"type": "realtime", "audio": {"output": {"voice": "ben"}}}
        assert (await refused(client, "session.update", session=other))["code"] == "cannot_update_voice"

    talk(ListeningServer(), hold)


def _wav() -> str:
    return base64.b64encode(b"RIFF\x24\x08\x00\x00WAVEfmt " + bytes(2000)).decode()


@pytest.mark.parametrize(
    ("audio", "word"),
    [
        (_wav(), "WAV"),
        (base64.b64encode(b"OggS" + bytes(100)).decode(), "Ogg"),
        ("AAA*AAAA", "'*'"),
        ("AAAAAA", "padding"),
        ("AAAA\nAAAA", "line breaks"),
        ("AA-_", "url-safe"),
        ("A" * (15 * 2**20 + 4), "15 MiB"),
    ],
)
def test_audio_that_is_refused_and_then_a_normal_turn(audio: str, word: str) -> None:
    server = ListeningServer()

    async def hold(client: MemoryClient) -> None:
        error = await refused(client, "input_audio_buffer.append", audio=audio)
        assert (error["code"], error["param"]) == ("invalid_value", "audio")
        assert word in error["message"]
        assert (await client.turn())[-1]["response"]["status"] == "completed"
        assert len(server.told.turns[0].pcm) == 4800, "nothing of the refused audio may stay"

    talk(server, hold)


@pytest.mark.parametrize("held_ms", [0, 50, 99])
def test_a_commit_of_too_little_is_an_error_and_keeps_the_buffer(held_ms: int) -> None:
    server = ListeningServer()

    async def hold(client: MemoryClient) -> None:
        await client.append(tone(held_ms))
        error = await refused(client, "input_audio_buffer.commit")
        assert error["code"] == "input_audio_buffer_commit_empty"
        assert f"{held_ms}.00 ms" in error["message"]
        assert (await client.turn())[-1]["response"]["status"] == "completed"
        assert len(server.told.turns[0].pcm) == 4800 + held_ms * 24

    talk(server, hold)


def test_more_than_the_buffer_holds_is_refused_until_it_is_cleared() -> None:
    async def hold(client: MemoryClient) -> None:
        minutes = np.zeros(24_000 * 120, dtype=np.int16)
        for _ in range(5):
            await client.append(minutes)
        error = await refused(client, "input_audio_buffer.append", audio="AAAA")
        assert error["code"] == "input_audio_buffer_full"
        await client.send("input_audio_buffer.clear")
        await client.event("input_audio_buffer.cleared")
        assert (await client.turn())[-1]["response"]["status"] == "completed"

    talk(ListeningServer(), hold)


@pytest.mark.parametrize(
    ("text", "code", "event_id"),
    [
        ("{", "invalid_json", None),
        ("not json", "invalid_json", None),
        ("[1]", "invalid_type", None),
        ('{"event_id":"x"}', "missing_required_parameter", "x"),
        ('{"type":"response.make","event_id":"x"}', "invalid_value", "x"),
        ('{"type":"response.create","respond":1,"event_id":"x"}', "unknown_parameter", "x"),
        ('{"type":"input_audio_buffer.append","event_id":"x"}', "missing_required_parameter", "x"),
        ('{"type":"output_audio_buffer.clear","event_id":"x"}', "invalid_value", "x"),
        ("[" * 100_000, "invalid_type", None),
        ('{"type":"session.update","session":{"type":"realtime","tracing":' + "[" * 100_000, "invalid_json", None),
    ],
)
def test_messages_that_are_no_messages(text: str, code: str, event_id: str | None) -> None:
    async def hold(client: MemoryClient) -> None:
        client.unread()
        await client.send_text(text)
        [event] = client.unread()
        assert (event["error"]["code"], event["error"]["event_id"]) == (code, event_id)
        assert (await client.turn())[-1]["response"]["status"] == "completed"

    talk(ListeningServer(), hold)


# ---- one reply at a time -------------------------------------------------------------------------------------------


def test_a_second_response_while_one_is_active_is_refused() -> None:
    server = ListeningServer(hangs=True)

    async def hold(client: MemoryClient) -> None:
        await client.append(tone(200))
        await client.send("input_audio_buffer.commit")
        await client.send("response.create")
        await asyncio.sleep(0.1)
        error = await refused(client, "response.create")
        assert error["code"] == "conversation_already_has_active_response"
        assert len(server.told.turns) == 1

    talk(server, hold)


def test_cancel_ends_the_reply_at_once_and_the_next_waits_until_the_model_rests() -> None:
    server = ListeningServer(hangs=True)

    async def hold(client: MemoryClient) -> None:
        await client.append(tone(200))
        await client.send("input_audio_buffer.commit")
        await client.send("response.create")
        await client.event("response.output_audio.delta")
        cancelled_ns = client.clock.now_ns()
        await client.send("response.cancel")
        events = await client.until("response.done")
        assert client.received[-1][0] == cancelled_ns
        response = events[-1]["response"]
        assert response["status"] == "cancelled"
        assert response["status_details"] == {"type": "cancelled", "reason": "client_cancelled"}
        assert response["output"][0]["status"] == "incomplete"
        assert types(events)[-6:-1] == A_REPLY[-6:-1]
        server.hangs = False
        assert (await client.turn())[-1]["response"]["status"] == "completed"
        # The model took 50 ms to stop; the second reply was announced at once, and asked of the model after that.
        assert server.told.stopped >= 1
        assert server.told.turns[1].ended_ns == cancelled_ns

    talk(server, hold)


def test_a_response_cancelled_before_it_began_leaves_nothing() -> None:
    server = ListeningServer()

    async def hold(client: MemoryClient) -> None:
        await client.append(tone(200))
        await client.send("input_audio_buffer.commit")
        await client.send("response.create")
        await client.send("response.cancel")
        done = (await client.event("response.done"))["response"]
        assert (done["status"], done["output"]) == ("cancelled", [])
        assert (await client.turn())[-1]["response"]["status"] == "completed"

    talk(server, hold)


def test_cancel_with_nothing_running_and_of_an_unknown_response() -> None:
    async def hold(client: MemoryClient) -> None:
        assert (await refused(client, "response.cancel"))["code"] == "response_cancel_not_active"
        await client.turn()
        error = await refused(client, "response.cancel", response_id="resp_none")
        assert error["code"] == "response_cancel_not_active"

    talk(ListeningServer(), hold)


def test_a_disconnect_stops_the_model() -> None:
    server = ListeningServer(hangs=True)

    async def hold(client: MemoryClient) -> None:
        await client.append(tone(200))
        await client.send("input_audio_buffer.commit")
        await client.send("response.create")
        await client.event("response.output_audio.delta")

    talk(server, hold)
    assert (server.told.stopped, server.told.closed) == (1, 1)


def test_a_model_that_breaks_costs_its_reply_only() -> None:
    server = ListeningServer(Text("I am"), RuntimeError("engine on fire"))

    async def hold(client: MemoryClient) -> None:
        response = (await client.turn())[-1]["response"]
        assert response["status"] == "failed"
        assert "engine on fire" in response["status_details"]["error"]["message"]
        server.pieces = (PeerError("quota", code="rate_limit_exceeded"),)
        error = (await client.turn())[-1]["response"]["status_details"]["error"]
        assert error["code"] == "rate_limit_exceeded"
        server.pieces = (Text("Fine."),)
        assert (await client.turn())[-1]["response"]["status"] == "completed"

    talk(server, hold)


# ---- the wire ------------------------------------------------------------------------------------------------------


def test_every_client_message_of_our_own_codec_is_understood() -> None:
    from clients.wire import openai_realtime as ours

    update = ours.session_update(
        event_id="s", server_vad={"threshold": 0.4}, voice="v", instructions="i", transcribe_model="w"
    )
    texts = [
        update,
        ours.append(tone(20)),
        ours.commit("c"),
        ours.create_response("r"),
        ours.cancel_response("x"),
        ours.truncate("t", "item", 5),
    ]
    for text in texts:
        message = wire.decode_client(text)
        assert not isinstance(message, wire.Refused), message
        assert type(message).__struct_config__.tag == json.loads(text)["type"]


def test_faults_of_a_model_end_the_reply_in_the_protocols_form() -> None:
    server = ListeningServer(Text("Half a"), Fault("incomplete", code="content_filter"), Text("never said"))

    async def hold(client: MemoryClient) -> None:
        response = (await client.turn())[-1]["response"]
        assert response["status_details"] == {"type": "incomplete", "reason": "content_filter"}
        assert response["output"][0]["content"][0]["transcript"] == "Half a"

    talk(server, hold)
