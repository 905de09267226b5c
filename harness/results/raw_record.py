"""What a dialogue left behind, read from its run folder: whole, or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sessions.clock import NS_PER_S
from sessions.errors import SetupError
from sessions.events import AnyEvent, Ended, GaveUp, Opened, Received, TurnStarted, must_be_readable, read_log
from sessions.runs import PlannedScript, RunFolder

_DAY_NS = 24 * 3600 * NS_PER_S
"""No dialogue lasts longer."""
_INSTANTS = ("speech_end_ns", "lane_start_ns", "due_ns", "first_ns", "at_ns")


def raw_record(run: RunFolder, dialogue_id: str, script: PlannedScript | None = None) -> tuple[list[AnyEvent], bytes]:
    """A dialogue's log and what it received. script: what it performs, where the caller knows it.

    Raises `SetupError`, `BadFile` where a part of it is missing: what can be made of the rest would tell of a server
    that fell silent. `duologue check` looks at the rest.
    """
    folder = run.dialogue(dialogue_id)
    mend = f"See what else is wrong: duologue check {run.path}"
    try:
        for place in (folder / "events.jsonl", folder / "received.bin"):
            _must_be_a_file(place, mend)
        events, received = read_log(folder / "events.jsonl"), (folder / "received.bin").read_bytes()
    except OSError as error:
        raise SetupError(f"cannot read {error.filename}: {error.strerror}", mend) from error
    if not events or not isinstance(events[0], Opened):
        raise SetupError(f"the log of {dialogue_id} has no beginning", mend)
    must_be_readable(dialogue_id, events[0])
    for name in ("protocol", "protocol_class", "rate_hz"):
        said, asked = getattr(events[0], name), getattr(run.plan, name)
        if said != asked:
            raise SetupError(f"the log of {dialogue_id} says {name} {said}; the plan says {asked}", mend)
    if not isinstance(events[-1], Ended):
        raise SetupError(f"the log of {dialogue_id} has no end: it was cut off", mend)
    _must_be_possible(dialogue_id, events, mend)
    turns = max((event.turn for event in events if isinstance(event, TurnStarted | GaveUp)), default=-1) + 1
    if script is not None and turns > len(script.turns):
        raise SetupError(f"the log of {dialogue_id} has a turn {turns}; its script has {len(script.turns)}", mend)
    if any(event.offset + event.length > len(received) for event in events if isinstance(event, Received)):
        raise SetupError(f"received.bin of {dialogue_id} is shorter than its log says", mend)
    return events, received


def is_far_off(event: AnyEvent, opened_ns: int) -> bool:
    """An instant of it lies more than a day from the log's beginning: what is made of it would fill the memory."""
    told = [event.t_ns, *(t_ns for name in _INSTANTS if (t_ns := getattr(event, name, None)) is not None)]
    return bool(min(told) < opened_ns - _DAY_NS or max(told) > opened_ns + _DAY_NS)


def _must_be_possible(dialogue_id: str, events: Sequence[AnyEvent], mend: str) -> None:
    opened_ns = before_ns = events[0].t_ns
    for number, event in enumerate(events, 1):
        if event.t_ns < before_ns or is_far_off(event, opened_ns):
            raise SetupError(f"the log of {dialogue_id} has an instant in line {number} that cannot be", mend)
        before_ns = event.t_ns


def _must_be_a_file(place: Path, mend: str) -> None:
    """A pipe would be waited for without end."""
    if place.exists() and not place.is_file():
        raise SetupError(f"cannot read {place}: it is not a regular file", mend)
