"""A speech model for tests that says what it was asked to and keeps what it was told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field

import numpy as np

from servers.engines.energy import EnergyDetector
from servers.speech_model import Audio, Pcm, Piece, SessionSettings, Text, UserTurn, VoiceDetector
from sessions.errors import PeerError


class Inline(EnergyDetector):
    inline = True


@dataclass
class Told:
    """What all models of a server were told, in order."""

    turns: list[UserTurn] = field(default_factory=list)
    remembered: list[tuple[str, str]] = field(default_factory=list)
    settings: list[SessionSettings] = field(default_factory=list)
    heard_ms: list[int] = field(default_factory=list)
    samples: int = 0
    opened: int = 0
    closed: int = 0
    stopped: int = 0


class ListeningModel:
    rate_hz = 24_000

    def __init__(self, server: ListeningServer) -> None:
        self._server, self._told = server, server.told
        self._told.opened += 1

    def configure(self, settings: SessionSettings) -> None:
        if settings.voice not in self._server.voices:
            raise PeerError(f"unknown voice {settings.voice!r}", code="invalid_value", mend="Known: anna, ben")
        self._told.settings.append(settings)

    def hear(self, pcm: Pcm, t_ns: int) -> None:
        self._told.samples += len(pcm)

    async def reply(self, turn: UserTurn) -> AsyncGenerator[Piece, None]:
        self._told.turns.append(turn)
        try:
            for piece in self._server.pieces:
                if isinstance(piece, Exception):
                    raise piece
                yield piece
            if self._server.hangs:
                await asyncio.Event().wait()
        finally:
            # Stopping takes a while, as with an engine in a thread.
            await asyncio.sleep(0.05)
            self._told.stopped += 1

    def remember(self, role: str, text: str) -> None:
        self._told.remembered.append((role, text))

    def heard(self, ms: int) -> None:
        assert self._told.stopped == len(self._told.turns), "told while it was still at work"
        self._told.heard_ms.append(ms)

    async def aclose(self) -> None:
        self._told.closed += 1


class ListeningServer:
    """pieces: what every reply yields; an exception among them is raised · hangs: replies never end."""

    def __init__(self, *pieces: Piece | Exception, hangs: bool = False) -> None:
        self.name = "listening"
        self.voices: tuple[str, ...] = ("anna", "ben")
        second = Audio(np.full(24_000, 1000, dtype=np.int16))
        self.pieces: tuple[Piece | Exception, ...] = pieces or (
            Text("hello there", "user"),
            Text("One two "),
            second,
            Text("three four."),
            second,
        )
        self.hangs = hangs
        self.told = Told()

    async def start(self) -> None: ...

    def open(self) -> ListeningModel:
        return ListeningModel(self)

    def voice_detector(self) -> VoiceDetector:
        return Inline(24_000)

    async def aclose(self) -> None: ...
