"""`duologue check`: sound runs pass, and each way of being damaged or impossible is named with file and line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
import soundfile
from click.testing import CliRunner

from harness.check.run import check_run
from harness.check.waterfall import discord, spans
from harness.cli.check import check as check_command
from harness.report.turns_csv import write_turns_csv
from harness.results.finish import finish_dialogue
from harness.runs.planning import Ask, make_plan, slot_of, store_clips
from harness.runs.run import Access, Watcher, perform_run
from metrics.result import Value
from servers.write_log import WriteLog
from sessions.clock import TimerWheel
from sessions.runs import RunFolder
from sessions.scripts import script_from_audio
from sessions.secrets import Secrets
from tests.servers.test_metronome_virtual import Fronted
from tests.support import run_samples
from tests.support.peers import in_memory, tone
from tests.support.virtual_time import VirtualClock, run_virtual

Event = dict[str, Any]


def recorded(place: Path, turn_detection: str = "manual", behaviour: str = "steady", turns: int = 2) -> RunFolder:
    """A run of one dialogue with the metronome, on the virtual clock."""
    paths = []
    for number in range(turns):
        path = place / f"said-{number}.wav"
        soundfile.write(path, np.concatenate([tone(400 + 7 * number), np.zeros(2400, dtype=np.int16)]), 24_000)
        paths.append(str(path))
    script = script_from_audio(paths)
    ask = Ask("ws://memory", [script], turn_detection=turn_detection)
    run = RunFolder.create(place / "run", make_plan(ask, Secrets(), {}))
    store_clips(run, [script])

    async def make(clock: VirtualClock) -> None:
        async with in_memory(Fronted(behaviour, WriteLog()), clock) as connect:
            access = Access("ws://memory/v1/realtime", {}, "", Secrets())
            await perform_run(run, access, TimerWheel(clock), Watcher(), connect=connect)

    run_virtual(make)
    return run


def log_of(run: RunFolder) -> Path:
    return run.dialogue("d0001") / "events.jsonl"


def rewrite(run: RunFolder, change: Callable[[list[Event]], None]) -> None:
    """Change the log of the dialogue as lines of JSON."""
    events = [json.loads(line) for line in log_of(run).read_text().splitlines()]
    change(events)
    log_of(run).write_text("".join(json.dumps(event) + "\n" for event in events))


def problems(run: RunFolder) -> list[str]:
    return [str(problem) for problem in check_run(run).problems]


def where(events: list[Event], kind: str, nth: int = 0, **fields: Any) -> int:
    """Index of the nth event of a kind with these fields."""
    found = [i for i, e in enumerate(events) if e["kind"] == kind and all(e.get(k) == v for k, v in fields.items())]
    return found[nth]


@pytest.mark.parametrize("turn_detection", ["manual", "server_vad"])
@pytest.mark.parametrize("behaviour", ["steady", "failures", "closes", "late-audio"])
def test_what_was_recorded_is_sound(behaviour: str, turn_detection: str, tmp_path: Path) -> None:
    run = recorded(tmp_path, turn_detection, behaviour)
    checked = check_run(run)
    assert checked.problems == []
    assert (checked.dialogues, checked.turns) == (1, 2)
    assert checked.events == len(log_of(run).read_text().splitlines())


def set_field(kind: str, nth: int, name: str, by: int, **fields: Any) -> Callable[[list[Event]], None]:
    def change(events: list[Event]) -> None:
        events[where(events, kind, nth, **fields)][name] += by

    return change


def drop(kind: str, nth: int = 0, **fields: Any) -> Callable[[list[Event]], None]:
    def change(events: list[Event]) -> None:
        del events[where(events, kind, nth, **fields)]

    return change


def swap_first_two_frames(events: list[Event]) -> None:
    first, second = where(events, "sent", 0, what="audio"), where(events, "sent", 1, what="audio")
    events[first], events[second] = events[second], events[first]


def request_after_its_reply(events: list[Event]) -> None:
    """As if the request had been written when the dialogue was over."""
    request = events.pop(where(events, "sent", -1, what="request"))
    events.insert(where(events, "ended"), request)
    request["t_ns"] = events[where(events, "ended")]["t_ns"]


def double(kind: str) -> Callable[[list[Event]], None]:
    def change(events: list[Event]) -> None:
        at = where(events, kind)
        events.insert(at, dict(events[at]))

    return change


def another_kind(events: list[Event]) -> None:
    events[where(events, "turn", 1)]["turn_kind"] = "noise"


def flush_of_nothing(events: list[Event]) -> None:
    at = where(events, "ended")
    flushed = {"kind": "flushed", "t_ns": events[at]["t_ns"], "reply": "resp_x", "turn": 7, "why": "cancel"}
    events.insert(at, flushed)


CASES: list[tuple[str, Callable[[list[Event]], None]]] = [
    ("the last line is not `ended`", drop("ended")),
    ("the first line is not `opened`", drop("opened")),
    ("log version 2; this program reads 1", set_field("opened", 0, "version", 1)),
    ("messages without a connection", drop("connected")),
    ("instants out of order", swap_first_two_frames),
    ("sent 5000000 ns before it was due", set_field("sent", 0, "due_ns", 5_000_000, what="audio")),
    ("due_ns is not the end of its last sample", set_field("sent", 0, "due_ns", -1, what="audio")),
    ("a pong before its ping", set_field("pong", 0, "t_ns", -1)),
    ("first_sample is 481; the frame before it ended at 480", set_field("sent", 1, "first_sample", 1, what="audio")),
    ("the frame before it ended at 480", drop("sent", 1, what="audio")),
    ("the message's first byte came after its last", set_field("received", 3, "first_ns", 1)),
    ("arrived before the connection stood", set_field("received", 3, "first_ns", -(10**10))),
    ("lies within the message before it", set_field("received", 3, "offset", -1)),
    ("leaves a hole in received.bin", drop("received", 3)),
    ("speech_end_ns is not start_ns + (last_sample + 1) / rate", set_field("turn", 0, "speech_end_ns", 1)),
    ("turn 1: the plan has 12000 samples with last_sample", set_field("turn", 0, "last_sample", -1)),
    ("turn 2 of 2 neither began nor was given up", drop("turn", 1)),
    ("turn 1 began before the session was ready", set_field("turn", 0, "start_ns", -(10**10))),
    ("came before the request that it answers", request_after_its_reply),
    ("no message before it brought the reply 'resp_x'", flush_of_nothing),
    ("a second `ready`: two logs were joined", double("ready")),
    ("a second `ended`: two logs were joined", double("ended")),
    ("turn 2: the plan has a turn of kind speech, watched for 2000 ms", another_kind),
    ("an instant more than a day from the log's beginning", set_field("turn", 0, "speech_end_ns", 10**15)),
    ("is of turn 8, which has not begun", flush_of_nothing),
]


@pytest.mark.parametrize(("said", "change"), CASES, ids=[case[0][:40] for case in CASES])
def test_each_way_to_be_wrong_is_named(said: str, change: Callable[[list[Event]], None], tmp_path: Path) -> None:
    run = recorded(tmp_path)
    rewrite(run, change)
    found = problems(run)
    assert any(said in one for one in found), found
    assert all(one.startswith("dialogues/d0001/events.jsonl:") for one in found)


def test_the_line_of_a_problem_is_told(tmp_path: Path) -> None:
    run = recorded(tmp_path)
    lines = log_of(run).read_text().splitlines()
    number = next(i for i, line in enumerate(lines, 1) if '"what":"audio"' in line)
    rewrite(run, set_field("sent", 0, "due_ns", 7, what="audio"))
    assert problems(run)[0].startswith(f"dialogues/d0001/events.jsonl:{number}: ")


def test_lines_that_are_no_events_and_a_torn_end(tmp_path: Path) -> None:
    run = recorded(tmp_path)
    lines = log_of(run).read_bytes().splitlines(keepends=True)
    log_of(run).write_bytes(b"".join([*lines[:3], b'{"kind":"dream"}\n', *lines[3:]])[:-5])
    found = problems(run)
    assert any("events.jsonl:4: not an event" in one for one in found)
    assert any("the log was cut off" in one for one in found)


@pytest.mark.parametrize(("cut", "said"), [(-10, "received.bin has"), (10, "10 bytes that no line accounts for")])
def test_received_bytes_are_all_accounted_for(cut: int, said: str, tmp_path: Path) -> None:
    run = recorded(tmp_path)
    file = run.dialogue("d0001") / "received.bin"
    data = file.read_bytes()
    file.write_bytes(data[:cut] if cut < 0 else data + b"x" * cut)
    assert any(said in one for one in problems(run))


def test_the_journal_and_the_clips_are_looked_at(tmp_path: Path) -> None:
    run = recorded(tmp_path)
    journal = run.path / "journal.jsonl"
    line = json.loads(journal.read_text())
    journal.write_text(journal.read_text() * 2 + json.dumps({**line, "number": 5, "id": "d0006"}) + "\n")
    clip = next((run.path / "audio").glob("*.flac"))
    soundfile.write(clip, tone(300), 24_000)
    (run.dialogue("d0001") / "received.bin").unlink()
    found = problems(run)
    assert "its audio is not the one that its name says (SHA-256)" in found[0]
    assert f"audio/{clip.name}: " in found[0]
    assert "journal.jsonl:1: d0001 is done, but dialogues/d0001/received.bin is not there" in found
    assert "journal.jsonl:2: d0001 was journaled already in line 1" in found
    assert "journal.jsonl:3: d0006 has number 5; the plan has 1 dialogues" in found


def test_figures_must_follow_from_the_log(tmp_path: Path) -> None:
    run = recorded(tmp_path)
    results = [finish_dialogue(run, line, slot_of(run.plan, line.number).script) for line in run.journal()]
    write_turns_csv(run.path / "turns.csv", results)
    assert problems(run) == []
    measured = results[0].turns[1].measures["voice_to_voice_ms"]
    assert isinstance(measured, Value)
    results[0].turns[1].measures["voice_to_voice_ms"] = Value(measured.value + 1.5)
    write_turns_csv(run.path / "turns.csv", results)
    assert problems(run) == ["turns.csv: d0001 turn 2: says 381.500 ms; by the log the spans sum to 380.000 ms"]
    fewer = msgspec.structs.replace(results[0], turns=results[0].turns[:1], said=[""], understood=[""])
    write_turns_csv(run.path / "turns.csv", [fewer])
    assert problems(run) == ["turns.csv: d0001 turn 2 has no row"]


def test_spans_go_from_instant_to_instant_and_sum_to_voice_to_voice() -> None:
    turn = run_samples.turn(0, 412.3)
    found = spans(turn.instants_ns)
    assert [(span.start, span.end) for span in found] == [
        ("speech_end", "last_sent"),
        ("last_sent", "turn_committed"),
        ("turn_committed", "first_packet"),
        ("first_packet", "first_audible"),
    ]
    assert sum(span.ms for span in found) == pytest.approx(412.3)
    assert discord(turn, 412.4) == ""
    assert "the spans sum to" in discord(run_samples.turn(0, 412.3, measures={"voice_to_voice_ms": Value(410.0)}), None)
    assert discord(run_samples.turn(0, None), None) == ""


def test_the_command_says_one_line_each_and_its_code(tmp_path: Path) -> None:
    run = recorded(tmp_path)
    good = CliRunner().invoke(check_command, [str(run.path)], standalone_mode=False)
    assert good.return_value == 0
    assert good.output.strip().endswith("sound")
    rewrite(run, drop("ended"))
    bad = CliRunner().invoke(check_command, [str(run.path)], standalone_mode=False)
    assert bad.return_value == 1
    assert "dialogues/d0001/events.jsonl" in bad.output
    as_json = CliRunner().invoke(check_command, [str(run.path), "--json"], standalone_mode=False)
    assert json.loads(as_json.stdout)["problems"][0]["file"] == "dialogues/d0001/events.jsonl"
