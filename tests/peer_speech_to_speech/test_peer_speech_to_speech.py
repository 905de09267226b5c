"""Our client drives a server that we did not write: the realtime router of `speech-to-speech`.

It runs in an environment of its own, which the first test makes. Order and bounds only, never milliseconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import pytest

from clients.transports.websocket import WebSocketTransport, open_websocket
from harness.dialogue.record import TurnToSpeak
from metrics.conversation import Reply
from sessions.clock import MonotonicClock
from sessions.errors import PeerError, SetupError
from sessions.events import GaveUp, Received
from sessions.runs import Limits
from sessions.secrets import Secrets
from tests.peer_speech_to_speech import environment
from tests.peer_speech_to_speech.process import running
from tests.support.dialogues import Played, perform, utterance

pytestmark = [pytest.mark.peer, pytest.mark.sockets]
CLOCK = MonotonicClock()
ANSWERS = ("This is one answer.", "And this is quite another, longer answer.")
WORD_MS = 200
RATE_HZ = 24_000
# What this machine makes late voids figures; here only order is asked for.
LIMITS = Limits(lateness_ms=60_000, connect_s=60, reply_s=60, idle_s=30, unread_ms=60_000)


@pytest.fixture(scope="module")
def python(pytestconfig: pytest.Config) -> Path:
    """The foreign environment's Python, made where it is missing, with its progress shown."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
        try:
            return environment.make(environment.say)
        except SetupError as error:
            problem = str(error)
    pytest.fail(problem, pytrace=False)


@pytest.fixture(scope="module")
def server(python: Path) -> Iterator[str]:
    with running(python, ANSWERS, slots=1, word_ms=WORD_MS) as address:
        yield address


@pytest.fixture
async def address(server: str) -> str:
    """The server with its only place free: after a client left it drains for a while."""
    async with aiohttp.ClientSession() as http, asyncio.timeout(60):
        while True:
            async with http.get(f"http://{server}/v1/pool") as response:
                if (await response.json())["in_use"] == 0:
                    return server
            await asyncio.sleep(0.05)


async def dial(address: str) -> WebSocketTransport:
    return await open_websocket(
        f"ws://{address}/v1/realtime",
        headers={},
        clock=CLOCK,
        timeout_s=60,
        byte_cap=LIMITS.bytes_per_dialogue,
        secrets=Secrets(),
    )


async def hold(address: str, turns: list[TurnToSpeak], turn_detection: str) -> Played:
    return await perform(partial(dial, address), CLOCK, turns, limits=LIMITS, turn_detection=turn_detection)


def messages(played: Played) -> list[dict[str, Any]]:
    """Everything that the server sent."""
    received = bytes(played.record.received)
    events = (event for event in played.record.log() if isinstance(event, Received))
    return [json.loads(received[event.offset : event.offset + event.length]) for event in events]


def strongest_hz(reply: Reply) -> float:
    pcm = np.concatenate([packet.pcm for packet in reply.packets])
    return float(np.argmax(np.abs(np.fft.rfft(pcm)))) * RATE_HZ / len(pcm)


def check_answers(played: Played) -> None:
    """Both turns answered by the right reply, whole, at the right rate, its instants in order."""
    conversation = played.derived.conversation
    assert conversation.faults == ()
    assert played.record.error is None
    assert [(turn.turn_class, turn.outcome) for turn in played.turns] == [("completed", "answered")] * 2
    assert [turn.heard_text for turn in played.turns] == list(ANSWERS)
    assert len(conversation.replies) == 2
    for turn, reply, answer in zip(played.turns, conversation.replies, ANSWERS, strict=True):
        assert turn.reply_ids == [reply.id]
        assert turn.false_starts == 0
        assert sum(len(packet.pcm) for packet in reply.packets) == len(answer.split()) * WORD_MS * RATE_HZ // 1000
        assert strongest_hz(reply) == pytest.approx(440, abs=5)
        at = turn.instants_ns
        assert at["speech_end"] <= at["first_packet"] <= at["first_audible"] <= at["reply_done"]
        assert at["first_text"] <= at["first_packet"]


async def test_two_turns_with_its_voice_detection(address: str) -> None:
    turns = [utterance(duration_ms=700, tail_ms=100), utterance(duration_ms=900)]
    played = await hold(address, turns, "server_vad")
    check_answers(played)
    assert played.derived.understood == {0: "440 hertz", 1: "440 hertz"}  # so it heard us at the right rate
    # It keeps "stopped" and "committed" back until its reply is certain.
    conversation = played.derived.conversation
    assert [event.what for event in conversation.vad] == ["started", "stopped", "committed"] * 2
    for index, turn in enumerate(played.turns):
        started, stopped, committed = conversation.vad[3 * index : 3 * index + 3]
        assert conversation.turns[index].start_ns < started.t_ns
        assert turn.instants_ns["speech_end"] < stopped.t_ns <= committed.t_ns <= turn.instants_ns["first_packet"]


async def test_two_turns_that_we_end_ourselves(address: str) -> None:
    """Its router answers commit and request, though its own detection hears no end and nothing is transcribed."""
    played = await hold(address, [utterance(duration_ms=1500), utterance(duration_ms=900)], "manual")
    check_answers(played)
    assert played.derived.understood == {}
    for turn in played.turns:
        assert turn.instants_ns["last_sent"] <= turn.instants_ns["turn_committed"] <= turn.instants_ns["first_packet"]


async def test_a_client_too_many_is_refused(address: str) -> None:
    """While the only place is taken, the server says so instead of a greeting and closes with 1008."""
    first = await dial(address)
    try:
        assert json.loads((await first.receive()).data)["type"] == "session.created"
        async with asyncio.timeout(30):
            played = await hold(address, [utterance(), utterance()], "manual")
    finally:
        await first.close()
    assert isinstance(played.record.error, PeerError)
    assert played.record.error.code == "session_limit_reached"
    assert played.record.error.mend.startswith("Wait for a free place")
    assert [message["type"] for message in messages(played)] == ["error"]
    gave_up = [event for event in played.record.events if isinstance(event, GaveUp)]
    assert [(event.turn, event.outcome) for event in gave_up] == [(0, "refused"), (1, "refused")]
    assert all("slots are in use" in event.detail and "session_limit_reached" in event.detail for event in gave_up)


def test_an_environment_that_cannot_be_made(tmp_path: Path) -> None:
    """One line that holds what pip said; no half-made environment counts as ready."""
    requirements = tmp_path / "requirements.txt"
    requirements.write_text(f"absent @ file://{tmp_path}/absent-1-py3-none-any.whl\n")
    said: list[str] = []
    with pytest.raises(SetupError, match=r"absent-1-py3-none-any\.whl") as caught:
        environment.make(said.append, tmp_path / "made", requirements)
    assert "\n" not in str(caught.value)
    assert said
    assert not environment.is_ready(tmp_path / "made", requirements)
