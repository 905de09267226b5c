"""How far the detectors of speech are off, measured against marked lanes (`marked_lanes`).

An onset's error is found − true: the first sample of the first stretch found in an utterance against its first audible
sample; an offset's that of the last stretch's end against the last speech sample. Where a stretch runs on into another
utterance's part of the lane, it counts up to there. A figure of two lanes is made of one onset and one offset of two
utterances, so its error is that of their difference, over all pairs of different utterances: `gap` is onset − offset
(voice-to-voice, a pause, a silence), and offset − onset (barge-in stop, overlap) has the same figures with the bias's
sign turned.

`detector_errors.json` is what `duologue analyze --detector-error --json` printed.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from types import MappingProxyType
from typing import Final

import msgspec
import numpy as np

from harness.analyze.marked_lanes import MARKED_LANES, MarkedLane, Spoken, marked_lanes
from harness.from_recording.segments import METHODS, Find, Stretch
from harness.speech_end_error import Figures
from harness.speech_end_error.errors import figures
from harness.speech_end_error.marked import CONDITIONS
from sessions.audio import to_float
from sessions.errors import MissingExtra, MissingWeights
from sessions.runs import indented

TABLE_VERSION: Final = 1
DETECTORS: Final = MappingProxyType({"silero": "speech_stretches/silero-1", "energy-1": "speech_stretches/energy-1"})
"""Short name → the detector's name in results."""
STATED: Final = MappingProxyType({DETECTORS["silero"]: "", DETECTORS["energy-1"]: "clean"})
"""The condition whose figures stand beside results, "" for all of them: levels tell nothing in noise, and are chosen
for recordings without it."""


class EdgeErrors(msgspec.Struct, frozen=True):
    """onset, offset: of each utterance · gap: onset − offset of two · cut: utterances found in more than one stretch ·
    false_alarms: stretches in which nobody speaks."""

    onset: Figures
    offset: Figures
    gap: Figures
    cut: int
    false_alarms: int


class DetectorErrors(msgspec.Struct, frozen=True):
    """One detector. conditions: by name · pooled: all of them together · unavailable: why there is neither."""

    detector: str
    conditions: dict[str, EdgeErrors] = {}
    pooled: EdgeErrors | None = None
    unavailable: str = ""


class DetectorTable(msgspec.Struct, frozen=True):
    """marked_audio: name and version of what was measured on."""

    marked_audio: str
    detectors: list[DetectorErrors]
    version: int = TABLE_VERSION


@functools.cache
def shipped() -> DetectorTable:
    """The table that is shipped."""
    return msgspec.json.decode((files(__package__) / "detector_errors.json").read_bytes(), type=DetectorTable)


def errors_of(detector: str) -> DetectorErrors | None:
    """The shipped figures of a detector by its name in results; None for one that was not measured."""
    return next((entry for entry in shipped().detectors if entry.detector == detector), None)


def stated(errors: DetectorErrors) -> EdgeErrors | None:
    """The figures that stand beside results."""
    condition = STATED.get(errors.detector, "")
    return errors.conditions.get(condition) if condition else errors.pooled


def turned(gap: Figures) -> Figures:
    """The figures of offset − onset from those of onset − offset."""
    return gap if gap.bias_ms is None else msgspec.structs.replace(gap, bias_ms=-gap.bias_ms)


def encode_table(table: DetectorTable) -> str:
    """The table as it is printed and shipped."""
    return indented(table).decode() + "\n"


def measure_detectors(names: Iterable[str] = tuple(DETECTORS)) -> DetectorTable:
    """Measure detectors by their short names; one that cannot run here says why."""
    lanes = list(marked_lanes())
    return DetectorTable(MARKED_LANES, [_measure(name, lanes) for name in names])


def _measure(name: str, lanes: Sequence[MarkedLane]) -> DetectorErrors:
    try:
        return measure_detector(METHODS[name], lanes, DETECTORS[name])
    except (MissingExtra, MissingWeights) as error:
        return DetectorErrors(DETECTORS[name], unavailable=str(error))


