"""Who performed a run, in words: workers, a shard, the parts of a merged run."""

from __future__ import annotations

from collections.abc import Iterator

from harness.report.summary import Summary
from harness.report.wording import one_line, plural
from sessions.runs import Plan, Share


def share_lines(summary: Summary) -> Iterator[str]:
    """Nothing for a run that one process performed whole."""
    if summary.merged:
        parts = (
            f"{one_line(part.name)} ({_performed(part.shard, part.workers)}{plural(part.dialogues, 'dialogue')})"
            for part in summary.merged
        )
        yield f"Merged from {plural(len(summary.merged), 'run')}: {', '.join(parts)}."
        return
    if summary.shard != Share():
        yield f"This is shard {shard_text(summary.shard)} of the plan; the load is that of all shards together."
    if summary.workers > 1:
        yield f"Performed by {summary.workers} processes of this host."


def shard_text(shard: Share) -> str:
    """As `--shard` takes it, from 1."""
    return f"{shard.index + 1}/{shard.of}"


def share_arguments(plan: Plan) -> list[tuple[str, object, object]]:
    """The options that ask for it: (name, value, default)."""
    return [("--workers", plan.workers, 1), ("--shard", shard_text(plan.shard), shard_text(Share()))]


def _performed(shard: Share, workers: int) -> str:
    by = f"shard {shard_text(shard)}, " if shard != Share() else ""
    return by + (f"{workers} processes, " if workers > 1 else "")
