"""What an analysis comes to, as `analysis.json` holds it."""

from __future__ import annotations

import msgspec

from harness.analyze.detector import EdgeErrors
from harness.speech_end_error import Figures
from metrics.result import Measured
from metrics.turn_taking.totals import Figure, Rate, TurnTaking
from sessions.runs import indented

SCHEMA_VERSION = 1


class LaneResult(msgspec.Struct, frozen=True):
    """file: as it was given · channel: from 0 · stretches_ns: (start, end) of speech as the detector found it."""

    file: str
    channel: int
    rate_hz: int
    samples: int
    speech_ms: float
    clipped: int
    stretches_ns: list[tuple[int, int]]


class Shares(msgspec.Struct, frozen=True):
    """Who speaks for how long, `lane_shares/1`: only the user, only the agent, both, neither; they add up to the whole.

    longest_silence_ms: of neither, between the first speech and the last.
    """

    user_ms: float
    agent_ms: float
    both_ms: float
    neither_ms: float
    longest_silence_ms: float


class AudioTurn(msgspec.Struct, frozen=True):
    """One of the user's turns.

    kind: speech, interruption, overlap, backchannel, noise, silence, short · kind_by: "audio" or "label" · is_heard:
    False where the detector found no speech under a label, whose own instants stand here then · measures: by name,
    those that a turn of this kind has · flags: what a reader should know.
    """

    turn: int
    kind: str
    kind_by: str
    is_heard: bool
    onset_ns: int
    end_ns: int
    pauses_ns: list[tuple[int, int]]
    answer_ns: int | None
    measures: dict[str, Measured]
    flags: list[str]


class SampleResult(msgspec.Struct, frozen=True):
    """One recording. duration_ms: of the longer lane · notes: what was found wrong with it."""

    name: str
    duration_ms: float
    user: LaneResult
    agent: LaneResult
    shares: Shares
    turns: list[AudioTurn]
    notes: list[str]


class FailedSample(msgspec.Struct, frozen=True):
    """A sample that could not be analyzed, and why."""

    name: str
    problem: str


class ShortSounds(msgspec.Struct, frozen=True):
    """The user's short sounds of unknown kind, `short_sound/1`.

    over_agent: those that began while the agent spoke · stopped: the agent's stretch ended within 2 s of them ·
    followed: of those that began in the agent's quiet, the agent spoke within 2 s.
    """

    count: int
    over_agent: int
    stopped: Rate
    followed: Rate


class DetectorStatement(msgspec.Struct, frozen=True):
    """The detector and its own error on marked audio (docs/analyze.md).

    stated: the condition of the figures that stand beside results, "" for all of them · of_measure: by the measure's
    name, the error that a figure made of two edges has; bias: positive is too long · conditions, pooled: as measured.
    """

    name: str
    marked_audio: str
    stated: str
    of_measure: dict[str, Figures]
    conditions: dict[str, EdgeErrors]
    pooled: EdgeErrors | None


class Settings(msgspec.Struct, frozen=True):
    """pause_ms: the user's stretches at least so far apart are two turns · labels: the file given, "" for none."""

    pause_ms: int
    labels: str


class Analysis(msgspec.Struct, frozen=True):
    """Everything. voice_to_voice: over all turns that expect a reply · turn_taking: rates, figures and the curve as
    docs/metrics.md defines them, short sounds left out · not_from_audio: measure → why no audio can give it."""

    detector: DetectorStatement
    definitions: dict[str, str]
    settings: Settings
    samples: list[SampleResult]
    failed: list[FailedSample]
    voice_to_voice: Figure
    turn_taking: TurnTaking
    short_sounds: ShortSounds
    not_from_audio: dict[str, str]
    version: int = SCHEMA_VERSION

    @property
    def turns(self) -> int:
        return sum(len(sample.turns) for sample in self.samples)


def encode(analysis: Analysis) -> bytes:
    """As `--json` prints it and `analysis.json` holds it."""
    return indented(analysis) + b"\n"