def measure_detector(find: Find, lanes: Sequence[MarkedLane], detector: str) -> DetectorErrors:
    """Let `find` look for the speech in every lane."""
    by_condition: dict[str, list[_Edge]] = {name: [] for name in CONDITIONS}
    for lane in lanes:
        found = find([to_float(lane.pcm)], lane.rate_hz)
        by_condition[lane.condition] += [_edge(found, spoken, lane.rate_hz) for spoken in lane.spoken]
    every = [edge for edges in by_condition.values() for edge in edges]
    return DetectorErrors(detector, {name: _errors(edges) for name, edges in by_condition.items()}, _errors(every))


@dataclass(frozen=True, slots=True)
class _Edge:
    """One utterance. onset_ms, offset_ms: errors, None where it was missed · cut: found in so many stretches ·
    outside: stretches wholly in the quiet around it."""

    number: int
    onset_ms: float | None
    offset_ms: float | None
    cut: int
    outside: int


def _edge(found: Sequence[Stretch], spoken: Spoken, rate_hz: int) -> _Edge:
    near = [one for one in found if one.stop > spoken.first and one.first < spoken.stop]
    within = [one for one in near if one.stop > spoken.onset and one.first <= spoken.end]
    if not within:
        return _Edge(spoken.number, None, None, 0, len(near))
    onset = (max(within[0].first, spoken.first) - spoken.onset) * 1000 / rate_hz
    offset = (min(within[-1].stop, spoken.stop) - 1 - spoken.end) * 1000 / rate_hz
    return _Edge(spoken.number, onset, offset, len(within), len(near) - len(within))


def _errors(edges: Sequence[_Edge]) -> EdgeErrors:
    return EdgeErrors(
        onset=figures([edge.onset_ms for edge in edges]),
        offset=figures([edge.offset_ms for edge in edges]),
        gap=figures(_gaps(edges)),
        cut=sum(edge.cut > 1 for edge in edges),
        false_alarms=sum(edge.outside for edge in edges),
    )


def _gaps(edges: Sequence[_Edge]) -> list[float | None]:
    """onset − offset over all ordered pairs of different utterances; one that was missed is in none."""
    found = [edge for edge in edges if edge.onset_ms is not None and edge.offset_ms is not None]
    of = np.array([edge.number for edge in found])
    onsets = np.array([edge.onset_ms for edge in found], dtype=np.float64)
    offsets = np.array([edge.offset_ms for edge in found], dtype=np.float64)
    differences = onsets[:, np.newaxis] - offsets[np.newaxis, :]
    return list(differences[of[:, np.newaxis] != of[np.newaxis, :]].tolist())


def table_lines(table: DetectorTable) -> Iterator[str]:
    """The table for people."""
    from harness.report.wording import DASH, number

    yield f"found − true edges of speech in ms, on {table.marked_audio}"
    yield f"\n{'':<22}{'onset':^24}{'offset':^24}{'onset − offset':^24}".rstrip()
    yield f"{'':<22}" + f"{'bias':>8}{'p50':>8}{'p95':>8}" * 3
    for entry in table.detectors:
        yield entry.detector
        if entry.unavailable:
            yield f"  unavailable: {entry.unavailable}"
            continue
        rows: Mapping[str, EdgeErrors | None] = {**entry.conditions, "all of them": entry.pooled}
        for name, row in rows.items():
            assert row is not None
            cells = [cell for one in (row.onset, row.offset, row.gap) for cell in (one.bias_ms, one.p50_ms, one.p95_ms)]
            missed = f"  missed {row.onset.missed}" if row.onset.missed else ""
            yield f"  {name:<20}" + "".join(f"{DASH if c is None else number(c, 1):>8}" for c in cells) + missed
    yield "\nbias: the mean; positive is too late (onset − offset: too long). p50, p95: of the error's magnitude."
