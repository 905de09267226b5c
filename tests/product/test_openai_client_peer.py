"""The `openai` package's own realtime client holds a conversation with our server: a client that we did not write."""

from __future__ import annotations

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import numpy as np
import pytest
from openai import AsyncOpenAI

from servers.app import RunningServer, serve
from servers.models.behaviour import Behaviour, ReplyPlan
from servers.models.metronome import MetronomeServer
from servers.speech_model import Pcm
from sessions.scripts import load_script
from tests.support.realtime_client import silence, tone

FRAME_SAMPLES = 480


async def frames(pcm: Pcm) -> AsyncIterator[str]:
    """Base64 frames of 20 ms, about in real time."""
    for start in range(0, len(pcm), FRAME_SAMPLES):
        yield base64.b64encode(pcm[start : start + FRAME_SAMPLES].tobytes()).decode()
        await asyncio.sleep(FRAME_SAMPLES / 24_000)


class Assistant:
    """A small voice application on the package's client."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection

    async def set_up(self, turn_detection: dict[str, Any] | None) -> None:
        pcm = {"type": "audio/pcm", "rate": 24000}
        audio_in = {"format": pcm, "turn_detection": turn_detection, "transcription": {"model": "whisper-1"}}
        session = {"type": "realtime", "output_modalities": ["audio"], "audio": {"input": audio_in}}
        await self._connection.session.update(session=session)
        await self._event("session.updated")

    async def say(self, pcm: Pcm) -> None:
        async for frame in frames(pcm):
            await self._connection.input_audio_buffer.append(audio=frame)

    async def ask(self) -> None:
        await self._connection.input_audio_buffer.commit()
        await self._connection.response.create()

    async def answer(self) -> tuple[Any, Pcm, str, str]:
        """The finished response, its audio, its words, and what was understood of the user."""
        audio, words, understood = b"", "", ""
        async for event in self._connection:
            match event.type:
                case "response.output_audio.delta":
                    audio += base64.b64decode(event.delta)
                case "response.output_audio_transcript.delta":
                    words += event.delta
                case "conversation.item.input_audio_transcription.completed":
                    understood = event.transcript
                case "response.done":
                    return event.response, np.frombuffer(audio, dtype="<i2"), words, understood
                case "error":
                    raise AssertionError(event.error)
        raise AssertionError("the connection ended")

    async def _event(self, kind: str) -> None:
        async for event in self._connection:
            if event.type == kind:
                return


@contextlib.asynccontextmanager
async def talking(server: RunningServer) -> AsyncIterator[Assistant]:
    base_url = server.url.removesuffix("/realtime")
    client = AsyncOpenAI(api_key="sesame", base_url=base_url.replace("ws", "http", 1), websocket_base_url=base_url)
    async with client, client.realtime.connect(model="any") as connection:
        yield Assistant(connection)


def metronome() -> MetronomeServer:
    reply = ReplyPlan(delay_ms=50, duration_ms=300, packet_ms=20, text="Tick, tock.", user_text="Are you there?")
    return MetronomeServer(Behaviour(reply=reply))


@pytest.mark.sockets
async def test_two_manual_turns_with_the_metronome() -> None:
    async with serve(metronome(), api_key="sesame") as server, talking(server) as assistant:
        await assistant.set_up(None)
        for _ in range(2):
            await assistant.say(tone(300))
            await assistant.ask()
            response, audio, words, understood = await assistant.answer()
            assert response.status == "completed"
            assert len(audio) == 300 * 24
            assert (words, understood) == ("Tick, tock.", "Are you there?")
            assert response.usage.output_token_details.audio_tokens == 6


@pytest.mark.sockets
async def test_two_turns_found_by_server_vad_with_the_metronome() -> None:
    async with serve(metronome(), api_key="sesame") as server, talking(server) as assistant:
        await assistant.set_up({"type": "server_vad", "silence_duration_ms": 200})
        for _ in range(2):
            saying = asyncio.create_task(assistant.say(np.concatenate([tone(300), silence(400)])))
            response, audio, _, _ = await assistant.answer()
            assert (response.status, len(audio)) == ("completed", 300 * 24)
            await saying


@pytest.fixture
async def cascade() -> AsyncIterator[RunningServer]:
    """The embedded cascade, served; its models load once for the test that asks for it."""
    from servers.models.cascade import load_cascade

    model = load_cascade()
    async with serve(model, api_key="sesame") as server:
        yield server


@pytest.mark.embedded
@pytest.mark.sockets
async def test_two_turns_with_the_embedded_cascade(cascade: RunningServer) -> None:
    """Real speech in, real speech out: one turn that the client ends, and one that Silero does."""
    said = [turn.clip.pcm for turn in load_script("small-talk").turns[:2]]
    async with talking(cascade) as assistant:
        await assistant.set_up(None)
        await assistant.say(said[0])
        await assistant.ask()
        await check_answer(assistant)
        await assistant.set_up({"type": "server_vad"})
        saying = asyncio.create_task(assistant.say(np.concatenate([silence(300), said[1], silence(1500)])))
        await check_answer(assistant)
        await saying


async def check_answer(assistant: Assistant) -> None:
    response, audio, words, understood = await assistant.answer()
    assert response.status == "completed", response.status_details
    assert len(words.split()) >= 2
    assert len(understood.split()) >= 2
    assert len(audio) > 12_000
    assert np.abs(audio.astype(int)).max() > 3000
