"""Full-duplex dialogues with our front and the metronome, on the virtual clock: measures against the truth."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.dialogue.record import TurnToSpeak
from metrics.result import Value
from servers.write_log import WriteLog
from sessions.clock import NS_PER_MS, NS_PER_S
from sessions.events import Flushed, TurnStarted
from sessions.runs import Limits
from tests.servers.test_metronome_virtual import Fronted
from tests.support.dialogues import Played, perform, utterance
from tests.support.peers import in_memory, tone
from tests.support.virtual_time import VirtualClock, run_virtual

LIMITS = Limits(reply_s=60, idle_s=20)


def behave(folder: Path, text: str) -> str:
    path = folder / "behaviour.yaml"
    path.write_text(f"version: 1\n{text}")
    return str(path)


def play(behaviour: str, turns: list[TurnToSpeak], turn_detection: str = "server_vad") -> tuple[Played, WriteLog]:
    log = WriteLog()

    async def make(clock: VirtualClock) -> Played:
        async with in_memory(Fronted(behaviour, log), clock) as connect:
            return await perform(connect, clock, turns, limits=LIMITS, turn_detection=turn_detection)

    played = run_virtual(make)
    assert isinstance(played, Played)
    return played, log


def asked(gap_ms: float = 100) -> TurnToSpeak:
    return utterance(700, tail_ms=100, gap_ms=gap_ms)


def barge_in(gap_ms: float) -> TurnToSpeak:
    return replace(asked(gap_ms), after="onset", timeout_ns=9 * NS_PER_S, kind="interruption")


def cough(gap_ms: float) -> TurnToSpeak:
    pcm = tone(250)
    turn = TurnToSpeak(pcm, len(pcm) - 1, "annotation", round(gap_ms * NS_PER_MS), after="onset", kind="noise")
    return replace(turn, timeout_ns=9 * NS_PER_S, watch_ms=1000)


def rate(played: Played, measure: str) -> tuple[int, int]:
    """(turns that have it, turns that were measured)."""
    measured = [turn.turn_taking[measure] for turn in played.turns if measure in turn.turn_taking]
    values = [int(one.value) for one in measured if isinstance(one, Value)]
    return sum(values), len(values)


def started(played: Played) -> list[TurnStarted]:
    return [event for event in played.record.log() if isinstance(event, TurnStarted)]


TALKS = "reply: {delay_ms: 200, duration_ms: 6000, packet_ms: 40, pace: %s}\n"


@pytest.mark.parametrize("pace", ["realtime", "burst"])
@pytest.mark.parametrize("delay_ms", [150, 333, 800])
def test_the_stop_latency_is_the_scripted_delay_exactly(tmp_path: Path, delay_ms: int, pace: str) -> None:
    behaviour = behave(tmp_path, TALKS % pace + f"hearing: {{delay_ms: {delay_ms}}}\n")
    gaps_ms = [300, 1001, 1517, 2222.25]
    played, log = play(behaviour, [asked(), *(barge_in(gap) for gap in gaps_ms)])
    assert [turn.outcome for turn in played.turns] == ["interrupted"] * 4 + ["answered"]
    for index in range(1, 5):
        assert played.turns[index].turn_taking["barge_in_stop_ms"] == Value(delay_ms)
    flushes = [event for event in played.record.log() if isinstance(event, Flushed)]
    truth_ns = [entry.t_ns for entry in log.entries if entry.type == "input_audio_buffer.speech_started"]
    assert [event.t_ns for event in flushes] == truth_ns[1:]  # the first sound broke off nothing
    assert [event.turn for event in flushes] == [1, 2, 3, 4]
    starts = started(played)
    assert [at - turn.start_ns for at, turn in zip(truth_ns, starts, strict=True)] == [delay_ms * NS_PER_MS] * 5


def test_the_shipped_behaviour_stops_as_it_says() -> None:
    """`interruptible` at the instants of the shipped script barge-in: 1500 and 600 ms after the first sound."""
    played, _ = play("interruptible", [asked(), barge_in(1500), asked(300), barge_in(600)])
    assert [turn.outcome for turn in played.turns] == ["interrupted", "answered"] * 2
    for index in (1, 3):
        assert played.turns[index].turn_taking["barge_in_stop_ms"] == Value(150)


def test_false_stops_and_ignored_interruptions_are_counted_exactly(tmp_path: Path) -> None:
    """20 coughs of which 7 stop the agent, 10 interruptions of which it ignores 3. Each follows a question."""
    false_stops = {0, 3, 4, 9, 12, 17, 19}
    ignored = {2, 5, 6}
    turns: list[TurnToSpeak] = []
    deaf_to, ignores, sounds = [], [], 0
    for number in range(20):
        turns += [asked(), cough(1000)]
        if number not in false_stops:
            deaf_to.append(sounds + 1)
        sounds += 2
    for number in range(10):
        turns += [asked(), barge_in(900)]
        if number in ignored:
            ignores.append(sounds + 1)
        sounds += 2
    text = TALKS % "realtime" + f"hearing: {{delay_ms: 200, deaf_to: {deaf_to}, ignores: {ignores}}}\n"
    played, _ = play(behave(tmp_path, text), turns)
    assert {turn.turn_class for turn in played.turns} == {"completed"}
    assert rate(played, "false_interruption") == (7, 20)
    assert rate(played, "interruption_ignored") == (3, 10)
    assert rate(played, "answered_backchannel") == (7, 20)
    latencies = [turn.turn for turn in played.turns if isinstance(turn.measures.get("voice_to_voice_ms"), Value)]
    kinds = {turn.turn: turn.turn_kind for turn in started(played)}
    assert "noise" not in {kinds[turn] for turn in latencies}
    for turn in played.turns:
        if kinds[turn.turn] == "noise" and turn.outcome != "answered":
            assert turn.outcome == "quiet as scripted"


def paused(pause_ms: int) -> TurnToSpeak:
    pcm = np.concatenate([tone(600), np.zeros(pause_ms * 24, dtype=np.int16), tone(600)])
    tail = np.zeros(2400, dtype=np.int16)
    pauses = ((600 * 24, pause_ms * 24),)
    return TurnToSpeak(np.concatenate([pcm, tail]), len(pcm) - 1, "annotation", 100 * NS_PER_MS, pauses=pauses)


def test_premature_endpoints_are_a_curve_over_the_pause(tmp_path: Path) -> None:
    """A server that takes the turn after 500 ms of silence cuts every longer pause off, and no shorter one."""
    lengths_ms = [300, 450, 700, 1000, 1500, 2000] * 3
    behaviour = behave(tmp_path, "reply: {delay_ms: 100, duration_ms: 500, packet_ms: 20}\n")
    played, _ = play(behaviour, [paused(length) for length in lengths_ms])
    cases = [case for turn in played.turns for case in turn.pauses]
    assert [case.pause_ms for case in cases] == lengths_ms
    assert [case.was_cut for case in cases] == [length >= 600 for length in lengths_ms]


def test_an_agent_that_asks_again_in_a_silence(tmp_path: Path) -> None:
    text = "reply: {delay_ms: 100, duration_ms: 500, packet_ms: 20}\nreprompt: {after_ms: 2000, times: 1}\n"
    quiet = TurnToSpeak(np.zeros(5000 * 24, dtype=np.int16), -1, "annotation", 0, kind="silence", watch_ms=0)
    for turn_detection in ("manual", "server_vad"):
        played, log = play(behave(tmp_path, text), [asked(), quiet, asked()], turn_detection)
        assert [turn.outcome for turn in played.turns] == ["answered", "answered", "answered"]
        created_ns = [entry.t_ns for entry in log.entries if entry.type == "response.created"]
        first_ns = next(entry.t_ns for entry in log.entries if entry.type == "response.output_audio.delta")
        assert created_ns[1] == first_ns + (500 + 2000) * NS_PER_MS
        assert rate(played, "stayed_quiet") == ((0, 1) if turn_detection == "server_vad" else (0, 0))


def test_an_agent_that_ignores_an_interruption_is_heard_to_its_end(tmp_path: Path) -> None:
    played, _ = play(behave(tmp_path, TALKS % "burst" + "hearing: {ignores: [1]}\n"), [asked(), barge_in(1000)])
    assert not [event for event in played.record.events if isinstance(event, Flushed)]
    assert [turn.outcome for turn in played.turns] == ["answered", "answered"]
    assert rate(played, "interruption_ignored") == (1, 1)


@pytest.mark.parametrize("at_ms", list(range(0, 2000, 187)))
def test_class_a_cancels_our_front_at_any_instant(tmp_path: Path, at_ms: int) -> None:
    """Truncated to what was heard: our front refuses more than it sent."""
    text = "reply: {delay_ms: 50, duration_ms: 1500, packet_ms: 30, leading_silence_ms: 60}\n"
    played, log = play(behave(tmp_path, text), [asked(), barge_in(at_ms)], "manual")
    written = [entry.type for entry in log.entries]
    assert "error" not in written
    is_over = at_ms >= 1500
    assert [turn.outcome for turn in played.turns] == ["answered" if is_over else "interrupted", "answered"]
    assert written.count("conversation.item.truncated") == (0 if is_over else 1)


def test_a_behaviour_says_what_it_hears_only_once(tmp_path: Path) -> None:
    from servers.models.behaviour import load_behaviour
    from sessions.errors import BadFile

    with pytest.raises(BadFile, match="the sound 3 is never heard"):
        load_behaviour(behave(tmp_path, "hearing: {ignores: [1, 3], deaf_to: [3]}\n"))


def test_what_a_played_dialogue_is_made_of(tmp_path: Path) -> None:
    """Everything that turn-taking is computed from stands in the log."""
    played, _ = play(behave(tmp_path, TALKS % "realtime"), [paused(300), cough(500)])
    turns: Any = started(played)
    assert [(turn.turn_kind, turn.watch_ms, turn.pauses) for turn in turns] == [
        ("speech", 2000, [(14_400, 7200)]),
        ("noise", 1000, []),
    ]
