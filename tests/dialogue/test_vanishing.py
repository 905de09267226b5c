"""The server vanishes, at every stage of the protocol and in every manner, on the virtual clock.

Every turn gets the right named outcome, the run's folder is whole, and the dialogues behind the broken one go on.
"""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Literal, get_args

import numpy as np
import pytest
import soundfile

from harness.results.finish import finish_run
from harness.runs.planning import Ask, make_plan, store_clips
from metrics.result import Unavailable
from sessions.events import Closed, Ended
from sessions.runs import Limits, RunFolder
from sessions.scripts import script_from_audio
from sessions.secrets import Secrets
from tests.support.dialogues import Played, play_virtual, utterance
from tests.support.load_runs import hold
from tests.support.peers import Peer, Wire, audio, created, done, tone

Stage = Literal[
    "connected",
    "session created",
    "session updated",
    "mid-utterance",
    "committed",
    "reply created",
    "mid-audio",
    "between turns",
]
Manner = Literal["close", "fin", "reset", "silence"]
STAGES: tuple[Stage, ...] = get_args(Stage)
MANNERS: tuple[Manner, ...] = get_args(Manner)
SET_UP: tuple[Stage, ...] = ("connected", "session created")
LIMITS = Limits(connect_s=3, reply_s=30, idle_s=5)


async def vanish(wire: Wire, manner: Manner) -> None:
    """Go, and never come back."""
    if manner == "reset":
        await wire.reset()
    elif manner != "silence":
        await wire.close(1001 if manner == "close" else 1006)  # 1006: an end of stream without a close frame
    while True:
        await wire.receive()


def vanishing(at: Stage | None, manner: Manner, *, server_vad: bool = False) -> Peer:
    """A server that answers every turn with 300 ms of sound until it vanishes. at: None for never."""

    async def peer(wire: Wire) -> None:
        async def stage(name: Stage) -> None:
            if at == name:
                await vanish(wire, manner)

        await stage("connected")
        await wire.send({"type": "session.created", "session": {}})
        await stage("session created")
        while (await wire.receive())["type"] != "session.update":
            pass
        await wire.send({"type": "session.updated", "session": {}})
        await stage("session updated")
        for reply in (f"r{number}" for number in itertools.count()):
            for _ in range(15):
                assert (await wire.receive())["type"] == "input_audio_buffer.append"
            await stage("mid-utterance")
            await _end_of_turn(wire, server_vad)
            await stage("committed")
            await wire.send(created(reply))
            await stage("reply created")
            await wire.send(audio(reply, tone(200)))
            await stage("mid-audio")
            await wire.send(audio(reply, tone(100)))
            await wire.send(done(reply))
            await stage("between turns")

    return peer


async def _end_of_turn(wire: Wire, server_vad: bool) -> None:
    if server_vad:
        for _ in range(40):
            await wire.receive()
        await wire.send({"type": "input_audio_buffer.speech_stopped", "item_id": "i", "audio_end_ms": 500})
        await wire.send({"type": "input_audio_buffer.committed", "item_id": "i"})
        return
    while (await wire.receive())["type"] != "response.create":
        pass


def expected(at: Stage, manner: Manner) -> list[str]:
    """Outcomes of the two turns."""
    kind = {"close": "closed", "fin": "closed", "reset": "reset", "silence": "time-out"}[manner]
    if at == "between turns":
        return ["answered", kind]
    if at == "mid-audio" and manner == "silence":
        kind = "no end event"
    return [kind, kind]


@pytest.mark.parametrize("server_vad", [False, True], ids=["manual", "server_vad"])
@pytest.mark.parametrize("manner", MANNERS)
@pytest.mark.parametrize("at", STAGES)
def test_every_turn_is_named_by_how_the_server_went(at: Stage, manner: Manner, server_vad: bool) -> None:
    detection = "server_vad" if server_vad else "manual"
    peer = vanishing(at, manner, server_vad=server_vad)
    played = play_virtual(peer, [utterance(), utterance()], limits=LIMITS, turn_detection=detection)
    assert [turn.outcome for turn in played.turns] == expected(at, manner)
    assert [turn.turn_class for turn in played.turns] == [
        "completed" if turn.outcome == "answered" else "failed" for turn in played.turns
    ]
    check_record(played, at, manner)


def check_record(played: Played, at: Stage, manner: Manner) -> None:
    """The log says who ended the connection and how; a failed turn keeps the instants that it reached."""
    (closed,) = (event for event in played.record.events if isinstance(event, Closed))
    if manner == "silence":
        assert closed.by == "us"
    else:
        assert (closed.by, closed.how) == ("peer", {"close": "close", "fin": "eof", "reset": "reset"}[manner])
    assert isinstance(played.record.events[-1], Ended)
    first = played.turns[0]
    assert ("first_packet" in first.instants_ns) == (at in ("mid-audio", "between turns"))
    if at in SET_UP:
        assert played.record.error is not None and not played.record.set_up
        assert isinstance(first.measures["first_packet_ms"], Unavailable)
    if first.outcome != "answered":
        assert first.detail and played.turns[1].detail


# ---- a whole run ---------------------------------------------------------------------------------------------------

WHOLE: tuple[Stage | None, Manner] = (None, "close")
PLANNED = [WHOLE, *(fault for at in STAGES for fault in (*((at, manner) for manner in MANNERS), WHOLE))]
"""What the dialogues meet, in order: four faults at each stage, between dialogues that are whole."""


def two_turns(place: Path, repeat: int) -> RunFolder:
    clip = place.parent / "clip.wav"
    soundfile.write(clip, np.concatenate([tone(500), np.zeros(1200, dtype=np.int16)]), 24_000)
    script = script_from_audio([str(clip), str(clip)])
    run = RunFolder.create(place, make_plan(Ask("ws://m", [script], repeat=repeat, limits=LIMITS), Secrets(), {}))
    store_clips(run, [script])
    return run


def test_the_dialogues_behind_a_broken_one_go_on_and_all_is_accounted_for(tmp_path: Path) -> None:
    run = two_turns(tmp_path / "run", len(PLANNED))
    connections = itertools.count()

    async def peer(wire: Wire) -> None:
        await vanishing(*PLANNED[next(connections)])(wire)

    hold(run, lambda: peer)
    finished = finish_run(run)
    for dialogue, (at, manner) in zip(finished.dialogues, PLANNED, strict=True):
        outcomes = [turn.outcome for turn in dialogue.turns]
        assert outcomes == (expected(at, manner) if at else ["answered", "answered"]), (at, manner)
        for name in ("events.jsonl", "received.bin"):
            assert (run.dialogue(dialogue.id) / name).is_file()
        heard = any("first_packet" in turn.instants_ns for turn in dialogue.turns)
        assert (run.dialogue(dialogue.id) / "reply-1.flac").exists() == heard
    attempts = finished.summary.attempts
    assert attempts.total == 2 * len(finished.dialogues) == attempts.completed + attempts.failed
    assert attempts.invalid == attempts.never_attempted == 0
    assert sum(attempts.failed_by_kind.values()) == attempts.failed == (2 * len(STAGES) - 1) * len(MANNERS)
    assert finished.summary.headline.turns == attempts.completed
    latencies = finished.summary.headline.measures["voice_to_voice_ms"].distribution
    assert (latencies.minimum, latencies.maximum) == (0.0, 0.0), "a failure's figure is in no table"
