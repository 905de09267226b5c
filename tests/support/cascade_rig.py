"""Scripted engines for the cascade, and helpers that read a reply's pieces."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

import numpy as np

from servers.engines.llama import Finish, Message
from servers.engines.whisper import Transcript
from servers.models.cascade import CascadeServer
from servers.models.cascade_reply import RATE_HZ
from servers.speech_model import Audio, Fault, Pcm, Piece, SpeechModel, Stage, Text, UserTurn
from sessions.clock import MonotonicClock

CLOCK = MonotonicClock()
NO_SOUND: Pcm = np.empty(0, np.int16)
SOME_SOUND: Pcm = np.ones(RATE_HZ // 2, np.int16)
PATIENCE_S = 60.0  # for what must happen, however slow the machine


@dataclass
class Ears:
    """Understands `text`, once `gate` is open."""

    text: str = "hello"
    gate: threading.Event | None = None
    error: Exception | None = None

    def transcribe(self, pcm: Pcm, rate_hz: int) -> Transcript:
        assert (len(pcm) > 0, rate_hz) == (True, RATE_HZ)
        if self.gate is not None:
            assert self.gate.wait(PATIENCE_S)
        if self.error is not None:
            raise self.error
        return Transcript(self.text, "en", -0.1)


@dataclass
class Mind:
    """Says `tokens`, over and over if `endless`; keeps the prompts that it was given."""

    tokens: Sequence[str] = ("Well", ", ", "yes", ".")
    finish: Finish = field(default_factory=lambda: Finish("stop"))
    endless: bool = False
    too_long_from: int = 1_000_000  # messages
    error: Exception | None = None
    context_tokens: int = 2000
    slots: int = 2
    prompts: list[list[Message]] = field(default_factory=list)
    stopped: threading.Event = field(default_factory=threading.Event)
    closed: bool = False

    def stream(
        self,
        messages: Sequence[Message],
        *,
        max_tokens: int,
        on_text: Callable[[str], None],
        should_stop: Callable[[], bool],
    ) -> Finish:
        self.prompts.append(list(messages))
        if len(messages) >= self.too_long_from:
            return Finish("too_long", prompt_tokens=9999)
        while True:
            for token in self.tokens:
                if should_stop():
                    self.stopped.set()
                    return Finish("cancelled")
                on_text(token)
            if self.error is not None:
                raise self.error
            if not self.endless:
                return self.finish

    def close(self) -> None:
        self.closed = True


@dataclass
class Mouth:
    """A quarter of a second of sound per word; none for what has no letters."""

    error: Exception | None = None

    def speak(self, text: str) -> Pcm:
        assert text == text.strip()
        if self.error is not None:
            raise self.error
        words = sum(any(c.isalnum() for c in word) for word in text.split())
        return np.full(words * RATE_HZ // 4, 1000, np.int16)


def engine_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("duologue-")]


async def idle(server: CascadeServer) -> None:
    """Until no engine works any more."""
    async with asyncio.timeout(PATIENCE_S):
        while server.busy:
            await asyncio.sleep(0.005)


async def opened(server: CascadeServer) -> SpeechModel:
    await server.start()
    return server.open()


def turn(
    pcm: Pcm = SOME_SOUND, text: str = "", *, text_only: bool = False, instructions: str | None = None
) -> UserTurn:
    return UserTurn(pcm, CLOCK.now_ns(), 0, text, instructions, text_only)


async def pieces_of(model: SpeechModel, user: UserTurn) -> list[Piece]:
    async with aclosing(model.reply(user)) as pieces:
        return [piece async for piece in pieces]


def outline(pieces: list[Piece]) -> list[str]:
    """Kinds in order, repeated audio once."""
    names = [piece.name if isinstance(piece, Stage) else type(piece).__name__ for piece in pieces]
    return [name for at, name in enumerate(names) if not (at and name == names[at - 1] == "Audio")]


def said(pieces: list[Piece], of: str = "reply") -> str:
    return "".join(piece.text for piece in pieces if isinstance(piece, Text) and piece.of == of)


def audio(pieces: list[Piece]) -> Pcm:
    return np.concatenate([NO_SOUND, *(piece.pcm for piece in pieces if isinstance(piece, Audio))])


def faults(pieces: list[Piece]) -> list[tuple[str, str]]:
    return [(piece.kind, piece.code) for piece in pieces if isinstance(piece, Fault)]
