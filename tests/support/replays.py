"""A recorded dialogue given again in memory, on the virtual clock."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from clients.openai_realtime import OpenAIRealtimeInterpreter
from harness.dialogue.record import TurnToSpeak
from servers.replay.connection import ReplayConnection
from servers.replay.openai_realtime import OpenAIRealtimeReader
from servers.replay.recording import Recording, recording_of
from tests.support.dialogues import Played
from tests.support.peers import Gone, Wire


@dataclass(frozen=True, slots=True)
class _Line:
    """The server's end, without a socket."""

    wire: Wire
    name: str = "1"

    async def send_raw(self, data: bytes, *, binary: bool) -> None:
        try:
            await self.wire.send(data if binary else data.decode())
        except Gone as error:
            raise ConnectionResetError from error

    async def close(self, code: int, reason: str) -> None:
        await self.wire.close(code, reason)

    def hang_up(self) -> None:
        raise AssertionError("no recording here ends without a word")

    abort = hang_up


@dataclass(frozen=True, slots=True)
class Replayed:
    """A peer that gives a recording again."""

    recording: Recording

    async def __call__(self, wire: Wire) -> None:
        connection = ReplayConnection(self.recording, OpenAIRealtimeReader(), wire.clock, _Line(wire))
        await connection.open()
        try:
            while True:
                message = await wire.receive()
                await connection.on_message(json.dumps(message), wire.clock.now_ns())
        finally:
            await connection.on_disconnect()


def recorded(played: Played, turns: Sequence[TurnToSpeak]) -> Recording:
    """What was just performed, ready to be given again."""
    clips = {index: turn.pcm for index, turn in enumerate(turns)}
    received = bytes(played.record.received)
    return recording_of("d0001", played.record.log(), received, clips, OpenAIRealtimeInterpreter())
