"""From a run's raw records to everything that is derived from them: recordings, summary, table of turns, report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from harness.calibrate.bound import read_parts
from harness.network import log as network_log
from harness.network.trips import trips_of
from harness.report.html import build_report
from harness.report.summary import Summary, summarise_run
from harness.report.turns_csv import write_turns_csv
from harness.results import recording
from harness.results.derive import Derived, derive
from harness.results.devices import devices_of
from harness.results.dialogue_result import DialogueResult
from harness.results.heard_lane import heard_lane
from harness.results.raw_record import raw_record
from harness.results.timeline import timeline_of
from harness.runs.losses import read_losses, still_lost
from harness.runs.planning import slot_of
from metrics.turn_taking.session import session_continuity
from metrics.turns import counted_faults, measure_conversation
from sessions import audio
from sessions.clock import NS_PER_MS
from sessions.events import AnyEvent
from sessions.runs import JournalLine, PlannedScript, RunFolder, disk_errors, indented, write_atomic

Pcm = NDArray[np.int16]


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """What `finish_run` made of a run folder."""

    summary: Summary
    dialogues: list[DialogueResult]
    report_path: Path


def finish_run(run: RunFolder, *, on_dialogue: Callable[[int, int], None] = lambda done, total: None) -> FinishedRun:
    """Derive everything anew from the dialogues that the journal names. on_dialogue: told (done, total)."""
    dialogues = finish_dialogues(run, on_dialogue=on_dialogue)
    summary = summary_of(run, dialogues)
    with disk_errors(run.path, then=f"give: duologue report {run.path}"):
        write_atomic(run.path / "summary.json", indented(summary))
        write_turns_csv(run.path / "turns.csv", dialogues)
        report_path = build_report(run, run.plan, summary, dialogues)
    return FinishedRun(summary, dialogues, report_path)


def finish_dialogues(
    run: RunFolder, *, on_dialogue: Callable[[int, int], None] = lambda done, total: None
) -> list[DialogueResult]:
    """Every dialogue that the journal names, measured, in the plan's order. on_dialogue: told (done, total)."""
    lines = sorted(run.journal(), key=lambda line: line.number)
    dialogues = []
    for done, line in enumerate(lines, 1):
        dialogues.append(finish_dialogue(run, line, slot_of(run.plan, line.number).script))
        on_dialogue(done, len(lines))
    return dialogues


def summary_of(run: RunFolder, dialogues: list[DialogueResult]) -> Summary:
    """The run in figures, from all of its dialogues."""
    lost = still_lost(run.plan, read_losses(run.path), {dialogue.number for dialogue in dialogues})
    parts, stretches = read_parts(run.path), network_log.read(run.path)
    return summarise_run(run.plan, dialogues, run.plan.floor, parts, lost=lost, stretches=stretches)


def finish_dialogue(run: RunFolder, line: JournalLine, script: PlannedScript) -> DialogueResult:
    """Measure one dialogue from its folder, and render its audio if that is not there yet."""
    folder = run.dialogue(line.id)
    events, received = raw_record(run, line.id, script)
    derived = derive(events, received)
    place = folder / "recording.flac"
    clips, lane = _clips(run, script, derived), heard_lane(folder, events)
    rendered = place.exists() or recording.write(folder, derived.conversation, clips, derived.closed_ns, lane)
    recorded = str(place.relative_to(run.path)) if rendered else ""
    return _result(run, line, script, derived, recorded, events)


def _clips(run: RunFolder, script: PlannedScript, derived: Derived) -> dict[int, Pcm]:
    """By turn, what was on the user lane: with manual turns the clip up to n, else all of it."""
    clips = {}
    for turn in derived.conversation.turns:
        pcm = audio.load(run.clip(script.turns[turn.index].audio), rate_hz=turn.rate_hz).pcm
        sent = sum(frame.samples for frame in turn.frames)
        clips[turn.index] = pcm[:sent] if derived.conversation.protocol_class == "A" else pcm
    return clips


def _result(
    run: RunFolder,
    line: JournalLine,
    script: PlannedScript,
    derived: Derived,
    recorded: str,
    events: Sequence[AnyEvent],
) -> DialogueResult:
    conversation = derived.conversation
    turns = measure_conversation(conversation, limit_lateness_ms=run.plan.limits.lateness_ms)
    return DialogueResult(
        id=line.id,
        number=line.number,
        script=line.script,
        warmup=line.warmup,
        wall_time=derived.wall_time,
        completed=derived.completed,
        phases_ms={name: ns / NS_PER_MS for name, ns in (conversation.phases_ns or {}).items()},
        ready_ns=conversation.ready_ns,
        ended_ns=conversation.ended_ns or 0,
        turns=turns,
        said=[script.turns[turn.turn].text for turn in turns],
        understood=[derived.understood.get(turn.turn, "") for turn in turns],
        recording=recorded,
        faults=counted_faults(conversation.faults),
        start_delay_ms=None if derived.start_delay_ns is None else derived.start_delay_ns / NS_PER_MS,
        trips=trips_of(events),
        session=session_continuity(conversation),
        devices=devices_of(events, conversation),
        timeline=timeline_of(conversation),
    )
