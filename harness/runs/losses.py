"""Dialogues that were lost: a worker died that was to hold them, or no merged run has them. `lost.json` of a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from harness.report.wording import plural
from harness.runs.planning import slot_of
from sessions.runs import Plan, disk_errors, indented, read_json, write_atomic

FILE = "lost.json"
VERSION = 1


class Loss(msgspec.Struct, frozen=True):
    """who: a worker, or a merge · why: how it died · numbers: places in the plan's order of what it left undone."""

    who: str
    why: str
    numbers: list[int]


class Losses(msgspec.Struct, frozen=True):
    """`lost.json`. Dialogues that were held since are in the journal, and no longer lost."""

    losses: list[Loss]
    version: int = VERSION


@dataclass(frozen=True, slots=True)
class Lost:
    """What is still lost, warm-up left out. reasons: one for each loss, also of those that were made good since."""

    dialogues: int = 0
    turns: int = 0
    reasons: tuple[str, ...] = ()


NOTHING_LOST = Lost()


def read_losses(folder: Path) -> list[Loss]:
    """In order; nothing where nothing was lost. Raises `BadFile`."""
    file = folder / FILE
    if not file.exists():
        return []
    return read_json(file, Losses, VERSION).losses


def add_losses(folder: Path, losses: Sequence[Loss]) -> None:
    """Keep more of them beside those that are there. Raises `SetupError` where they cannot be written."""
    if not losses:
        return
    kept = Losses([*read_losses(folder), *losses])
    with disk_errors(folder / FILE):
        write_atomic(folder / FILE, indented(kept))


def still_lost(plan: Plan, losses: Sequence[Loss], done: set[int]) -> Lost:
    """What of it the journal does not have. done: numbers in the journal."""
    numbers = {number for loss in losses for number in loss.numbers} - done
    slots = [slot for slot in (slot_of(plan, number) for number in sorted(numbers)) if not slot.warmup]
    return Lost(
        dialogues=len(slots),
        turns=sum(len(slot.script.turns) for slot in slots),
        reasons=tuple(_reason(loss, done) for loss in losses),
    )


def _reason(loss: Loss, done: set[int]) -> str:
    left = len(set(loss.numbers) - done)
    if left:
        return f"{loss.who} {loss.why}; {plural(left, 'dialogue')} lost"
    return f"{loss.who} {loss.why}; its dialogues were held later"
