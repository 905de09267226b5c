"""All samples measured and added up."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from harness.analyze.detector import DETECTORS, STATED, errors_of, stated, turned
from harness.analyze.hearing import listen
from harness.analyze.inputs import Sample, open_lanes
from harness.analyze.labels import SHORT, Label, for_sample, labels_beside, read_labels
from harness.analyze.marked_lanes import MARKED_LANES
from harness.analyze.measuring import (
    FOLLOWED,
    LANE_SHARES,
    STOPPED,
    VOICE_TO_VOICE,
    MeasuredSample,
    measure_sample,
)
from harness.analyze.not_from_audio import not_from_audio
from harness.analyze.result import Analysis, DetectorStatement, FailedSample, Settings, ShortSounds
from harness.analyze.turns import AUDIO_TURNS, PAUSE_MS, SHORT_SOUND
from harness.from_recording.segments import METHODS, Find
from harness.speech_end_error import Figures
from harness.speech_end_error.methods import silero_detector
from metrics.result import Failed, Measured, Unavailable, Value
from metrics.stats import summarise
from metrics.turn_taking.table import turn_taking_definitions
from metrics.turn_taking.totals import AFTER_INTERRUPTION, Figure, Rate, rate_of, totals
from sessions.clock import NS_PER_MS
from sessions.errors import MissingExtra, MissingWeights, SetupError

GAPS: Final = (VOICE_TO_VOICE, AFTER_INTERRUPTION, "reprompt_ms")
"""Figures that are one lane's onset − the other's offset."""
LENGTHS: Final = ("barge_in_stop_ms", "overlap_ms", "agent_over_user_ms", "user_over_agent_ms")
"""Figures that are an offset − an onset."""
PAUSE_STEP_MS: Final = 100.0
"""Pauses are told apart in steps of this: the detector knows their lengths no better."""


@dataclass(frozen=True, slots=True)
class Asked:
    """labels: a file for all samples, None for those that lie beside them · method: of `DETECTORS`."""

    samples: Sequence[Sample]
    labels: Path | None = None
    method: str = "silero"
    pause_ms: int = PAUSE_MS


@dataclass(slots=True)
class _Collected:
    measured: list[MeasuredSample] = field(default_factory=list)
    failed: list[FailedSample] = field(default_factory=list)


def analyze(asked: Asked, *, seen: Callable[[Sample], None] = lambda _: None) -> Analysis:
    """Measure every sample; one that cannot be used is told and the others go on.

    seen: called after each. Raises `SetupError` where the detector is missing or the given labels are wrong; where
    there is but one sample, also what is wrong with it.
    """
    if asked.method == "silero":
        silero_detector()  # what is missing is told before hours of audio are read
    find, statement = METHODS[asked.method], statement_of(DETECTORS[asked.method])
    labels = None if asked.labels is None else _labels(asked.labels, asked.samples)
    error = statement.of_measure.get("overlap_ms")
    uncertain_ns = round((error.p95_ms or 0.0) * NS_PER_MS) if error else 0
    collected = _Collected()
    for sample in asked.samples:
        try:
            collected.measured.append(_measured(sample, find, labels, asked.pause_ms * NS_PER_MS, uncertain_ns))
        except (MissingExtra, MissingWeights):
            raise
        except SetupError as problem:
            if len(asked.samples) == 1:
                raise
            collected.failed.append(FailedSample(sample.name, str(problem)))
        seen(sample)
    return _added_up(asked, statement, collected)


def statement_of(detector: str) -> DetectorStatement:
    """What is known of a detector's own error."""
    errors = errors_of(detector)
    shown = None if errors is None else stated(errors)
    of_measure: dict[str, Figures] = {}
    if shown is not None:
        of_measure = dict.fromkeys(GAPS, shown.gap) | dict.fromkeys(LENGTHS, turned(shown.gap))
    conditions = {} if errors is None else errors.conditions
    pooled = None if errors is None else errors.pooled
    return DetectorStatement(detector, MARKED_LANES, STATED.get(detector, ""), of_measure, conditions, pooled)


def definitions() -> dict[str, str]:
    """Name → version of everything that the figures rest on."""
    own = dict(item.split("/") for item in (AUDIO_TURNS, SHORT_SOUND, LANE_SHARES))
    return own | {VOICE_TO_VOICE: "1"} | turn_taking_definitions()


def _labels(path: Path, samples: Sequence[Sample]) -> list[Label]:
    found, names = read_labels(path), [sample.name for sample in samples]
    for label in found:
        if label.sample not in ("", *names):
            near = difflib.get_close_matches(label.sample, names, n=1) or names[:1]
            raise SetupError(f"{path} speaks of a sample {label.sample!r}, which is not here", f"Here is: {near[0]}")
    return found


def _measured(
    sample: Sample, find: Find, labels: list[Label] | None, pause_ns: int, uncertain_ns: int
) -> MeasuredSample:
    user, agent = open_lanes(sample)
    own = labels_beside(sample) if labels is None else for_sample(labels, sample.name)
    heard = listen(user, find), listen(agent, find)
    return measure_sample(sample.name, *heard, own, pause_ns=pause_ns, uncertain_ns=uncertain_ns)


def _added_up(asked: Asked, statement: DetectorStatement, collected: _Collected) -> Analysis:
    by_sample = {one.result.name: one.turns for one in collected.measured}
    return Analysis(
        detector=statement,
        definitions=definitions(),
        settings=Settings(asked.pause_ms, "" if asked.labels is None else str(asked.labels)),
        samples=[one.result for one in collected.measured],
        failed=collected.failed,
        voice_to_voice=_voice_to_voice(collected.measured),
        turn_taking=totals(by_sample, step_ms=PAUSE_STEP_MS),
        short_sounds=_short_sounds(collected.measured),
        not_from_audio=not_from_audio(),
    )


def _voice_to_voice(measured: Sequence[MeasuredSample]) -> Figure:
    values: dict[str, list[float]] = {}
    unavailable: Counter[str] = Counter()
    for one in measured:
        for turn in one.turns:
            match turn.measures.get(VOICE_TO_VOICE):
                case Value(value):
                    values.setdefault(one.result.name, []).append(value)
                case Unavailable(because):
                    unavailable[because] += 1
    return Figure("ms", summarise(values), dict(unavailable.most_common()))


def _short_sounds(measured: Sequence[MeasuredSample]) -> ShortSounds:
    sounds = [turn.measures for one in measured for turn in one.result.turns if turn.kind == SHORT]
    over = sum(STOPPED in sound for sound in sounds)
    return ShortSounds(len(sounds), over, _rate(sounds, STOPPED), _rate(sounds, FOLLOWED))


def _rate(sounds: Sequence[dict[str, Measured]], name: str) -> Rate:
    hits = of = 0
    unavailable: Counter[str] = Counter()
    for sound in sounds:
        match sound.get(name):
            case Value(value):
                hits, of = hits + round(value), of + 1
            case Unavailable(because):
                unavailable[because] += 1
            case Failed(error):
                unavailable[f"error: {error}"] += 1
    return rate_of(hits, of, unavailable)
