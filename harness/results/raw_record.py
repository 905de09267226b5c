"""What a dialogue left behind, read from its run folder: whole, or not at all."""

from __future__ import annotations

from pathlib import Path

from sessions.errors import SetupError
from sessions.events import AnyEvent, Ended, Opened, Received, must_be_readable, read_log
from sessions.runs import RunFolder


def raw_record(run: RunFolder, dialogue_id: str) -> tuple[list[AnyEvent], bytes]:
    """A dialogue's log and what it received.

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
    if not isinstance(events[-1], Ended):
        raise SetupError(f"the log of {dialogue_id} has no end: it was cut off", mend)
    if any(event.offset + event.length > len(received) for event in events if isinstance(event, Received)):
        raise SetupError(f"received.bin of {dialogue_id} is shorter than its log says", mend)
    return events, received


def _must_be_a_file(place: Path, mend: str) -> None:
    """A pipe would be waited for without end."""
    if place.exists() and not place.is_file():
        raise SetupError(f"cannot read {place}: it is not a regular file", mend)
