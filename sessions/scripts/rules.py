"""What a script may say beyond the types of its fields: one sound a turn, fields that belong together, waits that fire.

Every mistake has its line and field, as those of the schema have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sessions.errors import BadFile
from sessions.scripts.format import HINTS, PART_SOUNDS, SOUNDS, ScriptFile, TurnFile
from sessions.scripts.script import EXPECT_A_REPLY, ScriptTurn
from sessions.yaml_schema import Document, Key

_TALKS_OVER = ("interruption", "overlap")


def mistakes(document: Document, file: ScriptFile, known: Sequence[BadFile]) -> list[BadFile]:
    """All mistakes that the schema cannot see. known: the schema's; what builds on these is not said again."""
    wrong = {mistake.field for mistake in known}
    found: list[BadFile] = []
    if "turns" in wrong:
        return found
    for index, turn in enumerate(file.turns):
        raw = document.data["turns"][index]
        if f"turns[{index}]" in wrong or not isinstance(raw, dict):
            continue
        found += _sounds(document, ("turns", index), raw, SOUNDS)
        found += _parts(document, index, raw, wrong)
        found += _belonging(document, index, raw, turn)
        found += _start(document, index, raw, turn)
    if not any(field.startswith("turns") for field in {*wrong, *(mistake.field for mistake in found)}):
        found += _waits(document, file)
    return found


def _sounds(document: Document, at: tuple[Key, ...], raw: dict[str, Any], names: tuple[str, ...]) -> Iterator[BadFile]:
    given = [name for name in names if raw.get(name) is not None]
    what = "A turn" if names is SOUNDS else "A part"
    rule = f"{what} has one of {', '.join(names)}"
    if not given:
        yield document.mistake((*at, "audio"), "this field is missing", f"{HINTS['audio']}. {rule}")
    for name in given[1:]:
        yield document.mistake((*at, name), f"given beside {given[0]}", rule)
    if "speech_end_sample" in raw and raw["speech_end_sample"] is not None and given and given[0] != "audio":
        yield document.mistake((*at, "speech_end_sample"), "it speaks of a file", "Give it beside audio")


def _parts(document: Document, index: int, raw: dict[str, Any], wrong: set[str]) -> Iterator[BadFile]:
    parts = raw.get("parts")
    if not isinstance(parts, list) or f"turns[{index}].parts" in wrong:
        return
    at: tuple[Key, ...] = ("turns", index, "parts")
    if not parts:
        yield document.mistake(at, "no parts", HINTS["parts"])
        return
    for number, part in enumerate(parts):
        if isinstance(part, dict):
            yield from _sounds(document, (*at, number), part, PART_SOUNDS)
    for number in {0, len(parts) - 1}:
        if isinstance(parts[number], dict) and "pause_ms" in parts[number]:
            where = (*at, number, "pause_ms")
            yield document.mistake(where, "a pause at the edge of an utterance", "Put it between two sounds")


def _belonging(document: Document, index: int, raw: dict[str, Any], turn: TurnFile) -> Iterator[BadFile]:
    """Fields that need, or exclude, another one."""
    at: tuple[Key, ...] = ("turns", index)
    if turn.kind == "silence" and turn.silence_ms is None:
        yield document.mistake((*at, "kind"), "a silence without its length", "Give silence_ms in place of a sound")
    if turn.silence_ms is not None and "kind" in raw and turn.kind != "silence":
        yield document.mistake((*at, "kind"), f"silence_ms is no {turn.kind}", "Leave kind out")
    expects = turn.kind in EXPECT_A_REPLY and turn.silence_ms is None
    if "watch_ms" in raw and expects:
        mend = "It belongs to backchannel, noise and silence"
        yield document.mistake((*at, "watch_ms"), f"a turn of kind {turn.kind} waits for its reply", mend)
    spoken = turn.say is not None or any(part.say is not None for part in turn.parts)
    if turn.voice and not spoken:
        yield document.mistake((*at, "voice"), "nothing here is to be spoken", "It goes with say")
    for number, part in enumerate(turn.parts):
        if part.voice and part.say is None:
            yield document.mistake((*at, "parts", number, "voice"), "nothing here is to be spoken", "It goes with say")


def _start(document: Document, index: int, raw: dict[str, Any], turn: TurnFile) -> Iterator[BadFile]:
    at: tuple[Key, ...] = ("turns", index, "start")
    given = raw.get("start")
    fields = given if isinstance(given, dict) else {}
    if turn.start.at_ms is not None:
        for name in ("after", "gap_ms"):
            if name in fields:
                yield document.mistake((*at, name), "given beside at_ms", "at_ms stands alone")
    elif turn.kind in _TALKS_OVER and turn.start.after == "reply":
        where = (*at, "after") if "after" in fields else at if fields else (*at[:-1], "kind")
        problem = f"an {turn.kind} that starts after the reply talks over nothing"
        yield document.mistake(where, problem, "Start it after: onset")


def collisions(document: Document, turns: Mapping[int, ScriptTurn]) -> Iterator[BadFile]:
    """Turns that would have to start while the user's own turn before is still heard. turns: by their index."""
    for index, turn in turns.items():
        before = turns.get(index - 1)
        if before is None or before.start.after != turn.start.after:
            continue
        at: tuple[Key, ...] = ("turns", index, "start")
        before_ms = round(before.clip.duration_s * 1000)
        if turn.start.at_ms is not None and before.start.at_ms is not None:
            over_ms, starts_ms, field = before.start.at_ms + before_ms, turn.start.at_ms, "at_ms"
        elif turn.start.after == "onset" and not before.expects_reply:  # both wait for the onset of one reply
            over_ms, starts_ms, field = before.start.gap_ms + before_ms, turn.start.gap_ms, "gap_ms"
        else:
            continue
        if starts_ms < over_ms - 1:  # a millisecond is rounding
            problem = f"the turn before sounds until {over_ms} ms, and this one would start at {starts_ms} ms"
            yield document.mistake((*at, field), problem, "A user says one thing at a time: start it later")


def _waits(document: Document, file: ScriptFile) -> Iterator[BadFile]:
    """Waits that can never fire, and turns that would have to start before one that comes earlier."""
    asked, last_at_ms = False, -1
    for index, turn in enumerate(file.turns):
        at: tuple[Key, ...] = ("turns", index, "start")
        start = turn.start
        if start.at_ms is not None:
            if start.at_ms <= last_at_ms:
                problem = f"{start.at_ms} ms is not after the {last_at_ms} ms of an earlier turn"
                yield document.mistake((*at, "at_ms"), f"this wait can never fire: {problem}", "Put the turns in order")
            last_at_ms = max(last_at_ms, start.at_ms)
        elif start.after == "onset" and not asked:
            problem = "no turn before it expects a reply" if index else "nothing was said before it"
            yield document.mistake((*at, "after"), f"this wait can never fire: {problem}", "Say something first")
        elif start.after == "speech" and not index:
            problem = "the user said nothing before it"
            yield document.mistake((*at, "after"), f"this wait can never fire: {problem}", "Use after: reply or at_ms")
        asked = asked or (turn.kind in EXPECT_A_REPLY and turn.silence_ms is None)
