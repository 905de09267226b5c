"""A whole run folder: its journal, its clips, each dialogue's record, and the figures that were derived from them."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from pathlib import Path

import msgspec

from clients.dialect import interpreter_of
from harness.check.heard import check_heard
from harness.check.log import Line, check_log, check_replies, read_lines
from harness.check.problem import Problem
from harness.check.waterfall import discord
from harness.results.derive import derive
from harness.runs.planning import planned, slot_of
from metrics.turns import measure_conversation
from sessions import audio
from sessions.errors import BadFile, SetupError
from sessions.events import Opened
from sessions.runs import JournalLine, PlannedScript, RunFolder

_TURNS = "turns.csv"


class Checked(msgspec.Struct, frozen=True):
    """What was looked at, and all that is wrong with it."""

    run: str
    dialogues: int
    turns: int
    events: int
    problems: list[Problem]


def check_run(run: RunFolder) -> Checked:
    """Look at everything that the journal says is done. Reads only."""
    problems = list(_clips(run))
    lines, torn = _journal(run)
    problems += torn
    reported, unread = _reported(run)
    problems += unread
    events = turns = 0
    for number, line in lines:
        at = Problem("journal.jsonl", number, "")
        script = _script(run, line)
        if isinstance(script, str):
            problems.append(msgspec.structs.replace(at, problem=script))
            continue
        folder = run.dialogue(line.id)
        missing = [name for name in ("events.jsonl", "received.bin") if not (folder / name).is_file()]
        if missing:
            what = f"{line.id} is done, but dialogues/{line.id}/{missing[0]} is not there"
            problems.append(msgspec.structs.replace(at, problem=what))
            continue
        seen, found = _dialogue(run, line, script, reported)
        problems += found
        events, turns = events + seen, turns + len(script.turns)
    return Checked(str(run.path), len(lines), turns, events, problems)


def _journal(run: RunFolder) -> tuple[list[tuple[int, JournalLine]], list[Problem]]:
    """Lines that name a dialogue, once each, and what is wrong with the others."""
    try:
        journal = run.journal()
    except BadFile as error:
        return [], [Problem("journal.jsonl", error.line, error.problem)]
    lines, problems = [], []
    seen: dict[int, int] = {}
    for number, line in enumerate(journal, 1):
        if line.number in seen:
            what = f"{line.id} was journaled already in line {seen[line.number]}"
            problems.append(Problem("journal.jsonl", number, what))
        else:
            lines.append((number, line))
        seen.setdefault(line.number, number)
    if not journal:
        problems.append(Problem("journal.jsonl", None, "no dialogue is done"))
    return lines, problems


def _script(run: RunFolder, line: JournalLine) -> PlannedScript | str:
    """What the dialogue performed, or why that cannot be."""
    total = planned(run.plan)
    if line.number < 0 or (total is not None and line.number >= total):
        return f"{line.id} has number {line.number}; the plan has {total} dialogues"
    slot = slot_of(run.plan, line.number)
    if line.script != slot.script.name or line.warmup != slot.warmup:
        return f"{line.id} performed {line.script!r}; the plan has {slot.script.name!r} in its place"
    if line.turns != len(slot.script.turns):
        return f"{line.id} has {line.turns} turns; its script has {len(slot.script.turns)}"
    return slot.script


def _clips(run: RunFolder) -> Iterator[Problem]:
    """Each clip of the plan is there, with the content that its name says."""
    for name in dict.fromkeys(turn.audio for script in run.plan.scripts for turn in script.turns):
        place = str(run.clip(name).relative_to(run.path))
        try:
            clip = audio.load(run.clip(name))
        except SetupError as error:
            yield Problem(place, None, error.what)
            continue
        if audio.sha256(clip) != name:
            yield Problem(place, None, "its audio is not the one that its name says (SHA-256)")


def _dialogue(
    run: RunFolder, line: JournalLine, script: PlannedScript, reported: dict[tuple[str, int], float | None] | None
) -> tuple[int, list[Problem]]:
    """How many events there are, and what is wrong with them."""
    place = f"dialogues/{line.id}/events.jsonl"
    folder = run.dialogue(line.id)
    received = (folder / "received.bin").read_bytes()
    lines, found = read_lines((folder / "events.jsonl").read_bytes())
    found += check_log(lines, len(received), script.turns)
    found += check_heard(run, line.id, lines, script.turns)
    opened = next((event for _, event in lines if isinstance(event, Opened)), None)
    if opened is not None:
        found += _kind(run, opened)
        found += check_replies(lines, received, interpreter_of(opened.protocol))
    problems = [Problem(place, number, problem) for number, problem in sorted(found, key=lambda one: one[0] or 0)]
    if not problems:  # figures of a log that cannot be believed say nothing
        problems = _figures(run, line, lines, received, reported)
    return len(lines), problems


def _kind(run: RunFolder, opened: Opened) -> Iterator[tuple[int, str]]:
    for name in ("protocol", "protocol_class", "rate_hz"):
        said, asked = getattr(opened, name), getattr(run.plan, name)
        if said != asked:
            yield 1, f"{name} is {said}; the plan has {asked}"


def _figures(
    run: RunFolder,
    line: JournalLine,
    lines: list[Line],
    received: bytes,
    reported: dict[tuple[str, int], float | None] | None,
) -> list[Problem]:
    """Whether the spans of each turn sum to voice-to-voice, as measured now and as turns.csv says."""
    conversation = derive([event for _, event in lines], received).conversation
    problems = []
    for turn in measure_conversation(conversation, limit_lateness_ms=run.plan.limits.lateness_ms):
        if reported is None:
            value, where = None, f"dialogues/{line.id}/events.jsonl"
            measured = turn.measures.get("voice_to_voice_ms")
            value = getattr(measured, "value", None)
        elif (line.id, turn.turn) not in reported:
            problems.append(Problem(_TURNS, None, f"{line.id} turn {turn.turn + 1} has no row"))
            continue
        else:
            value, where = reported[line.id, turn.turn], _TURNS
        wrong = discord(turn, value)
        if wrong:
            problems.append(Problem(where, None, f"{line.id} turn {turn.turn + 1}: {wrong}"))
    return problems


def _reported(run: RunFolder) -> tuple[dict[tuple[str, int], float | None] | None, list[Problem]]:
    """Voice-to-voice by dialogue and turn as turns.csv has it; None where nothing was derived yet, or it is damaged."""
    file: Path = run.path / _TURNS
    if not file.is_file():
        return None, []
    found = {}
    try:
        with file.open(encoding="utf-8", newline="") as rows:
            for row in csv.DictReader(rows):
                value = row.get("voice_to_voice_ms")
                found[row.get("dialogue") or "", int(row.get("turn") or 0) - 1] = float(value) if value else None
    except (ValueError, csv.Error) as error:
        return None, [Problem(_TURNS, None, f"it is no table of turns ({error})")]
    return found, []
