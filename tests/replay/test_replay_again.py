"""`duologue replay`: the user's side again, as performed or as scripted, and both side by side."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import msgspec
import numpy as np
import pytest
import soundfile
from rich.console import Console

from harness.check.run import check_run
from harness.replay.again import Again, as_performed, as_scripted, ask_again
from harness.replay.beside import Beside, beside, counted, print_beside, recorded_place
from harness.replay.rescore import rescore
from harness.runs.planning import Ask, make_plan, store_clips
from harness.runs.run import Access, Watcher, perform_run
from servers.write_log import WriteLog
from sessions.clock import TimerWheel
from sessions.errors import SetupError
from sessions.events import Ended, GaveUp, Opened, Ready, TurnStarted, read_log
from sessions.runs import Limits, RunFolder
from sessions.scripts import load_script
from sessions.secrets import Secrets
from tests.replay.test_replay_serve import CALM, serving
from tests.servers.test_metronome_virtual import Fronted
from tests.support.commands import run as command
from tests.support.peers import Peer, in_memory, tone
from tests.support.virtual_time import VirtualClock, run_virtual

SCRIPT = """\
version: 1
name: three
description: One that breaks in, and one that waits.
language: en
turns:
  - audio: said.wav
    text: A tone.
  - audio: said.wav
    kind: interruption
    start: {after: onset, gap_ms: 285}
  - audio: said.wav
    start: {after: reply, gap_ms: 400}
"""
MORE = """\
  - audio: said.wav
    kind: backchannel
    start: {after: onset, gap_ms: 30}
  - silence_ms: 1500
  - audio: said.wav
    kind: overlap
    start: {after: speech, gap_ms: 900}
"""


def hold(ask: Ask, place: Path, peer: Peer) -> RunFolder:
    """The run that `ask` is, in memory on the virtual clock."""
    run = RunFolder.create(place, make_plan(ask, Secrets(), {}))
    store_clips(run, ask.scripts)

    async def make(clock: VirtualClock) -> None:
        async with in_memory(peer, clock) as connect:
            access = Access("ws://memory/v1/realtime", {}, "", Secrets())
            await perform_run(run, access, TimerWheel(clock), Watcher(), connect=connect)

    run_virtual(make)
    return run


def recorded(tmp_path: Path, turn_detection: str = "manual", repeat: int = 2) -> RunFolder:
    soundfile.write(tmp_path / "said.wav", np.concatenate([tone(500), np.zeros(2400, dtype=np.int16)]), 24_000)
    (tmp_path / "three.yaml").write_text(SCRIPT)
    script = load_script(str(tmp_path / "three.yaml"))
    ask = Ask("ws://memory", [script], turn_detection=turn_detection, repeat=repeat, warmup=1)
    return hold(ask, tmp_path / "old", Fronted("steady", WriteLog()))


def again_of(old: RunFolder, again: Again, place: Path, behaviour: str) -> tuple[RunFolder, Beside]:
    ask = ask_again(old.plan, again, "ws://memory", {}, "", "")
    new = hold(ask, place, Fronted(behaviour, WriteLog()))
    return new, beside(old, new, list(zip(again.ids, counted(new), strict=True)), "performed")


def starts_ns(run: RunFolder, dialogue_id: str) -> list[int]:
    events = read_log(run.dialogue(dialogue_id) / "events.jsonl")
    ready_ns = next(event.t_ns for event in events if isinstance(event, Ready))
    return [event.start_ns - ready_ns for event in events if isinstance(event, TurnStarted)]


@pytest.mark.parametrize("turn_detection", ["manual", "server_vad"])
def test_as_performed_every_utterance_begins_when_it_did(turn_detection: str, tmp_path: Path) -> None:
    old = recorded(tmp_path, turn_detection)
    again = as_performed(old, counted(old))
    assert again.ids == ["d0002", "d0003"], "warm-up is left out"
    new, compared = again_of(old, again, tmp_path / "new", "stalls")
    for before, after in zip(again.ids, counted(new), strict=True):
        assert starts_ns(new, after) == starts_ns(old, before), "to the nanosecond, though the replies are others"
    assert [(row.turn, row.a and row.a.dialogue, row.b and row.b.dialogue) for row in compared.rows] == [
        (turn, old_id, new_id) for old_id, new_id in (("d0002", "d0001"), ("d0003", "d0002")) for turn in (1, 2, 3)
    ]
    assert all(row.a and row.b and row.a.start_ms == row.b.start_ms for row in compared.rows)


@pytest.mark.parametrize("turn_detection", ["manual", "server_vad"])
def test_against_the_same_server_all_is_as_it_was(turn_detection: str, tmp_path: Path) -> None:
    old = recorded(tmp_path, turn_detection)
    for number, again in enumerate((as_performed(old, counted(old)), as_scripted(old, counted(old)))):
        _, compared = again_of(old, again, tmp_path / f"new-{number}", "steady")
        assert len(compared.rows) == 6
        for row in compared.rows:
            assert row.a is not None and row.b is not None
            assert (row.b.outcome, row.b.measures) == (row.a.outcome, row.a.measures)


def test_as_scripted_the_waits_are_the_scripts(tmp_path: Path) -> None:
    old = recorded(tmp_path)
    again = as_scripted(old, counted(old))
    assert (len(again.scripts), again.repeat) == (1, 2)
    assert [turn.start.after for turn in again.scripts[0].turns] == ["reply", "onset", "reply"]
    new, _ = again_of(old, again, tmp_path / "new", "stalls")
    assert starts_ns(new, "d0001") != starts_ns(old, "d0002"), "a reply that is heard at another time is waited for"
    assert new.plan.scripts[0].sha256 == old.plan.scripts[0].sha256
    one = as_scripted(old, ["d0003"])
    assert (one.repeat, [script.name for script in one.scripts]) == (1, ["three"])


@pytest.mark.parametrize("turn_detection", ["manual", "server_vad"])
@pytest.mark.parametrize("behaviour", ["steady", "stalls", "unfinished", "failures", "late-audio"])
def test_what_happens_at_once_is_sound(behaviour: str, turn_detection: str, tmp_path: Path) -> None:
    """`duologue check` on dialogues with interruptions, backchannels and silences, before and after rescoring."""
    soundfile.write(tmp_path / "said.wav", np.concatenate([tone(500), np.zeros(2400, dtype=np.int16)]), 24_000)
    (tmp_path / "three.yaml").write_text(SCRIPT + MORE)
    script = load_script(str(tmp_path / "three.yaml"))
    ask = Ask("ws://memory", [script], turn_detection=turn_detection, limits=Limits(reply_s=10, idle_s=5))
    run = hold(ask, tmp_path / "run", Fronted(behaviour, WriteLog()))
    assert check_run(run).problems == []
    rescore(run)
    assert check_run(run).problems == []
    assert rescore(run).changed == []


def test_one_dialogue_or_all_of_them(tmp_path: Path) -> None:
    old = recorded(tmp_path)
    assert recorded_place(old.path)[1] == ["d0002", "d0003"]
    assert recorded_place(old.dialogue("d0001"))[1] == ["d0001"]
    with pytest.raises(SetupError, match="neither a run folder nor a dialogue"):
        recorded_place(tmp_path)
    names = [script.name for script in as_performed(old, ["d0002", "d0003"]).scripts]
    assert names == ["three-d0002", "three-d0003"], "a plan's names differ"


def rewritten(run: RunFolder, dialogue_id: str, keep: type | tuple[type, ...], **opened: int) -> None:
    """The dialogue's log with the events of some kinds only."""
    file = run.dialogue(dialogue_id) / "events.jsonl"
    events = [event for event in read_log(file) if isinstance(event, keep)]
    events = [msgspec.structs.replace(e, **opened) if isinstance(e, Opened) and opened else e for e in events]
    run.write_dialogue(dialogue_id, events, (run.dialogue(dialogue_id) / "received.bin").read_bytes())


