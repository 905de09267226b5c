"""Expected against seen: as fields for programs, and as a page of text for whoever opens the archive."""

from __future__ import annotations

import importlib.metadata
from typing import Any

import msgspec

from harness.case.turn import Case
from harness.report.turn_taking_wording import TURN_TAKING_WORDS
from harness.report.wording import INSTANTS, describe_class, number, one_line, words_for
from harness.results.timeline import waterfall
from metrics.result import Failed, Measured, Unavailable, Value
from metrics.turn_taking.table import TURN_TAKING, turn_taking
from sessions.clock import NS_PER_MS
from sessions.runs import indented

FILES = """\
turn.flac        what the user said (left) and what would have been heard of the agent (right)
reply.flac       all audio that the agent generated in this turn, heard or not (where there is any)
messages.jsonl   every message of the turn, both ways, and those of the session's set-up; audio is told by its size
case.json        this page as fields
plan.json        what was asked of the run, with the script up to this turn
events.jsonl     the client's own log of this stretch of time, in nanoseconds of its monotonic clock"""


def case_fields(case: Case) -> dict[str, Any]:
    """Times in ms from the first sample of turn.flac, instants also from the end of the user's speech."""
    plan, result = case.run.plan, case.result
    asked = case.script.turns[case.index]
    return {
        "version": 1,
        "dialogue": case.dialogue.id,
        "turn": case.index + 1,
        "script": case.script.name,
        "wall_time": case.dialogue.wall_time,
        "target": plan.target,
        "protocol": plan.protocol,
        "protocol_class": plan.protocol_class,
        "turn_detection": plan.turn_detection,
        "server_vad": plan.server_vad,
        "voice": plan.voice,
        "expected": {
            "kind": asked.kind,
            "said": asked.text,
            "expects_reply": result.expects_reply,
            "reference": asked.reference,
            "keywords": asked.keywords,
            "rubric": asked.rubric,
            "within_s": {"reply": plan.limits.reply_s, "next_message": plan.limits.idle_s},
        },
        "seen": {
            "class": result.turn_class,
            "outcome": result.outcome,
            "detail": result.detail,
            "understood": _of_turn(case, case.dialogue.understood),
            "answered": result.heard_text,
            "flags": result.flags,
            "faults": case.dialogue.faults,
            "instants_ms": _instants(case),
            "voice_to_voice_parts_ms": {
                part.name: (part.end_ns - part.start_ns) / NS_PER_MS for part in waterfall(result)
            },
            "measures": {name: _answer(value) for name, value in {**result.measures, **result.turn_taking}.items()},
        },
        "speech_end_method": result.method,
        "versions": {
            "packed_by": f"duologue {importlib.metadata.version('duologue')}",
            "software": plan.software,
            "definitions": plan.definitions,
            "weights": plan.weights,
        },
    }


def _of_turn(case: Case, texts: list[str]) -> str:
    position = next(k for k, turn in enumerate(case.dialogue.turns) if turn.turn == case.index)
    return texts[position]


def _instants(case: Case) -> dict[str, dict[str, float]]:
    at_ns = case.result.instants_ns
    end_ns = at_ns.get("speech_end")
    return {
        name: {"in_turn_flac": round((t_ns - case.from_ns) / NS_PER_MS, 3)}
        | ({} if end_ns is None else {"from_speech_end": round((t_ns - end_ns) / NS_PER_MS, 3)})
        for name, t_ns in at_ns.items()
    }


def _answer(measured: Measured) -> float | dict[str, str]:
    match measured:
        case Value(value):
            return round(value, 6)
        case Unavailable(because):
            return {"unavailable": because}
        case Failed(error):
            return {"error": error}


def plan_excerpt(case: Case) -> bytes:
    """The plan with this script alone, up to this turn."""
    script = msgspec.structs.replace(case.script, turns=case.script.turns[: case.index + 1])
    plan = msgspec.structs.replace(case.run.plan, scripts=[script])
    return indented(plan)


def page(case: Case) -> str:
    """README.txt."""
    plan, result = case.run.plan, case.result
    asked = case.script.turns[case.index]
    return "\n".join(
        [
            f"Turn {case.index + 1} of dialogue {case.dialogue.id} (script {case.script.name})",
            "",
            f"target        {one_line(plan.target)}",
            f"spoken        {describe_class(plan)}",
            f"when          {case.dialogue.wall_time}",
            f"recorded by   duologue {plan.software.get('duologue', '')}",
            "",
            "Expected",
            f"  user        {one_line(asked.text) or '(no text)'}" + _kind(asked.kind),
            f"  agent       {_wanted(case)}",
            *([f"  reference   {one_line(asked.reference)}"] if asked.reference else []),
            *([f"  keywords    {one_line(', '.join(asked.keywords))}"] if asked.keywords else []),
            "",
            "Seen",
            f"  outcome     {result.turn_class}: {one_line(result.outcome)}"
            + (f" ({one_line(result.detail)})" if result.detail else ""),
            f"  understood  {one_line(_of_turn(case, case.dialogue.understood)) or '(the server does not say)'}",
            f"  answered    {one_line(result.heard_text) or '(no text)'}",
            *(f"  remark      {one_line(flag)}" for flag in result.flags),
            *(f"  {label}: {text}" for label, text in _figures(case)),
            "",
            "When, in ms from the end of the user's speech (and from the first sample of turn.flac)",
            *_instant_lines(case),
            "",
            "Files",
            *(f"  {line}" for line in FILES.splitlines()),
            "",
        ]
    )


def _kind(kind: str) -> str:
    return "" if kind == "speech" else f" [{kind}]"


def _wanted(case: Case) -> str:
    if not case.result.expects_reply:
        return "goes on with what it was saying, or stays quiet: this sound is not to be answered"
    limits = case.run.plan.limits
    stops = "stops speaking, then " if case.script.turns[case.index].kind == "interruption" else ""
    return f"{stops}answers within {limits.reply_s:g} s, with no more than {limits.idle_s:g} s between two messages"


def _figures(case: Case) -> list[tuple[str, str]]:
    """Voice-to-voice and what of turn-taking has a value."""
    told = []
    headline = case.result.measures.get("voice_to_voice_ms")
    if isinstance(headline, Value):
        told.append((words_for("voice_to_voice_ms").label, f"{number(headline.value)} ms"))
    for name, measured in case.result.turn_taking.items():
        if isinstance(measured, Value) and name in TURN_TAKING:
            unit = turn_taking(name).unit
            text = ("no", "yes")[bool(measured.value)] if unit == "yes" else number(measured.value)
            label = (TURN_TAKING_WORDS.get(name) or words_for(name)).label
            told.append((label, f"{text} ms" if unit == "ms" else text))
    return told


def _instant_lines(case: Case) -> list[str]:
    lines = []
    for name, times in sorted(_instants(case).items(), key=lambda item: item[1]["in_turn_flac"]):
        from_end = f"{times['from_speech_end']:12.1f}" if "from_speech_end" in times else " " * 12
        lines.append(f"{from_end} ({times['in_turn_flac']:10.1f})  {name}: {INSTANTS.get(name, '')}")
    return lines or ["  (the turn never began)"]
