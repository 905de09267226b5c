"""The OpenAI Realtime codec: recorded messages, damaged ones, round trips."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clients.openai_realtime import OpenAIRealtimeInterpreter
from clients.wire import openai_realtime as wire
from clients.wire.pcm import PcmJoiner, decode_base64, encode_base64


def decode(**message: Any) -> wire.ServerEvent:
    return wire.decode_server(json.dumps(message).encode())


@pytest.mark.parametrize("name", ["response.output_audio.delta", "response.audio.delta"])
def test_both_spellings_of_audio(name: str) -> None:
    event = decode(type=name, response_id="r", item_id="i", delta="AAEC")
    assert isinstance(event, wire.AudioDelta)
    assert (event.response_id, event.item_id, event.audio.data) == ("r", "i", b"\0\1\2")


def test_response_done_tells_status_reason_error_and_words() -> None:
    event = decode(
        type="response.done",
        response={
            "id": "r",
            "status": "failed",
            "status_details": {"type": "failed", "error": {"type": "server_error", "code": "c", "message": "m"}},
            "output": [
                {"type": "message", "content": [{"type": "output_audio", "transcript": "Hel"}, {"text": "lo"}]},
                {"type": "function_call", "name": "f"},
            ],
            "usage": {"total_tokens": 3},
        },
    )
    assert event == wire.ResponseDone("r", "failed", "", "c", "m", True, "Hello", {"total_tokens": 3})


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\xfe",
        b"[]",
        b"7",
        b"{}",
        b'{"type":7}',
        b'{"type":"error"}',
        b'{"type":"session.created","id":"x"}',
        b'{"type":"response.output_audio.delta","response_id":"r"}',
        b'{"type":"response.output_audio.delta","delta":7}',
        b'{"type":"response.done","response":7}',
        b'{"type":"response.done","response":{"output":[7]}}',
        b'{"type":"response.created"}',
        b'{"type":"conversation.item.input_audio_transcription.completed"}',
    ],
)
def test_what_does_not_fit_is_malformed_never_an_exception(data: bytes) -> None:
    assert isinstance(wire.decode_server(data), wire.Malformed)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda c: (
            st.lists(c)
            | st.dictionaries(
                st.sampled_from(["type", "response", "delta", "error", "session", "id", "status_details", "output"]), c
            )
        ),
    )
)
def test_no_json_makes_the_decoder_or_the_interpreter_raise(value: Any) -> None:
    data = json.dumps(value).encode()
    wire.decode_server(data)
    OpenAIRealtimeInterpreter().feed(data)


@given(
    st.sampled_from(
        [
            "error",
            "response.done",
            "response.created",
            "response.output_audio.delta",
            "response.text.delta",
            "session.created",
            "input_audio_buffer.speech_started",
        ]
    ),
    st.dictionaries(
        st.sampled_from(["response", "delta", "error", "session", "response_id", "audio_start_ms"]),
        st.none() | st.integers() | st.text() | st.lists(st.integers()) | st.dictionaries(st.text(), st.text()),
    ),
)
def test_no_known_type_with_wrong_fields_raises(kind: str, fields: dict[str, Any]) -> None:
    wire.decode_server(json.dumps({"type": kind, **fields}).encode())


@given(st.binary(max_size=400), st.lists(st.integers(1, 40), max_size=30))
def test_any_cut_of_the_bytes_gives_the_same_samples(data: bytes, cuts: list[int]) -> None:
    joiner, pieces, position = PcmJoiner(), [], 0
    for size in [*cuts, len(data)]:
        pieces.append(joiner.feed(data[position : position + size]))
        position += size
    joined = np.concatenate(pieces)
    assert joined.astype("<i2").tobytes() == data[: len(data) & ~1]
    assert joiner.half_sample == bool(len(data) & 1)


@given(st.binary(max_size=100))
def test_base64_with_and_without_padding(data: bytes) -> None:
    text = base64.b64encode(data).decode()
    assert decode_base64(text).data == data
    bare = decode_base64(text.rstrip("="))
    assert bare.data == data and bare.fault == ""
    assert bool(bare.note) == text.endswith("=")


@pytest.mark.parametrize("text", ["AA*A", "AA\nAA", "-_AA", "A", "AAA=A", "AA==AA==", "Ä"])
def test_damaged_base64_is_named(text: str) -> None:
    decoded = decode_base64(text)
    assert decoded.data == b"" and "base64" in decoded.fault


@given(st.lists(st.integers(-32768, 32767), max_size=300))
def test_a_frame_comes_back_as_it_was_sent(samples: list[int]) -> None:
    pcm = np.array(samples, dtype=np.int16)
    message = json.loads(wire.append(pcm))
    assert message["type"] == "input_audio_buffer.append"
    assert np.array_equal(PcmJoiner().feed(decode_base64(message["audio"]).data), pcm)
    assert encode_base64(pcm) == message["audio"]


def test_server_vad_settings_are_sent_as_given() -> None:
    text = wire.session_update(
        event_id="e", server_vad={"silence_duration_ms": 300}, voice="marin", instructions="Be brief."
    )
    session = json.loads(text)["session"]
    assert session["audio"]["input"]["turn_detection"] == {"type": "server_vad", "silence_duration_ms": 300}
    assert session["audio"]["output"]["voice"] == "marin"
    assert session["instructions"] == "Be brief."
