"""A person at the microphone, on the virtual clock: what is heard, sent, played and written down."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import soundfile
from numpy.typing import NDArray

from harness.check.run import check_run
from harness.cli.asking import resumed
from harness.microphone.device import Heard, Piece, Sounded
from harness.microphone.echo import EchoFinder
from harness.microphone.queue import PlayQueue
from harness.microphone.run import Talk, conversation_of, empty_script, ended_by_enter, keep
from harness.microphone.screen import TerminalScreen, meter
from harness.replay.again import as_performed, as_scripted
from harness.replay.rescore import rescore
from harness.report.devices_wording import device_lines
from harness.report.html.plan_section import command_line
from harness.report.summary import Summary
from harness.results.dialogue_result import DialogueResult
from harness.results.finish import finish_dialogues, finish_run, summary_of
from harness.runs.planning import Ask, make_plan
from harness.runs.run import Access
from metrics.result import TurnResult, Value
from servers.write_log import WriteLog
from sessions import audio
from sessions.audio import FloatPcm
from sessions.clock import NS_PER_MS, NS_PER_S, MonotonicClock, TimerWheel
from sessions.errors import BadAudio, SetupError
from sessions.events import Echo, Flushed, GaveUp, Played, Ready, Sent, TurnStarted, Xrun, encode_log, read_log
from sessions.runs import MicrophoneUse, RunFolder
from sessions.scripts import load_script
from sessions.secrets import Secrets
from sessions.speech_end import FindEnd, SpeechEnd
from tests.servers.test_metronome_virtual import Fronted
from tests.support.peers import in_memory
from tests.support.scripted_device import Screen, ScriptedDevice
from tests.support.virtual_time import VirtualClock, run_virtual

Pcm = NDArray[np.int16]
LONG = "reply: {delay_ms: 200, duration_ms: 6000, packet_ms: 40}\n"
FIRST_MS = 3000
"""The device has settled and the session stands by then."""


@dataclass(frozen=True, slots=True)
class Talked:
    run: RunFolder
    device: ScriptedDevice
    screen: Screen
    log: WriteLog
    dialogues: list[DialogueResult]
    summary: Summary

    @property
    def events(self) -> list[Any]:
        return list(read_log(self.run.dialogue("d0001") / "events.jsonl"))

    def of(self, kind: type) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def turns(self) -> list[TurnResult]:
        return self.dialogues[0].turns

    def ms(self, turn: int, measure: str) -> float:
        found = {**self.turns[turn].measures, **self.turns[turn].turn_taking}[measure]
        assert isinstance(found, Value), found
        return found.value


def talk(
    place: Path,
    says: Sequence[tuple[float, Pcm]],
    *,
    behaviour: str = "steady",
    turn_detection: str = "server_vad",
    until_ms: float = 12_000,
    enter_ms: float | None = None,
    find_end: FindEnd | None = None,
    **device: Any,
) -> Talked:
    """Hold a conversation with the metronome. enter_ms: when the person presses Enter."""
    ask = Ask("ws://memory", [empty_script()], turn_detection=turn_detection)
    run = RunFolder.create(place / "run", make_plan(ask, Secrets(), {}))
    screen, log = Screen(), WriteLog()

    async def make(clock: VirtualClock) -> ScriptedDevice:
        fake = ScriptedDevice(clock, says, **device)
        use = MicrophoneUse("a microphone", "a loudspeaker", 24_000, 24_000, 800)
        access = Access("ws://memory/v1/realtime", {}, "", Secrets())
        async with in_memory(Fronted(behaviour, log), clock) as connect:
            conversing = conversation_of(run, access, TimerWheel(clock), Talk(fake, use, None, screen), connect)

            async def person() -> None:
                begin_ns = clock.now_ns()
                if enter_ms is not None:
                    await clock.sleep_until_ns(begin_ns + round(enter_ms * NS_PER_MS))
                    conversing.end_turn()
                await clock.sleep_until_ns(begin_ns + round(until_ms * NS_PER_MS))
                conversing.stop()

            one = asyncio.create_task(person())
            record = await conversing.perform()
            one.cancel()
            assert record.completed and record.error is None
            keep(run, conversing, find_end)
        return fake

    device_used = run_virtual(make)
    dialogues = finish_dialogues(run)
    return Talked(run, device_used, screen, log, dialogues, summary_of(run, dialogues))


def said(duration_ms: float = 700) -> Pcm:
    """Noise: found again in one place only."""
    return (np.random.default_rng(3).standard_normal(round(duration_ms * 24)) * 3000).astype(np.int16)


def problems(talked: Talked) -> list[str]:
    return [str(problem) for problem in check_run(talked.run).problems]


@pytest.mark.parametrize("turn_detection", ["server_vad", "manual"])
def test_a_conversation_is_a_run_like_any_other(tmp_path: Path, turn_detection: str) -> None:
    says = [(FIRST_MS, said()), (FIRST_MS + 4000, said(900))]
    talked = talk(tmp_path, says, turn_detection=turn_detection)
    assert [(turn.turn_class, turn.outcome) for turn in talked.turns] == [("completed", "answered")] * 2
    assert problems(talked) == []
    for index, (at_ms, pcm) in enumerate(says):
        end_ns = talked.device.true_ns(at_ms + len(pcm) / 24)
        started = talked.of(TurnStarted)[index]
        assert abs(started.speech_end_ns - end_ns) <= 5 * NS_PER_MS  # a block of the detector
        heard_ns = [entry.t_ns for entry in talked.log.entries if entry.type == "response.output_audio.delta"]
        first_ns = min(t_ns for t_ns in heard_ns if t_ns > end_ns)
        assert talked.ms(index, "first_packet_ms") == (first_ns - started.speech_end_ns) / NS_PER_MS
    finish_run(talked.run)
    assert not rescore(talked.run).changed
    assert talked.screen.is_ready and [index for index, _ in talked.screen.turns] == [0, 1]
    for index, latency_ms in talked.screen.turns:
        assert latency_ms == pytest.approx(talked.ms(index, "voice_to_voice_ms"), abs=0.01)


def test_what_is_sent_is_what_was_heard(tmp_path: Path) -> None:
    says = [(FIRST_MS, said())]
    talked = talk(tmp_path, says, until_ms=6000)
    lane, rate_hz = soundfile.read(talked.run.dialogue("d0001") / "microphone.flac", dtype="int16")
    sent = [event for event in talked.of(Sent) if event.what == "audio"]
    assert rate_hz == 24_000 and sum(frame.samples for frame in sent) == len(lane)
    assert all(frame.t_ns == frame.due_ns for frame in sent)  # as soon as it was handed over
    (turn,) = talked.of(TurnStarted)
    clip, _ = soundfile.read(talked.run.clip(talked.run.plan.scripts[0].turns[0].audio), dtype="int16")
    assert np.array_equal(clip, lane[turn.lane_sample : turn.lane_sample + turn.samples])
    onset = turn.lane_sample + turn.onset_sample
    assert np.array_equal(lane[onset : onset + 12_000], said()[:12_000])


def test_with_manual_turns_only_turns_are_sent_and_enter_ends_them(tmp_path: Path) -> None:
    talked = talk(tmp_path, [(FIRST_MS, said())], turn_detection="manual", enter_ms=FIRST_MS + 900, until_ms=7000)
    (turn,) = talked.of(TurnStarted)
    committed = next(event for event in talked.of(Sent) if event.what == "commit")
    assert committed.t_ns == talked.device.true_ns(FIRST_MS + 900)
    sent = [event for event in talked.of(Sent) if event.what == "audio"]
    assert {event.turn for event in sent} == {0}
    assert sum(event.samples for event in sent) == turn.samples
    assert problems(talked) == []


def test_a_drifting_device_whose_stamps_are_late_is_off_by_no_more_than_its_frames_wait(tmp_path: Path) -> None:
    """400 millionths over half a minute are 11 ms. That the stamps are 12 ms late is seen, but for 3 ms of waiting."""
    says = [(FIRST_MS + 4000 * number, said()) for number in range(7)]
    talked = talk(tmp_path, says, until_ms=FIRST_MS + 28_000, slow_ppm=400, waits_ms=3, lies_ms=12)
    recording, _ = soundfile.read(talked.run.dialogue("d0001") / "recording.flac", dtype="int16")
    (ready,) = talked.of(Ready)
    for turn, (at_ms, pcm) in zip(talked.of(TurnStarted), says, strict=True):
        late_ns = turn.speech_end_ns - talked.device.true_ns(at_ms + len(pcm) / 24)
        assert (3 - 5) * NS_PER_MS <= late_ns <= (3 + 1) * NS_PER_MS  # the detector's block is 5 ms
        first = round((talked.device.true_ns(at_ms) - ready.t_ns) * 24 / NS_PER_MS)
        lane = recording[first - 240 : first + 12_240, 0].astype(np.float64)
        found = int(np.correlate(lane, pcm[:12_000].astype(np.float64)).argmax()) - 240
        assert abs(found - 3 * 24) <= 12
    assert problems(talked) == []


def test_who_breaks_in_stops_the_agent(tmp_path: Path) -> None:
    behaviour = tmp_path / "long.yaml"
    behaviour.write_text(f"version: 1\n{LONG}hearing: {{delay_ms: 150}}\n")
    for turn_detection in ("server_vad", "manual"):
        place = tmp_path / turn_detection
        place.mkdir()
        says = [(FIRST_MS, said()), (FIRST_MS + 2500, said())]
        talked = talk(place, says, behaviour=str(behaviour), turn_detection=turn_detection, until_ms=16_000)
        assert [turn.kind for turn in talked.turns] == ["speech", "interruption"]
        assert [turn.outcome for turn in talked.turns] == ["interrupted", "answered"]
        (flush,) = talked.of(Flushed)
        assert (flush.turn, flush.why) == (1, "server" if turn_detection == "server_vad" else "cancel")
        heard = [at_ns for at_ns, _ in talked.device.played]
        assert not [at_ns for at_ns in heard if flush.t_ns + 25 * NS_PER_MS < at_ns < flush.t_ns + 500 * NS_PER_MS]
        assert problems(talked) == []


def test_a_short_sound_is_a_noise_and_wants_no_answer(tmp_path: Path) -> None:
    talked = talk(tmp_path, [(FIRST_MS, said(120)), (FIRST_MS + 2000, said())], turn_detection="manual")
    assert [(turn.kind, turn.outcome) for turn in talked.turns] == [
        ("noise", "quiet as scripted"),
        ("speech", "answered"),
    ]
    assert [event.what for event in talked.of(Sent) if event.turn is not None and event.what != "audio"] == [
        "clear",
        "commit",
        "request",
    ]


@pytest.mark.parametrize(
    ("cough_ms", "outcomes"), [(150, ["answered", "quiet as scripted"]), (400, ["interrupted", "answered"])]
)
def test_with_manual_turns_a_cough_stops_nobody(tmp_path: Path, cough_ms: int, outcomes: list[str]) -> None:
    behaviour = tmp_path / "long.yaml"
    behaviour.write_text(f"version: 1\n{LONG}")
    says = [(FIRST_MS, said()), (FIRST_MS + 3500, said(cough_ms))]
    talked = talk(tmp_path, says, behaviour=str(behaviour), turn_detection="manual", until_ms=FIRST_MS + 13_000)
    assert [turn.outcome for turn in talked.turns] == outcomes
    assert len(talked.of(Flushed)) == (outcomes[0] == "interrupted") and problems(talked) == []


def test_a_pause_stays_within_the_turn_until_the_agent_is_heard(tmp_path: Path) -> None:
    pause = [(FIRST_MS, said()), (FIRST_MS + 700 + 450, said())]
    talked = talk(tmp_path, pause, until_ms=8000)
    (turn,) = talked.of(TurnStarted)
    ((_, samples),) = turn.pauses
    assert abs(samples / 24 - 450) <= 10
    place = tmp_path / "quick"
    place.mkdir()
    (place / "quick.yaml").write_text("version: 1\nreply: {delay_ms: 0, duration_ms: 300, packet_ms: 40}\n")
    talked = talk(place, [(FIRST_MS, said()), (FIRST_MS + 700 + 750, said())], behaviour=str(place / "quick.yaml"))
    assert len(talked.turns) == 2  # the answer was heard before 800 ms of quiet were over


def test_another_method_may_say_where_speech_ends_and_where_it_hears_none_the_detector_does(tmp_path: Path) -> None:
    def half(samples: Pcm | FloatPcm, rate_hz: int, *, name: str) -> SpeechEnd:
        if name == "turn 2":
            raise BadAudio("no speech in it")
        return SpeechEnd(len(samples) // 2, rate_hz, "speech_end/silero-1")

    says = [(FIRST_MS, said()), (FIRST_MS + 4000, said())]
    talked = talk(tmp_path, says, find_end=half)
    first, second = talked.of(TurnStarted)
    assert (first.method, first.last_sample) == ("speech_end/silero-1", first.samples // 2)
    assert second.method == "speech_end/floor-1"
    assert [turn.method for turn in talked.turns] == [first.method, second.method]
    assert "--speech-end silero" in command_line(talked.run.plan) and problems(talked) == []


def test_lost_samples_are_told_and_do_not_move_what_follows(tmp_path: Path) -> None:
    says = [(FIRST_MS, said()), (FIRST_MS + 4000, said())]
    talked = talk(tmp_path, says, lost=range(250, 260))
    assert [event.what for event in talked.of(Xrun)] == ["input overflow"]
    for turn, (at_ms, pcm) in zip(talked.of(TurnStarted), says, strict=True):
        assert abs(turn.speech_end_ns - talked.device.true_ns(at_ms + len(pcm) / 24)) <= 5 * NS_PER_MS
    assert problems(talked) == []


def test_a_record_that_cannot_be_is_refused(tmp_path: Path) -> None:
    talked = talk(tmp_path, [(FIRST_MS, said())], until_ms=7000)
    place = talked.run.dialogue("d0001")
    events = read_log(place / "events.jsonl")
    frames = [event for event in events if isinstance(event, Sent) and event.what == "audio"]
    early = msgspec.structs.replace(frames[9], due_ns=(frames[9].due_ns or 0) - 6 * NS_PER_MS)
    (turn,) = talked.of(TurnStarted)
    moved = msgspec.structs.replace(turn, speech_end_ns=turn.speech_end_ns + 1, start_ns=turn.start_ns + 1)
    for old, new, what in (
        (frames[9], early, "before its last sample was at the microphone"),
        (turn, moved, "does not end where the device's stamps put sample"),
    ):
        (place / "events.jsonl").write_bytes(encode_log(new if event is old else event for event in events))
        assert len(problems(talked)) == 1 and what in problems(talked)[0]
        events = [turn if event == turn else event for event in events]
    (place / "events.jsonl").write_bytes(encode_log(events))
    lane, _ = soundfile.read(place / "microphone.flac", dtype="int16")
    audio.write_flac(place / "microphone.flac", np.roll(lane, 1), 24_000)
    assert ["is not what microphone.flac has in its place" in problem for problem in problems(talked)] == [True]
    audio.write_flac(place / "microphone.flac", lane[:-480], 24_000)
    assert any("were sent" in problem for problem in problems(talked))
    (place / "microphone.flac").unlink()
    assert any("microphone.flac" in problem for problem in problems(talked))


def test_a_noisy_room_has_an_end_of_speech(tmp_path: Path) -> None:
    talked = talk(tmp_path, [(FIRST_MS + 500, said())], noise=300, until_ms=8000)
    (turn,) = talked.of(TurnStarted)
    assert turn.method == "speech_end/floor-1"
    assert abs(turn.speech_end_ns - talked.device.true_ns(FIRST_MS + 500 + 700)) <= 10 * NS_PER_MS


def test_the_agent_in_the_microphone_is_told_once(tmp_path: Path) -> None:
    clip = load_script("facts").turns[0].clip.pcm
    noisy = tmp_path / "noisy.yaml"
    lead = "leading_silence_ms: 4000, leading_noise_dbfs: -20"
    noisy.write_text(f"version: 1\nreply: {{delay_ms: 200, duration_ms: 100, packet_ms: 40, {lead}}}\n")
    talked = talk(tmp_path, [(FIRST_MS, clip)], behaviour=str(noisy), echo=0.02, until_ms=11_000)
    (echo,) = talked.of(Echo)
    assert 55 * NS_PER_MS <= echo.delay_ns <= 65 * NS_PER_MS
    assert len(talked.screen.warnings) == 1 and "headphones" in talked.screen.warnings[0]
    assert any("heard the agent" in line for line in device_lines(talked.summary))
    place = tmp_path / "quiet"
    place.mkdir()
    assert not talk(place, [(FIRST_MS, clip)], behaviour=str(noisy), noise=40, until_ms=11_000).of(Echo)


def test_an_echo_in_a_room_is_found_and_other_speech_is_none() -> None:
    """The same voice, in pieces of half a second: windows of one echo agree, windows of two different talks do not."""
    clips = [turn.clip.pcm for name in ("facts", "small-talk", "trip-planning") for turn in load_script(name).turns]
    talk_a, talk_b = (np.concatenate(clips[first::2]) for first in (0, 1))
    dice = np.random.default_rng(1)
    room = np.zeros(4800)
    room[1680] = 1  # 70 ms
    room[1680:] += dice.standard_normal(3120) * np.exp(-np.arange(3120) / 1200) * 0.12
    echo = np.clip(
        np.convolve(talk_a, room)[: len(talk_a)] * 0.1 + dice.standard_normal(len(talk_a)) * 10, -32768, 32767
    )
    for mic, is_echo in ((echo.astype(np.int16), True), (talk_b, False)):
        finder, found = EchoFinder(24_000), []
        for first in range(0, min(len(talk_a), len(mic)) - 480, 480):
            at_ns = round(first / 24 * NS_PER_MS)
            finder.sounded(Sounded(talk_a[first : first + 480], at_ns, at_ns))
            found.append(finder.heard(Heard(mic[first : first + 480], at_ns, at_ns + 20 * NS_PER_MS)))
        told = [one for one in found if one is not None]
        assert bool(told) == is_echo
        assert all(abs(one.delay_ns - 70 * NS_PER_MS) < 3 * NS_PER_MS for one in told)


def test_when_it_left_the_loudspeaker_stands_beside_the_model(tmp_path: Path) -> None:
    talked = talk(tmp_path, [(FIRST_MS, said())], until_ms=8000, output_ms=50)
    played = talked.of(Played)
    assert played[0].first_sample == 0
    first_ns = talked.turns[0].instants_ns["first_packet"]
    assert 50 * NS_PER_MS <= played[0].t_ns - first_ns <= 70 * NS_PER_MS


def test_who_ends_it_in_the_midst_of_a_reply_made_no_attempt(tmp_path: Path) -> None:
    talked = talk(tmp_path, [(FIRST_MS, said())], until_ms=FIRST_MS + 1800)
    (gave_up,) = talked.of(GaveUp)
    assert (gave_up.turn, gave_up.outcome) == (0, "")
    assert talked.turns == [] and problems(talked) == []


def test_nothing_said_is_nothing_measured(tmp_path: Path) -> None:
    talked = talk(tmp_path, [], until_ms=4000)
    assert talked.turns == [] and problems(talked) == []


def test_it_can_be_said_again(tmp_path: Path) -> None:
    talked = talk(tmp_path, [(FIRST_MS, said()), (FIRST_MS + 4000, said(900))])
    (performed,) = as_performed(talked.run, ["d0001"]).scripts
    (scripted,) = as_scripted(talked.run, ["d0001"]).scripts
    assert [turn.start.after for turn in performed.turns] == ["at", "at"]
    assert [turn.start.after for turn in scripted.turns] == ["reply", "reply"]
    assert 0 < scripted.turns[1].start.gap_ms < 3000


# ---- the terminal ----------------------------------------------------------------------------------------------------


def test_the_meter_shows_level_and_who_speaks() -> None:
    assert meter(-66, False, False) == f"[{'.' * 30}]  -66 dBFS"
    assert meter(-33, True, False) == f"[{'#' * 15}{'.' * 15}]  -33 dBFS  you speak"
    assert meter(0, False, True).endswith("   0 dBFS  the agent speaks")
    assert meter(float("-inf"), True, True) == f"[{'.' * 30}]  -99 dBFS  both speak"


def test_the_screen_is_a_meter_with_lines_above_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    screen = TerminalScreen(MonotonicClock(), quiet=False, ends="Enter ends a turn")
    screen.level(-20, False, False)
    screen.ready()
    screen.turn(0, 1.23, 812.4)
    screen.turn(1, 2, -80)
    screen.warn("something\x1b[31m odd")
    shown = capsys.readouterr().err
    lines = shown.split("\x1b[K")[-1].splitlines()
    assert lines == [
        "speak now; Enter ends a turn; Ctrl-C ends the conversation",
        "turn 1: you spoke for 1.2 s, answered after 812 ms",
        "turn 2: you spoke for 2.0 s, answered 80 ms too early",
        "warning: something�[31m odd",
    ]
    quiet = TerminalScreen(MonotonicClock(), quiet=True, ends="")
    quiet.level(-20, False, False)
    quiet.ready()
    assert capsys.readouterr().err == ""


async def test_on_a_terminal_enter_ends_a_turn_and_ctrl_d_the_conversation(monkeypatch: pytest.MonkeyPatch) -> None:
    pressed: list[str] = []

    class Turns:
        def end_turn(self) -> None:
            pressed.append("enter")

        def stop(self) -> None:
            pressed.append("end")

    keyboard, terminal = os.openpty()
    with os.fdopen(terminal) as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        with ended_by_enter(Turns()):
            for keys, count in ((b"\n", 1), (b"\x04", 2)):
                os.write(keyboard, keys)
                async with asyncio.timeout(20):
                    while len(pressed) < count:
                        await asyncio.sleep(0.01)
    os.close(keyboard)
    assert pressed == ["enter", "end"]


def test_what_was_dropped_is_never_played() -> None:
    queue, out = PlayQueue(), np.zeros(480, dtype=np.int16)
    queue.put("a", np.full(600, 1, dtype=np.int16))
    assert queue.take(out) == (Piece("a", 0, 0, 480),)
    queue.drop()
    queue.put("b", np.full(100, 2, dtype=np.int16))
    assert queue.take(out) == (Piece("b", 0, 0, 100),)
    assert out.tolist() == [2] * 100 + [0] * 380
    queue.put("b", np.full(100, 3, dtype=np.int16))
    assert queue.take(out) == (Piece("b", 100, 0, 100),)
    assert queue.take(out) == ()


def test_a_sound_of_the_server_is_booked_on_the_turn_that_made_it(tmp_path: Path) -> None:
    """A server that hears the user within 60 ms is quicker than the detector, which needs as much itself."""
    (tmp_path / "quick.yaml").write_text(f"version: 1\n{LONG}hearing: {{delay_ms: 20}}\n")
    says = [(FIRST_MS, said()), (FIRST_MS + 2500, said())]
    talked = talk(tmp_path, says, behaviour=str(tmp_path / "quick.yaml"), until_ms=16_000)
    (flush,) = talked.of(Flushed)
    assert flush.turn == 1 and problems(talked) == []
    assert [turn.kind for turn in talked.turns] == ["speech", "interruption"]


def test_a_device_that_goes_ends_the_conversation_with_a_whole_run(tmp_path: Path) -> None:
    talked = talk(tmp_path, [(FIRST_MS, said())], until_ms=30_000, gone_ms=7000)
    assert [turn.outcome for turn in talked.turns] == ["answered"] and problems(talked) == []
    assert talked.events[-1].t_ns - talked.device.start_ns < 7.1 * NS_PER_S


def test_a_conversation_that_is_over_is_not_resumed(tmp_path: Path) -> None:
    talked = talk(tmp_path, [(FIRST_MS, said())], until_ms=7000)
    with pytest.raises(SetupError, match="duologue replay"):
        resumed(Secrets(), talked.run.path, None)
    plan = talked.run.plan
    assert plan.microphone is not None and plan.microphone.end_after_ms == 800
    assert command_line(plan).startswith("duologue talk ws://memory") and "--mic" in command_line(plan)
    lines = list(device_lines(talked.summary))
    assert "'a microphone'" in lines[0] and "loudspeaker" in lines[-1]
