"""The short way for audio: what a glance tells is what a full look tells, and it changes nothing that is measured."""

from __future__ import annotations

import base64
import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clients.events import ReplyAudio
from clients.openai_realtime import OpenAIRealtimeInterpreter
from clients.transports import Take
from clients.wire import openai_realtime_server as server
from clients.wire.pcm import encode_base64
from sessions.clock import NS_PER_MS
from sessions.events import Received
from tests.support.dialogues import Played, play_virtual, utterance
from tests.support.peers import (
    MemoryTransport,
    Wire,
    audio,
    created,
    done,
    greet,
    raw_audio,
    request,
    sleep_ms,
    text,
    tone,
)

FIELDS: dict[str, Any] = {"item_id": "i", "output_index": 0, "content_index": 0}


def delta(pcm_bytes: int, reply: str = "r", **fields: Any) -> dict[str, Any]:
    data = base64.b64encode(bytes(pcm_bytes)).decode()
    return {"type": "response.output_audio.delta", "response_id": reply, **fields, "delta": data}


@given(
    sizes=st.lists(st.integers(0, 40), min_size=1, max_size=12),
    fields=st.sampled_from([{}, FIELDS, {"item_id": "i"}]),
    before=st.sampled_from([{}, {"event_id": "event_1"}]),
    spaced=st.booleans(),
    beta=st.booleans(),
)
def test_a_glance_counts_what_a_full_look_finds(
    sizes: list[int], fields: dict[str, Any], before: dict[str, Any], spaced: bool, beta: bool
) -> None:
    """Also where pieces are cut in the middle of a sample: those are left to the full look."""
    glancing, looking = OpenAIRealtimeInterpreter(), OpenAIRealtimeInterpreter()
    for number, size in enumerate(sizes):
        message = before | delta(size, **fields)
        if beta:
            message["type"] = "response.audio.delta"
        data = json.dumps(message, separators=(", ", ": ") if spaced else (",", ":")).encode()
        found = [event for event in looking.feed(data) if isinstance(event, ReplyAudio)]
        more = glancing.more_audio(data)
        if number == 0:
            assert more is None
        if more is None:
            more = next((e.reply, len(e.pcm)) for e in glancing.feed(data) if isinstance(e, ReplyAudio))
        assert [more] == [(event.reply, len(event.pcm)) for event in found]


def _glance(learnt_from: str, data: str) -> tuple[str, int] | None:
    interpreter = OpenAIRealtimeInterpreter()
    interpreter.feed(learnt_from.encode())
    return interpreter.more_audio(data.encode())


PLACE = server.Place("r", "i")
LEARNT = json.dumps({"event_id": "event_9", **delta(960, **FIELDS)})


@pytest.mark.parametrize(
    ("learnt_from", "data"),
    [
        (LEARNT, LEARNT.replace("event_9", "event_10")),
        *[
            tuple(
                server.to_text(PLACE.event("response.output_audio.delta", delta=encode_base64(tone(ms))), event)
                for ms, event in ((40, "event_a"), (20, "event_bcd"))
            )
        ],
        (json.dumps(delta(8) | {"later": 1}), json.dumps(delta(960) | {"later": 1})),
        (json.dumps(delta(8)), json.dumps(delta(960))),
    ],
)
def test_more_of_the_same_shape_is_seen_at_a_glance(learnt_from: str, data: str) -> None:
    assert _glance(learnt_from, data) == ("r", 480)


@pytest.mark.parametrize(
    "data",
    [
        LEARNT.replace('"r"', '"other"'),
        LEARNT.replace("event_9", 'a\\"b'),
        LEARNT.replace('"item_id": "i"', '"item_id": "j"'),
        LEARNT.replace("delta", "dalta"),
        LEARNT.replace("response.output_audio.delta", "response.output_text.delta"),
        LEARNT.replace("AAAAAAAA", "AAA\\/AAA", 1),
        LEARNT.replace("AAAAAAAA", 'AAA"AAAA', 1),
        LEARNT.replace("AAAAAAAA", "AAAAAAA", 1),
        LEARNT.replace("A", ""),
        LEARNT[:-1],
        LEARNT + " ",
        json.dumps({"type": "response.output_audio.done", "response_id": "r"}),
        "[]",
        "",
    ],
)
def test_a_glance_leaves_alone_what_it_cannot_be_sure_of(data: str) -> None:
    assert _glance(LEARNT, LEARNT) == ("r", 480)
    assert _glance(LEARNT, data) is None


@pytest.mark.parametrize(
    "learnt_from",
    [
        LEARNT.replace("event_9", "r"),
        LEARNT.replace("event_9", "\u00e9"),
        LEARNT.replace("AAAAAAAA", "", 1).replace("A", "") + " ",
        json.dumps({"delta": "AAAA", "event_id": "AAAA", "response_id": "r", "type": "response.audio.delta"}),
        json.dumps({"response_id": "r", "type": "response.created", "response": {"id": "r"}}),
    ],
)
def test_what_cannot_be_told_apart_teaches_nothing(learnt_from: str) -> None:
    assert _glance(learnt_from, learnt_from) is None


async def talks(wire: Wire) -> None:
    """Two replies, the second with broken audio and with a text between its packets; a packet after each end."""
    await greet(wire)
    for index in range(2):
        await request(wire)
        reply = f"r{index}"
        await wire.send(created(reply))
        for number in range(6):
            await sleep_ms(wire, 30)
            await wire.send(audio(reply, tone(40)))
            if index and number == 3:
                await wire.send(text(reply, "half way"))
            if index and number == 4:
                await wire.send(raw_audio(reply, "!!!!!!!!"))
        await wire.send(done(reply))
        await wire.send(audio(reply, tone(20)))


def _without_the_short_way(monkeypatch: pytest.MonkeyPatch) -> Played:
    def offer(self: MemoryTransport, take: Take) -> None:
        del self, take

    with monkeypatch.context() as patch:
        patch.setattr(MemoryTransport, "offer", offer)
        return play_virtual(talks, [utterance(), utterance()])


def test_the_record_is_the_same_with_and_without_the_short_way(monkeypatch: pytest.MonkeyPatch) -> None:
    short, long = play_virtual(talks, [utterance(), utterance()]), _without_the_short_way(monkeypatch)
    assert short.record.received == long.record.received
    timeless = [[e for e in played.record.log() if not hasattr(e, "wall_time")] for played in (short, long)]
    assert timeless[0] == timeless[1]
    assert short.turns == long.turns
    assert [fault.kind for fault in short.derived.conversation.faults] == ["base64"]


def test_more_audio_is_in_the_record_before_anybody_wakes() -> None:
    """A flood of packets within one instant: all kept, in order, each with its place."""

    async def floods(wire: Wire) -> None:
        await greet(wire)
        await request(wire)
        await wire.send(created("r"))
        await wire.send(audio("r", tone(20)))
        await sleep_ms(wire, 1)
        for number in range(200):
            await wire.send(audio("r", np.full(24, number, dtype=np.int16)))
        await wire.send(done("r"))

    played = play_virtual(floods)
    reply = played.derived.conversation.replies[0]
    assert [int(packet.pcm[0]) for packet in reply.packets[1:]] == list(range(200))
    arrivals = {packet.t_ns for packet in reply.packets[1:]}
    assert len(arrivals) == 1
    assert reply.packets[0].t_ns == arrivals.pop() - NS_PER_MS
    places = [(e.offset, e.length) for e in played.record.events if isinstance(e, Received)]
    assert [offset for offset, _ in places] == [sum(size for _, size in places[:k]) for k in range(len(places))]
