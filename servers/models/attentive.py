"""A metronome with ears: it takes notice of the user when its behaviour says so, and may speak again unasked."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

import numpy as np

from servers.models.behaviour import Behaviour, HearingFile
from servers.models.metronome import RATE_HZ, Metronome
from servers.speech_model import Audio, Pcm, Piece, RawAudio, UserTurn
from sessions.clock import NS_PER_MS, Clock, samples_to_ns

_LOUD = 185
"""Of int16, the first level above −45 dBFS, as in the audibility gate."""
_QUIET_SAMPLES = RATE_HZ // 5
"""200 ms without a loud sample: what follows is another sound."""


class AttentiveMetronome(Metronome):
    """A `SpeechModel` that is `Noticing` and `Prompting`."""

    def __init__(self, behaviour: Behaviour, clock: Clock) -> None:
        super().__init__(behaviour, clock)
        self._hearing = behaviour.hearing or HearingFile()
        self._reprompt = behaviour.reprompt
        self._prompts_left = behaviour.reprompt.times if behaviour.reprompt else 0
        self._sounds = 0
        self._onset_ns = 0
        self._loud_until = -_QUIET_SAMPLES
        self._position = 0
        self._rests = asyncio.Event()
        """Set while no reply is being given."""
        self._rests.set()
        self._quiet_from_ns: int | None = None
        """Since when nobody is heard, None while nobody was. A reply counts up to where its play-out ends."""

    def hear(self, pcm: Pcm, t_ns: int) -> None:
        """Note when each sound began, to the sample: the last sample came about at `t_ns`."""
        loud = np.flatnonzero((pcm >= _LOUD) | (pcm <= -_LOUD))
        if len(loud):
            first = self._position + int(loud[0])
            if first - self._loud_until >= _QUIET_SAMPLES:
                self._onset_ns = t_ns - samples_to_ns(len(pcm) - int(loud[0]), RATE_HZ)
            self._loud_until = self._position + int(loud[-1]) + 1
            self._is_heard_until(t_ns)
        self._position += len(pcm)

    async def reply(self, turn: UserTurn) -> AsyncGenerator[Piece, None]:
        self._rests.clear()
        try:
            async for piece in super().reply(turn):
                if isinstance(piece, (Audio, RawAudio)):
                    samples = len(piece.pcm) if isinstance(piece, Audio) else len(piece.data) // 2
                    begins_ns = max(self._clock.now_ns(), self._quiet_from_ns or 0)
                    self._is_heard_until(begins_ns + samples_to_ns(samples, RATE_HZ))
                yield piece
        finally:
            self._rests.set()

    def heard(self, ms: int) -> None:
        """The user broke off what was still to be heard."""
        self._quiet_from_ns = self._clock.now_ns()

    async def notice(self) -> bool:
        number, self._sounds = self._sounds, self._sounds + 1
        if number in self._hearing.deaf_to:
            return False
        if number in self._hearing.ignores:
            await self._heard_to_its_end()
        elif self._hearing.delay_ms is not None:
            await self._clock.sleep_until_ns(self._onset_ns + round(self._hearing.delay_ms * NS_PER_MS))
        return True

    async def wants_to_speak(self) -> bool:
        if self._reprompt is None or not self._prompts_left:
            return False
        after_ns = round(self._reprompt.after_ms * NS_PER_MS)
        while True:
            await self._rests.wait()
            due_ns = (self._quiet_from_ns or self._clock.now_ns()) + after_ns
            if self._quiet_from_ns is not None and due_ns <= self._clock.now_ns():
                self._prompts_left -= 1
                self._quiet_from_ns = self._clock.now_ns()
                return True
            await self._clock.sleep_until_ns(due_ns)

    async def _heard_to_its_end(self) -> None:
        await self._rests.wait()
        await self._clock.sleep_until_ns(self._quiet_from_ns or 0)

    def _is_heard_until(self, t_ns: int) -> None:
        self._quiet_from_ns = max(t_ns, self._quiet_from_ns or 0)
