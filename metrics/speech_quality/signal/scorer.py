"""The facts of one sound, put together."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from metrics.result import Measured, Unavailable, Value
from metrics.scoring import FloatPcm, Piece, Score
from metrics.speech_quality.signal import levels
from metrics.speech_quality.signal.audible import Audible, audible
from metrics.speech_quality.signal.bandwidth import bandwidth_hz, is_narrow
from metrics.speech_quality.signal.dropouts import dropouts, ends_at
from metrics.speech_quality.signal.glitches import Found, Glitch, find_glitches
from metrics.speech_quality.signal.prediction import LOWEST_RATE_HZ

SHORTEST_S = 0.06
"""For glitches: two windows of linear prediction."""
_SILENT = "silence: nothing is above the gate (gate/1)"
_LISTED = 100
"""Places that are kept for people; all are counted."""
_EDGE_OF_HOLE_S = 0.002


class SignalScorer:
    """Needs no model."""

    def check(self) -> str:
        return ""

    def score(self, pieces: Sequence[Piece]) -> Sequence[Score]:
        return [facts(piece.samples, piece.rate_hz, piece.sample.borders) for piece in pieces]


@dataclass(frozen=True, slots=True)
class _Broken:
    """What was broken on the way."""

    holes: list[tuple[int, int]]
    found: Found


def facts(samples: FloatPcm, rate_hz: int, borders: tuple[int, ...] = ()) -> Score:
    """samples: float32 (n,) mono at its own rate_hz · borders: the first sample of each packet."""
    heard = audible(samples, rate_hz)
    clipped = levels.clipping(samples)
    bandwidth = bandwidth_hz(samples, rate_hz, heard.runs) if heard.runs else Unavailable(_SILENT)
    broken = _broken(samples, rate_hz, heard, borders)
    figures: dict[str, Measured] = {
        "peak": levels.peak_dbfs(samples),
        "loudness": levels.loudness_lufs(samples, rate_hz),
        "clipped": Value(100 * clipped.share),
        "dc_offset": Value(100 * levels.mean_offset(samples)),
        "silence_share": Value(100 * heard.silence_share),
        "leading_silence": Value(1000 * heard.before / rate_hz) if heard.runs else Unavailable(_SILENT),
        "trailing_silence": Value(1000 * heard.after / rate_hz) if heard.runs else Unavailable(_SILENT),
        "bandwidth": bandwidth,
        **_counts(broken, borders),
    }
    flags = []
    if clipped.runs:
        flags.append(f"clipped: {len(clipped.runs)} flat tops")
    if is_narrow(bandwidth, rate_hz) and isinstance(bandwidth, Value):
        flags.append(f"narrow-band: nothing above {bandwidth.value:.0f} Hz in a file of {rate_hz} Hz")
    if ends_at(samples, rate_hz, heard.level):
        flags.append("ends in speech: the last 5 ms are as loud as the rest")
    if isinstance(broken, _Broken) and broken.found.has_seams:
        flags.append("seams: packet borders stand out from what lies between them")
    return Score(figures, flags, _details(broken, rate_hz))


def _broken(samples: FloatPcm, rate_hz: int, heard: Audible, borders: tuple[int, ...]) -> _Broken | Unavailable:
    if not heard.runs:
        return Unavailable(_SILENT)
    if rate_hz < LOWEST_RATE_HZ:
        return Unavailable(f"a rate of {rate_hz} Hz is too low to foretell samples (at least {LOWEST_RATE_HZ} Hz)")
    if len(samples) < SHORTEST_S * rate_hz:
        return Unavailable(f"shorter than {1000 * SHORTEST_S:.0f} ms")
    holes = dropouts(samples, rate_hz, heard.level)
    found = find_glitches(samples, rate_hz, heard.level, borders)
    edge = round(_EDGE_OF_HOLE_S * rate_hz)
    found.glitches = [one for one in found.glitches if not _belongs_to(one, holes, edge)]
    return _Broken(holes, found)


def _belongs_to(glitch: Glitch, holes: list[tuple[int, int]], edge: int) -> bool:
    """Whether it is but the edge of a hole, which is counted already. holes: in order."""
    last = bisect_right(holes, glitch.at + edge, key=lambda hole: hole[0]) - 1
    if last < 0:
        return False
    start, length = holes[last]
    return glitch.at <= start + length + edge


def _counts(broken: _Broken | Unavailable, borders: tuple[int, ...]) -> dict[str, Measured]:
    if isinstance(broken, Unavailable):
        return dict.fromkeys(("dropouts", "glitches", "glitches_at_borders", "border_rank"), broken)
    unknown = Unavailable("no packet borders are known")
    at_borders = sum(one.at_border for one in broken.found.glitches)
    rank = broken.found.rank
    ranked = Unavailable("fewer than 20 packet borders within sound") if rank is None else Value(rank)
    return {
        "dropouts": Value(len(broken.holes)),
        "glitches": Value(len(broken.found.glitches)),
        "glitches_at_borders": Value(at_borders) if borders else unknown,
        "border_rank": ranked if borders else unknown,
    }


def _details(broken: _Broken | Unavailable, rate_hz: int) -> dict[str, object]:
    """Where to look, in seconds."""
    if isinstance(broken, Unavailable):
        return {}
    return {
        "dropouts": [
            {"at_s": round(start / rate_hz, 6), "ms": round(1000 * length / rate_hz, 3)}
            for start, length in broken.holes[:_LISTED]
        ],
        "glitches": [
            {
                "at_s": round(one.at / rate_hz, 6),
                "kind": one.kind,
                "at_border": one.at_border,
                "crest": round(one.crest, 1),
            }
            for one in broken.found.glitches[:_LISTED]
        ],
    }
