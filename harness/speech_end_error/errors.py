"""found − true of each method on the marked audio."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from harness.speech_end_error import ErrorTable, Figures, MethodErrors
from harness.speech_end_error.marked import CONDITIONS, MARKED, Marked, marked_audio
from harness.speech_end_error.methods import LOADERS, VERSIONED
from metrics.stats import percentile
from sessions.errors import BadAudio, MissingExtra, MissingWeights
from sessions.speech_end import FindEnd


def measure_methods(names: Iterable[str] = tuple(LOADERS)) -> ErrorTable:
    """Measure methods by their short names; one that cannot run here says why."""
    clips = list(marked_audio())
    return ErrorTable(MARKED, [_measure(name, clips) for name in names])


def _measure(name: str, clips: Sequence[Marked]) -> MethodErrors:
    try:
        find = LOADERS[name]()
    except (MissingExtra, MissingWeights) as error:
        return MethodErrors(VERSIONED[name], unavailable=str(error))
    return errors_of(find, clips, VERSIONED[name])


def errors_of(find: FindEnd, clips: Sequence[Marked], method: str) -> MethodErrors:
    """Let `find` look for the end in every clip."""
    by_condition: dict[str, list[float | None]] = {condition: [] for condition in CONDITIONS}
    for clip in clips:
        by_condition[clip.condition].append(_error_ms(find, clip))
    pooled = [error for errors in by_condition.values() for error in errors]
    return MethodErrors(method, {name: figures(errors) for name, errors in by_condition.items()}, figures(pooled))


def _error_ms(find: FindEnd, clip: Marked) -> float | None:
    """None where no end was found. Positive: too late."""
    try:
        found = find(clip.pcm, clip.rate_hz, name=clip.name)
    except BadAudio:
        return None
    return (found.index_samples - clip.end_sample) * 1000 / clip.rate_hz


def figures(errors_ms: Sequence[float | None]) -> Figures:
    """Summarise errors; None stands for an end that was not found."""
    found = [error for error in errors_ms if error is not None]
    missed = len(errors_ms) - len(found)
    if not found:
        return Figures(0, missed, None, None, None, None)
    size = [abs(error) for error in found]
    figures_ms = (math.fsum(found) / len(found), percentile(size, 50), percentile(size, 95), max(size))
    return Figures(len(found), missed, *(round(figure, 3) for figure in figures_ms))


def table_lines(table: ErrorTable) -> Iterator[str]:
    """The table for people."""
    from harness.report.wording import DASH, number

    yield f"found − true end of speech in ms, on {table.marked_audio}"
    yield f"\n{'':<22}{'n':>5}{'bias':>8}{'p50':>8}{'p95':>8}{'max':>8}"
    for entry in table.methods:
        yield entry.method
        if entry.unavailable:
            yield f"  unavailable: {entry.unavailable}"
            continue
        rows: Mapping[str, Figures | None] = {**entry.conditions, "all of them": entry.pooled}
        for name, row in rows.items():
            assert row is not None
            cells = (row.bias_ms, row.p50_ms, row.p95_ms, row.max_ms)
            shown = "".join(f"{number(cell, 1) if cell is not None else DASH:>8}" for cell in cells)
            yield f"  {name:<20}{row.n:>5}{shown}" + (f"  no end found in {row.missed}" if row.missed else "")
    yield "\nbias: the mean; positive is too late. p50, p95, max: of the error's magnitude."
