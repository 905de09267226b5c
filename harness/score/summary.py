"""A scoring in figures: what `scores/summary.json` holds, and `scores/scores.csv` beside it."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from harness.report.turns_csv import inert
from harness.score.aggregate import aggregate, most_frequent, told, unusable
from harness.score.counted import Counted, Made, Samples, With, made_of
from harness.score.engine import Chosen, ScoreStore
from harness.score.engine.audio_index import AudioIndex
from harness.score.table import METRICS, metric
from metrics.result import Failed, Value
from metrics.scoring import Aggregate, ScoreLine
from sessions.errors import BadFile
from sessions.runs import AGAIN, disk_errors, indented, read_json, write_atomic

SCORES_VERSION: Final = 1
FOLDER: Final = "scores"
"""Where scores lie in a run folder, or in the folder that `--out` names."""
SUMMARY: Final = "summary.json"
TABLE: Final = "scores.csv"


class MetricScores(msgspec.Struct, frozen=True):
    """One metric over all samples.

    needs: metric → with what its scores were made, of those that this one rests on · figures: name → formula, with
    its source · aggregates: in order; `used + skipped + failed` of each over all languages is the number of samples ·
    flags: kind of remark → samples that have it.
    """

    made: Made
    purpose: str
    needs: dict[str, Made]
    figures: dict[str, str]
    aggregates: list[Aggregate]
    flags: dict[str, int]


class Scores(msgspec.Struct, frozen=True):
    """What `scores/summary.json` holds.

    source: "run", or the folder that was scored · metrics: by name, in the order of the screen · unavailable: reason →
    samples that have nothing to score, whatever the metric · coverage, remarks: what was there to score, in words ·
    left_out: metric → why it was not even tried, where nobody asked for it · unusable: what is wrong with files that
    cannot be used, with the mend.
    """

    source: str
    samples: int
    metrics: dict[str, MetricScores]
    unavailable: dict[str, int] = {}
    coverage: list[str] = []
    remarks: list[str] = []
    left_out: dict[str, str] = {}
    unusable: dict[str, int] = {}
    version: int = SCORES_VERSION

    @property
    def values(self) -> int:
        """How many figures of how many samples could be scored."""
        return sum(one.used for found in self.metrics.values() for one in found.aggregates if not one.language)


@dataclass(frozen=True, slots=True)
class Scored:
    """What is summed up. samples: the same ones at each call, `count` of them; the rest as in `Scores`."""

    source: str
    samples: Samples
    count: int
    coverage: Sequence[str] = ()
    remarks: Sequence[str] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)


def read_scores(folder: Path) -> Scores | None:
    """Those in a run's folder of scores, None where there are none. Raises `BadFile`."""
    file = folder / SUMMARY
    return read_json(file, Scores, SCORES_VERSION) if file.is_file() else None


def write_scores(folder: Path, scored: Scored, store: ScoreStore, chosen: Sequence[Chosen]) -> Scores:
    """Sum up the lines of the store and write summary.json and scores.csv. Raises `SetupError` where the disk refuses.

    Metrics of an earlier scoring of the same samples stay in it, as far as their lines count.
    """
    asked = {each.name: each for each in chosen}
    names = {*asked, *_before(folder)}
    shown = [name for name in (*METRICS, *sorted(names - set(METRICS))) if name in names and not metric(name).hidden]
    table = _Table(scored)
    found = {}
    lost: set[str] = set()
    with closing(AudioIndex(store)) as audio:
        for name in shown:
            made = made_of(store, name, asked)
            if made is not None:
                counted = Counted(store, name, made, scored.samples, asked=asked, audio=audio)
                found[name] = _metric(name, made, counted, table, lost)
    scores = Scores(
        source=scored.source,
        samples=scored.count,
        metrics=found,
        unavailable=told(Counter(sample.unavailable for sample in scored.samples() if sample.unavailable)),
        coverage=list(scored.coverage),
        remarks=list(scored.remarks),
        left_out={name: why for name, why in scored.left_out.items() if name not in found},
        unusable=most_frequent(dict.fromkeys(lost, 1)),
    )
    with disk_errors(folder, then=AGAIN):
        write_atomic(folder / SUMMARY, indented(scores))
        write_atomic(folder / TABLE, table.text())
    return scores


def _before(folder: Path) -> list[str]:
    """The metrics of the summary that is there; one that cannot be read is of another program, and made anew."""
    try:
        before = read_scores(folder)
    except BadFile:
        return []
    return [name for name in before.metrics if name in METRICS] if before else []


def _metric(name: str, made: With, counted: Counted, table: _Table, lost: set[str]) -> MetricScores:
    """lost: what is wrong with files that cannot be used, is added to."""
    known = metric(name)
    flags: Counter[str] = Counter()
    table.begin([figure.name for figure in known.figures])
    for line in counted.lines():
        flags.update({flag.partition(":")[0] for flag in line.score.flags})
        table.take(line)
        lost |= {unusable(one.error) for one in line.score.figures.values() if isinstance(one, Failed)} - {""}
    return MetricScores(
        made=made[name],
        purpose=known.purpose,
        needs={needed: one for needed, one in made.items() if needed != name},
        figures={figure.name: figure.formula for figure in known.figures},
        aggregates=aggregate(known, counted.lines),
        flags=dict(sorted(flags.items(), key=lambda item: (-item[1], item[0]))),
    )


class _Table:
    """scores.csv: one row per sample, a column per figure; an empty cell is a value that there is not."""

    def __init__(self, scored: Scored) -> None:
        self._samples = scored.samples
        self._place = {sample.id: place for place, sample in enumerate(scored.samples())}
        self._columns: dict[str, np.ndarray[tuple[int], np.dtype[np.float64]]] = {}
        self._seconds = np.full(len(self._place), np.nan)
        self._flags: dict[str, list[str]] = {}

    def begin(self, figures: Iterable[str]) -> None:
        for figure in figures:
            self._columns.setdefault(figure, np.full(len(self._place), np.nan))

    def take(self, line: ScoreLine) -> None:
        place = self._place[line.sample]
        if line.seconds is not None:
            self._seconds[place] = line.seconds
        for name, measured in line.score.figures.items():
            if isinstance(measured, Value) and name in self._columns:
                self._columns[name][place] = measured.value
        if line.score.flags:
            self._flags.setdefault(line.sample, []).extend(line.score.flags)

    def text(self) -> bytes:
        out = io.StringIO(newline="")
        rows = csv.writer(out, lineterminator="\r\n")
        rows.writerow(["sample", "group", "order", "language", "seconds", *self._columns, "flags", "unavailable"])
        for place, sample in enumerate(self._samples()):
            cells = [_cell(float(column[place])) for column in self._columns.values()]
            known = [inert(sample.id), inert(sample.group), sample.order, inert(sample.language)]
            flags = inert("; ".join(dict.fromkeys(self._flags.get(sample.id, []))))
            rows.writerow([*known, _cell(float(self._seconds[place])), *cells, flags, inert(sample.unavailable)])
        return out.getvalue().encode("utf-8", "replace")


def _cell(value: float) -> str:
    return f"{value:.6f}".rstrip("0").rstrip(".") if value == value else ""


def schema_text() -> str:
    """The JSON schema of `scores/summary.json`, as it is shipped in harness/report/schema/scores.schema.json."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"duologue scores/summary.json, version {SCORES_VERSION}",
        **msgspec.json.schema(Scores),
    }
    return indented(schema).decode() + "\n"
