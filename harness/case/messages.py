"""The messages of a turn as JSON lines that people read: both ways, in order, audio told by its size."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from harness.case.masking import Masking
from harness.case.turn import Case
from sessions.clock import NS_PER_MS
from sessions.events import Closed, Connected, Flushed, GaveUp, Received, Sent, TurnStarted

_BASE64 = re.compile(r"[A-Za-z0-9+/=_-]{200,}")
_LONGEST = 20_000
Line = dict[str, Any]


def message_lines(case: Case, masking: Masking) -> Iterator[Line]:
    """One object per message: `t_ms` from the first sample of turn.flac (set-up came before: negative), `direction`.

    Incoming ones whole but for their audio; outgoing ones by what was written when: their content is not recorded. A
    run of outgoing audio frames is one line. What else the client did stands between them (`direction`: "note").
    """
    frames: list[Sent] = []
    first_turn_ns = min((turn.start_ns for turn in case.conversation.turns), default=case.until_ns)
    for event in case.events:
        is_set_up = event.t_ns < min(first_turn_ns, case.from_ns)
        if not (is_set_up or case.from_ns <= event.t_ns <= case.until_ns):
            continue
        if isinstance(event, Sent) and event.what == "audio":
            if not is_set_up:
                frames.append(event)
            continue
        line = _line(case, event, masking)
        if line is not None:
            yield from _run_of(case, frames)
            frames.clear()
            yield line
    yield from _run_of(case, frames)


def _line(case: Case, event: object, masking: Masking) -> Line | None:
    match event:
        case Received():
            data = case.received[event.offset : event.offset + event.length]
            return _at(case, event.t_ns, "in") | {"bytes": event.length} | _content(data, event.binary, masking)
        case Sent():
            return _at(case, event.t_ns, "out") | {"what": masking.text(event.what), "bytes": event.bytes}
        case Connected():
            return _at(case, event.t_ns, "note") | {"note": "connected"}
        case TurnStarted():
            text = f"turn {event.turn + 1} begins ({event.turn_kind})"
            return _at(case, event.t_ns, "note") | {"note": text, "speech_end_ms": _ms(case, event.speech_end_ns)}
        case Flushed():
            text = f"what was not yet heard of {event.reply} was dropped ({event.why})"
            return _at(case, event.t_ns, "note") | {"note": masking.text(text)}
        case GaveUp():
            text = f"gave up waiting: {event.outcome}: {event.detail}"
            return _at(case, event.t_ns, "note") | {"note": masking.text(text)}
        case Closed():
            text = f"closed by {event.by} ({event.how}), code {event.code} {event.reason}".rstrip()
            return _at(case, event.t_ns, "note") | {"note": masking.text(text)}
    return None


def _run_of(case: Case, frames: list[Sent]) -> Iterator[Line]:
    """Consecutive frames of audio as one line."""
    if frames:
        yield _at(case, frames[0].t_ns, "out") | {
            "what": "audio",
            "messages": len(frames),
            "until_ms": _ms(case, frames[-1].t_ns),
            "samples": sum(frame.samples for frame in frames),
            "bytes": sum(frame.bytes for frame in frames),
        }


def _content(data: bytes, binary: bool, masking: Masking) -> Line:
    if binary:
        return {"binary": f"({len(data)} bytes)"}
    try:
        return {"message": _without_audio(masking.message(json.loads(data)))}
    except (ValueError, RecursionError):
        return {"not_json": _short(masking.text(data.decode("utf-8", "replace")))}


def _without_audio(value: Any) -> Any:
    match value:
        case dict():
            return {name: _without_audio(item) for name, item in value.items()}
        case list():
            return [_without_audio(item) for item in value]
        case str() if _BASE64.fullmatch(value):
            return f"({len(value)} characters of base64)"
        case str():
            return _short(value)
    return value


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} … ({len(text)} characters in all)"


def _at(case: Case, t_ns: int, direction: str) -> Line:
    return {"t_ms": _ms(case, t_ns), "direction": direction}


def _ms(case: Case, t_ns: int) -> float:
    return round((t_ns - case.from_ns) / NS_PER_MS, 3)
