"""The product's metronome, which here also notes when the user's last speech sample arrived.

It does so by two `Stage` pieces at the beginning of each reply, which a front notes in its write log and never sends:

    heard   arrival of the frame that holds the last speech sample, less what follows that sample in the frame: when
            speech ended if a frame leaves once its last sample exists, as from a microphone
    ahead   the same plus the frame's length: when speech ended if a frame leaves when its *first* sample is spoken
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

import numpy as np

from servers.models.behaviour import Behaviour
from servers.models.metronome import RATE_HZ, Metronome, MetronomeServer
from servers.speech_model import Pcm, Piece, SpeechModel, Stage, UserTurn
from sessions.clock import Clock, samples_to_ns


class HearingMetronome(Metronome):
    """Speech is every sample that is not 0: clips here end on a loud sample, and only zeros follow them."""

    def __init__(self, behaviour: Behaviour, clock: Clock) -> None:
        super().__init__(behaviour, clock)
        self._heard_ns = self._ahead_ns = 0

    def hear(self, pcm: Pcm, t_ns: int) -> None:
        speech = np.flatnonzero(pcm)
        if len(speech):
            after = len(pcm) - int(speech[-1]) - 1
            self._heard_ns = t_ns - samples_to_ns(after, RATE_HZ)
            self._ahead_ns = self._heard_ns + samples_to_ns(len(pcm), RATE_HZ)

    async def reply(self, turn: UserTurn) -> AsyncGenerator[Piece, None]:
        yield Stage("heard", self._heard_ns)
        yield Stage("ahead", self._ahead_ns)
        async for piece in super().reply(turn):
            yield piece


class HearingServer(MetronomeServer):
    """Opens a `HearingMetronome` per connection."""

    def __init__(self, behaviour: Behaviour, clock: Clock) -> None:
        super().__init__(behaviour, clock)
        self._of = (behaviour, clock)

    def open(self) -> SpeechModel:
        return HearingMetronome(*self._of)
