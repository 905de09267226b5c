"""The user's side of recorded dialogues as scripts: as it was performed, or as it was scripted."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from harness.replay.source import script_of
from harness.results.raw_record import raw_record
from harness.runs.planning import Ask, planned_clip
from sessions.clock import NS_PER_MS
from sessions.errors import SetupError
from sessions.events import AnyEvent, GaveUp, Opened, Ready, TurnStarted, must_be_readable
from sessions.runs import Plan, PlannedScript, PlannedTurn, RunFolder
from sessions.scripts import RATE_HZ, Script, ScriptTurn, Start
from sessions.speech_end import SpeechEnd

PERFORMED, SCRIPTED = "performed", "scripted"


@dataclass(frozen=True, slots=True)
class Again:
    """scripts: performed `repeat` times in turn, they are the dialogues `ids` again, in that order."""

    scripts: list[Script]
    repeat: int
    ids: list[str]


def as_scripted(run: RunFolder, ids: Sequence[str]) -> Again:
    """What was to be said, with the waits that the script asks for. Raises `SetupError`, `BadAudio`."""
    planned = [script_of(run, one) for one in ids]
    rounds, rest = divmod(len(planned), len(run.plan.scripts))
    if not rest and planned == run.plan.scripts * rounds:
        return Again([_script(run, script, script.name) for script in run.plan.scripts], rounds, list(ids))
    names = _names(planned, ids)
    return Again([_script(run, script, name) for script, name in zip(planned, names, strict=True)], 1, list(ids))


def as_performed(run: RunFolder, ids: Sequence[str]) -> Again:
    """What was said, each utterance as long after the session was ready as then; later ones than begun are left out.

    Dialogues in which nothing was said are left out too. Raises `SetupError` where that leaves none.
    """
    scripts, kept, why = [], [], ""
    planned = [script_of(run, one) for one in ids]
    for one, script, name in zip(ids, planned, _names(planned, ids), strict=True):
        events, _ = raw_record(run, one, script)
        starts = _starts_ms(one, events)
        if starts:
            scripts.append(_script(run, script, name, starts))
            kept.append(one)
        else:
            refused = (f"{event.outcome}: {event.detail}" for event in events if isinstance(event, GaveUp))
            why = why or f"{one} has nothing to replay: {next(refused, 'no turn of it ever began')}"
    if not scripts:
        raise SetupError(why or "there is no dialogue to replay", "Choose one in which the user spoke")
    return Again(scripts, 1, kept)


def ask_again(plan: Plan, again: Again, target: str, headers: dict[str, str], api_key_env: str, voice: str) -> Ask:
    """The measurement that replays: all as recorded, at another address. voice: "" for the recorded one."""
    return Ask(
        target=target,
        scripts=again.scripts,
        protocol=plan.protocol,
        repeat=again.repeat,
        turn_detection=plan.turn_detection,
        server_vad=plan.server_vad,
        voice=voice or plan.voice,
        transcribe=plan.transcribe,
        headers=headers,
        api_key_env=api_key_env,
        limits=plan.limits,
    )


def _starts_ms(name: str, events: Sequence[AnyEvent]) -> dict[int, float]:
    """By turn, how long after ready it began; milliseconds that hold the nanosecond."""
    opened = next((event for event in events if isinstance(event, Opened)), None)
    if opened is not None:
        must_be_readable(name, opened)
    ready = next((event for event in events if isinstance(event, Ready)), None)
    if ready is None:
        return {}
    return {e.turn: (e.start_ns - ready.t_ns) / NS_PER_MS for e in events if isinstance(e, TurnStarted)}


def _names(planned: Sequence[PlannedScript], ids: Sequence[str]) -> list[str]:
    """The scripts' own names, with the dialogue's where one was performed several times: a plan's names differ."""
    names = [script.name for script in planned]
    return [name if names.count(name) == 1 else f"{name}-{one}" for name, one in zip(names, ids, strict=True)]


def _script(run: RunFolder, planned: PlannedScript, name: str, starts_ms: dict[int, float] | None = None) -> Script:
    """starts_ms: of the turns that are said, at absolute times; None: all of them, as their waits say."""
    turns = []
    for index, turn in enumerate(planned.turns):
        start = Start(turn.start_after, round(turn.gap_ms), turn.at_ms, turn.timeout_s)
        if starts_ms is not None:
            if index not in starts_ms:
                break  # turns keep their numbers
            start = Start("at", 0, starts_ms[index], turn.timeout_s)
        turns.append(_turn(run, turn, start))
    sha256 = planned.sha256
    if starts_ms is not None:
        said = [(turn.sha256, turn.start.at_ms) for turn in turns]
        sha256 = hashlib.sha256(repr((planned.sha256, said)).encode()).hexdigest()
    return Script(
        name=name,
        description="",
        language=planned.language,
        instructions=planned.instructions,
        path=None,
        sha256=sha256,
        turns=tuple(turns),
        perturb=planned.perturb,
        perturb_seed=planned.perturb_seed,
    )


def _turn(run: RunFolder, planned: PlannedTurn, start: Start) -> ScriptTurn:
    """A turn with its clip, which was perturbed already if it was. Raises `SetupError` where the clip is another."""
    clip = planned_clip(run, planned, RATE_HZ, mend="Replay a whole run folder")
    return ScriptTurn(
        clip=clip,
        audio_path=None if planned.kind == "silence" else run.clip(planned.audio),
        text=planned.text,
        speech_end=SpeechEnd(planned.last_sample, RATE_HZ, planned.method),
        start=start,
        sha256=planned.audio,
        kind=planned.kind,
        onset_sample=planned.onset_sample,
        pauses=tuple((first, samples) for first, samples in planned.pauses),
        watch_ms=planned.watch_ms,
        reference=planned.reference,
        keywords=tuple(planned.keywords),
        rubric=planned.rubric,
        language=planned.language,
    )
