"""The embedded cascade: loading it, and whole conversations with its real models."""

from __future__ import annotations

import asyncio
import importlib.util
from collections.abc import AsyncIterator
from contextlib import aclosing

import numpy as np
import pytest
import pytest_asyncio

from servers.engines.hibari import HibariEngine
from servers.engines.whisper import WhisperEngine
from servers.models.cascade import CascadeServer, load_cascade
from servers.models.cascade_reply import NOT_UNDERSTOOD, RATE_HZ
from servers.speech_model import Audio, Pcm, Stage, Text, UserTurn
from sessions.errors import MissingExtra, MissingWeights, SetupError
from sessions.weights import folder
from tests.support.cascade_rig import NO_SOUND, audio, engine_threads, faults, idle, pieces_of, said, turn

# ---- loading ---------------------------------------------------------------------------------------------------------


def test_a_missing_package_or_model_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SetupError, match="whisper-base"):
        load_cascade(asr="whisper-bass")
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "xllamacpp" else found(name))
    with pytest.raises(MissingExtra, match=r"duologue\[embedded\]"):
        load_cascade()


def test_missing_weights_name_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise MissingWeights(f"{name} is nowhere", "Fetch it")

    monkeypatch.setattr("servers.models.cascade.folder", missing)
    with pytest.raises(MissingWeights, match="whisper-base is nowhere"):
        load_cascade()


# ---- real models -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def user_voice() -> HibariEngine:
    return HibariEngine(folder("hibari"))


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def real() -> AsyncIterator[CascadeServer]:
    server = load_cascade()
    await server.start()
    yield server
    await server.aclose()
    assert engine_threads() == []


def spoken(voice: HibariEngine, text: str) -> UserTurn:
    pad: Pcm = np.zeros(RATE_HZ // 5, np.int16)
    return turn(np.concatenate([pad, voice.speak(text), pad]))


@pytest.mark.embedded
@pytest.mark.asyncio(loop_scope="module")
async def test_two_turns_with_memory(real: CascadeServer, user_voice: HibariEngine) -> None:
    model = real.open()
    first = await pieces_of(model, spoken(user_voice, "My name is Anna and I live in Oslo."))
    assert "Anna" in said(first, "user")
    assert faults(first) == []
    second = await pieces_of(model, spoken(user_voice, "What is my name?"))
    assert "Anna" in said(second)
    stages = [piece.name for piece in second if isinstance(piece, Stage)]
    assert stages == ["asr_done", "llm_first_token", "tts_first_audio"]
    understood = await asyncio.to_thread(hears, audio(second))
    assert "anna" in understood.lower()  # what is sent is really the voice, saying that


def hears(pcm: Pcm) -> str:
    return WhisperEngine(folder("whisper-base")).transcribe(pcm, RATE_HZ).text


@pytest.mark.embedded
@pytest.mark.asyncio(loop_scope="module")
async def test_closing_a_reply_frees_the_real_model(real: CascadeServer) -> None:
    model = real.open()
    clauses: list[str] = []
    async with aclosing(model.reply(turn(NO_SOUND, "Tell me a very long story about a king."))) as pieces:
        async for piece in pieces:
            if isinstance(piece, Text):
                clauses.append(piece.text)
            if isinstance(piece, Audio):
                break
    await idle(real)
    again = await pieces_of(model, turn(NO_SOUND, "What is the capital of France?"))
    assert "Paris" in said(again)
    assert len(clauses) == 1


@pytest.mark.embedded
@pytest.mark.asyncio(loop_scope="module")
async def test_two_real_conversations_at_once_while_the_loop_runs_on(
    real: CascadeServer, user_voice: HibariEngine
) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.005)
            ticks += 1

    ticking = asyncio.create_task(tick())
    countries = {"France": "Paris", "Italy": "Rome"}
    questions = [spoken(user_voice, f"What is the capital of {country}?") for country in countries]
    replies = await asyncio.gather(*(pieces_of(real.open(), question) for question in questions))
    ticking.cancel()
    for pieces, capital in zip(replies, countries.values(), strict=True):
        assert capital in said(pieces)
        assert len(audio(pieces)) > RATE_HZ // 2
    assert ticks > 20  # a blocked loop would have managed a handful


@pytest.mark.embedded
@pytest.mark.asyncio(loop_scope="module")
async def test_real_silence_is_not_understood(real: CascadeServer) -> None:
    pieces = await pieces_of(real.open(), turn(np.zeros(2 * RATE_HZ, np.int16)))
    assert said(pieces) == NOT_UNDERSTOOD
    assert real.voice_detector().rate_hz == 16_000
