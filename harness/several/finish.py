"""From the two runs of an alternation to their comparison: printed, `comparison.json`, `comparison.html`."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import msgspec

from harness.compare.compare import Compared, compare_runs, usual_metrics
from harness.compare.page import comparison_page
from harness.compare.side import Side, side_of
from harness.results.finish import FinishedRun, finish_run
from harness.several.interleave import Pair
from harness.several.order import NAMES, Name
from sessions.runs import disk_errors, indented, write_atomic

COMPARISON, PAGE = "comparison.json", "comparison.html"


@dataclass(frozen=True, slots=True)
class FinishedPair:
    """What `finish_pair` made. compared: None where no dialogue that counts was performed by both."""

    finished: dict[Name, FinishedRun]
    compared: Compared | None


def finish_pair(pair: Pair) -> FinishedPair:
    """Derive everything of both runs anew, and compare what both performed."""
    finished = {name: finish_run(run) for name, run in pair.runs.items()}
    a, b = (side_of(run, finished[name]) for name, run in pair.runs.items())
    both = {one.id for one in a.dialogues} & {one.id for one in b.dialogues}
    if not both:
        return FinishedPair(finished, None)
    sides = _only(a, both), _only(b, both)
    compared = compare_runs(*sides, usual_metrics(sides), pair.asked.allowed)
    compared = msgspec.structs.replace(compared, remarks=[_ordered(pair), *compared.remarks])
    with disk_errors(pair.path):
        write_atomic(pair.path / COMPARISON, indented(compared))
        write_atomic(pair.path / PAGE, comparison_page(compared, {name: f"{name}/report.html" for name in NAMES}))
    return FinishedPair(finished, compared)


def _only(side: Side, ids: set[str]) -> Side:
    return dataclasses.replace(side, dialogues=[one for one in side.dialogues if one.id in ids])


def _ordered(pair: Pair) -> str:
    return f"performed in alternation, in blocks of A B B A or B A A B (seed {pair.asked.seed})"