def test_a_dialogue_that_failed_says_why_it_cannot_be_replayed(tmp_path: Path) -> None:
    old = recorded(tmp_path, repeat=1)
    rewritten(old, "d0002", (Opened, Ended))
    opened, ended = read_log(old.dialogue("d0002") / "events.jsonl")
    old.write_dialogue("d0002", [opened, GaveUp(opened.t_ns, 0, "refused", "no such voice"), ended], b"")
    with pytest.raises(SetupError, match="d0002 has nothing to replay: refused: no such voice"):
        as_performed(old, ["d0002"])
    assert as_performed(old, ["d0001", "d0002"]).ids == ["d0001"], "the others are replayed"


def test_damage_and_other_versions_are_one_line(tmp_path: Path) -> None:
    old = recorded(tmp_path, repeat=1)
    rewritten(old, "d0001", (Opened, Ready, TurnStarted), version=9)
    with pytest.raises(SetupError, match="the log of d0001 has version 9; this program reads 1"):
        as_performed(old, ["d0001"])
    (old.dialogue("d0002") / "received.bin").unlink()
    with pytest.raises(SetupError, match=r"cannot read .*received\.bin"):
        as_performed(old, ["d0002"])
    clip = next((old.path / "audio").glob("*.flac"))
    soundfile.write(clip, tone(100), 24_000)
    with pytest.raises(SetupError, match="no longer holds the audio that the plan names"):
        as_scripted(old, ["d0001"])


def test_the_table_shows_what_differs(tmp_path: Path) -> None:
    old = recorded(tmp_path, repeat=1)
    _, compared = again_of(old, as_performed(old, counted(old)), tmp_path / "new", "failures")
    console = Console(width=100, record=True)
    with console.capture() as captured:
        print_beside(compared, console)
    shown = captured.get()
    assert "d0002 turn 1" in shown
    assert "answered" in shown
    assert "→" in shown, "an outcome that changed shows both"


@pytest.mark.sockets
async def test_the_command(tmp_path: Path) -> None:
    async with serving("--metronome", "steady") as server:
        asked = ("--script", "small-talk", "--out", str(tmp_path / "old"), *CALM)
        said = await command("measure", server["url"], *asked)
        assert said.code == 0, said.err
        given = (str(tmp_path / "old" / "dialogues" / "d0001"), "--against", server["url"])
        ran = await command("replay", *given, "--json", "--out", str(tmp_path / "new"))
    assert ran.code == 0, ran.err
    compared = json.loads(ran.out)
    assert compared == json.loads((tmp_path / "new" / "beside.json").read_bytes())
    assert [row["turn"] for row in compared["rows"]] == [1, 2, 3]
    for row in compared["rows"]:
        assert abs(row["b"]["start_ms"] - row["a"]["start_ms"]) < 1000, "as performed"
    checked = await command("check", str(tmp_path / "new"))
    assert checked.code == 0, checked.err


@pytest.mark.sockets
def test_a_server_that_is_not_there_leaves_no_run(tmp_path: Path) -> None:
    old = recorded(tmp_path)
    given = (str(old.path), "--against", "ws://127.0.0.1:9", "--out", str(tmp_path / "new"))
    ran = asyncio.run(command("replay", *given))
    assert ran.code == 2
    assert "nothing listens at ws://127.0.0.1:9" in ran.err
    assert not (tmp_path / "new").exists()
