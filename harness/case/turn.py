"""Which turn, and what of its dialogue belongs to it."""

from __future__ import annotations

import re
from dataclasses import dataclass

from harness.results.derive import Derived, derive
from harness.results.dialogue_result import DialogueResult
from harness.results.finish import finish_dialogue
from harness.results.raw_record import raw_record
from harness.runs.planning import slot_of
from metrics.attribution import attribute
from metrics.conversation import Conversation
from metrics.playout import arrivals_of, nearest_ns, play
from metrics.result import TurnResult
from sessions.clock import NS_PER_S
from sessions.errors import SetupError
from sessions.events import AnyEvent
from sessions.runs import JournalLine, PlannedScript, RunFolder

BEFORE_NS = 2 * NS_PER_S
"""Context before the user's first sample."""
AFTER_NS = 1 * NS_PER_S
"""And after the last that belongs to the turn, or after the next turn's first sample."""
_NAME = re.compile(r"(?P<dialogue>[^/:\s]+)[/:](?P<turn>[0-9]{1,6})")


@dataclass(frozen=True, slots=True)
class Case:
    """index: of the turn, from 0 · result: of it · from_ns, until_ns: what of the dialogue is shown."""

    run: RunFolder
    script: PlannedScript
    index: int
    dialogue: DialogueResult
    result: TurnResult
    conversation: Conversation
    events: list[AnyEvent]
    received: bytes
    from_ns: int
    until_ns: int

    @property
    def name(self) -> str:
        return f"{self.dialogue.id}-turn-{self.index + 1}"


def find_case(run: RunFolder, name: str) -> Case:
    """name: "d0003/2" or "d0003:2", turns from 1. Raises `SetupError` that says what there is."""
    dialogue_id, index = _parse(name)
    line = _line(run, dialogue_id)
    script = slot_of(run.plan, line.number).script
    if not 0 <= index < len(script.turns):
        raise SetupError(
            f"dialogue {dialogue_id} has no turn {index + 1}",
            f"Its script {script.name!r} has turns 1 to {len(script.turns)}, counted as in the report",
        )
    events, received = raw_record(run, line.id, script)
    derived = derive(events, received)
    dialogue = finish_dialogue(run, line, script)
    result = next((turn for turn in dialogue.turns if turn.turn == index), None)
    if result is None:
        raise SetupError(
            f"turn {index + 1} of dialogue {dialogue_id} was never attempted: the dialogue had ended before",
            f"Its last turn is {dialogue_id}/{max((turn.turn + 1 for turn in dialogue.turns), default=0)}",
        )
    from_ns, until_ns = _window(derived, events, index)
    return Case(run, script, index, dialogue, result, derived.conversation, events, received, from_ns, until_ns)


def _parse(name: str) -> tuple[str, int]:
    found = _NAME.fullmatch(name.strip())
    if found is None:
        raise SetupError(
            f"{name!r} is not the name of a turn", "Name dialogue and turn, turns from 1: d0003/2 (or d0003:2)"
        )
    return found["dialogue"], int(found["turn"]) - 1


def _line(run: RunFolder, dialogue_id: str) -> JournalLine:
    run.must_hold_a_dialogue()
    lines = sorted(run.journal(), key=lambda line: line.number)
    line = next((line for line in lines if line.id == dialogue_id), None)
    if line is not None:
        return line
    known = lines[0].id if len(lines) == 1 else f"{lines[0].id} to {lines[-1].id}"
    raise SetupError(f"the run {run.path} has no finished dialogue {dialogue_id!r}", f"It has {known}")


def _window(derived: Derived, events: list[AnyEvent], index: int) -> tuple[int, int]:
    """From a little before the turn to a little after it: after the last that was heard of it, or into the next turn.

    A turn that never began is shown from the end of the one before: with all of the dialogue that follows.
    """
    conversation = derived.conversation
    first_ns, last_ns = events[0].t_ns, events[-1].t_ns
    turn = next((turn for turn in conversation.turns if turn.index == index), None)
    if turn is None:
        return max((turn.speech_end_ns for turn in conversation.turns), default=first_ns), last_ns
    from_ns = max(turn.start_ns - BEFORE_NS, conversation.ready_ns or first_ns)
    later = [other.start_ns for other in conversation.turns if other.start_ns > turn.start_ns]
    if later:
        return from_ns, min(later) + AFTER_NS
    replies = next((one.all for one in attribute(conversation) if one.turn is turn), ())
    playouts = [play(arrivals_of(reply.packets), conversation.rate_hz) for reply in replies]
    heard = [nearest_ns(playout.end_ns) for playout in playouts if playout is not None]
    return from_ns, max(last_ns, *heard, turn.speech_end_ns) + AFTER_NS
