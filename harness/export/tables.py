"""One row per attempt: as CSV, the same as turns.csv, and as Parquet, with types."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from harness.report.turns_csv import PAUSES, WORDS, columns, numbers, write_turns_csv
from harness.report.wording import clean
from harness.results.dialogue_result import DialogueResult
from metrics.result import TurnResult
from sessions.errors import MissingExtra
from sessions.runs import RunFolder, write_atomic

_WHOLE = frozenset({"number", "turn", "false_starts"})


def write_csv(run: RunFolder, dialogues: list[DialogueResult], out: Path) -> None:
    """As `turns.csv`: an empty cell means unavailable."""
    write_turns_csv(out, dialogues)


def write_parquet(run: RunFolder, dialogues: list[DialogueResult], out: Path) -> None:
    """The columns of turns.csv; null means unavailable. Text is as it was said, flags and pauses are lists.

    The schema's metadata holds the plan as JSON (`duologue.plan`). Raises `MissingExtra` without pyarrow.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtra("pyarrow", "export") from error
    names = columns(dialogues)
    pause = pa.struct([("pause_ms", pa.float64()), ("was_cut", pa.bool_())])
    types = dict.fromkeys(WORDS, pa.string()) | dict.fromkeys(_WHOLE, pa.int64())
    types |= {"warmup": pa.bool_(), "false_start_heard_ms": pa.float64(), "flags": pa.list_(pa.string())}
    types |= {PAUSES: pa.list_(pause)}
    plan = msgspec.json.encode(run.plan)
    schema = pa.schema(
        [(name, types.get(name, pa.float64())) for name in names], metadata={"duologue.plan": plan.decode()}
    )
    rows = [
        _row(dialogue, turn, said, understood)
        for dialogue in dialogues
        for turn, said, understood in zip(dialogue.turns, dialogue.said, dialogue.understood, strict=True)
    ]
    buffer = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows, schema=schema), buffer, compression="zstd")
    write_atomic(out, buffer.getvalue().to_pybytes())


def _row(dialogue: DialogueResult, turn: TurnResult, said: str, understood: str) -> dict[str, Any]:
    words = {
        "dialogue": dialogue.id,
        "number": dialogue.number,
        "script": clean(dialogue.script),
        "warmup": dialogue.warmup,
        "wall_time": dialogue.wall_time,
        "turn": turn.turn + 1,
        "class": turn.turn_class,
        "outcome": clean(turn.outcome),
        "detail": clean(turn.detail),
        "speech_end_method": turn.method,
        "said": clean(said),
        "understood": clean(understood),
        "answered": clean(turn.heard_text),
        "false_starts": turn.false_starts,
        "false_start_heard_ms": turn.false_start_heard_ms,
        "flags": [clean(flag) for flag in turn.flags],
        "kind": turn.kind,
    }
    figures = {name: float(str(text)) for name, text in numbers(dialogue, turn).items() if name != PAUSES}
    pauses = [{"pause_ms": case.pause_ms, "was_cut": case.was_cut} for case in turn.pauses]
    return words | figures | {PAUSES: pauses}
