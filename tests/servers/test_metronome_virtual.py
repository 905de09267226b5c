"""Our client and our front with the metronome, in memory on the virtual clock: reported equals true, to the ns."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from harness.calibrate.truth import errors
from servers.fronts.openai_realtime.connection import RealtimeConnection
from servers.models.metronome import load_metronome
from servers.write_log import WriteLog
from tests.support.dialogues import Played, perform, utterance
from tests.support.peers import Gone, Wire, in_memory
from tests.support.virtual_time import VirtualClock, run_virtual


@dataclass(frozen=True, slots=True)
class Fronted:
    """A peer that is our own front, without a socket."""

    behaviour: str
    log: WriteLog

    async def __call__(self, wire: Wire) -> None:
        async def close(code: int, reason: str) -> None:
            await wire.close(code, reason)

        async def send(text: str) -> None:
            try:
                await wire.send(text)
            except Gone as error:
                raise ConnectionResetError from error

        server = load_metronome(self.behaviour, clock=wire.clock)
        connection = RealtimeConnection(server, wire.clock, send, close, lambda: None, write_log=self.log)
        await connection.open()
        try:
            while True:
                message = await wire.receive()
                await connection.on_message(json.dumps(message), wire.clock.now_ns())
        finally:
            await connection.on_disconnect()


def play(behaviour: str, turns: int, **settings: Any) -> tuple[Played, WriteLog]:
    log = WriteLog()

    async def make(clock: VirtualClock) -> Played:
        async with in_memory(Fronted(behaviour, log), clock) as connect:
            return await perform(connect, clock, [utterance(500, tail_ms=200)] * turns, **settings)

    played = run_virtual(make)
    assert isinstance(played, Played)
    return played, log


@pytest.mark.parametrize("turn_detection", ["manual", "server_vad"])
@pytest.mark.parametrize("behaviour", ["steady", "stalls"])
def test_reported_equals_true(behaviour: str, turn_detection: str) -> None:
    played, log = play(behaviour, 20, turn_detection=turn_detection)
    assert [turn.outcome for turn in played.turns] == ["answered"] * 20
    found = errors(played.turns, played.derived.conversation, log.entries)
    assert found.excluded == 0
    assert set(found.first_packet_ms) == set(found.voice_to_voice_ms) == {0.0}
    assert set(found.gaps_ms) == set(found.underruns) == {0.0}


def test_the_delay_of_the_behaviour_is_what_is_measured() -> None:
    played, _ = play("steady", 5)
    for turn in range(5):
        assert played.ms(turn, "first_packet_ms") == 300.0
        assert played.ms(turn, "voice_to_voice_ms") == 380.0
        assert played.ms(turn, "underruns_b0") == 0.0
