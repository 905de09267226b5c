"""Samples on their way through the engine, and the lines that come of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.score.engine.asked import Chosen, Watcher
from harness.score.engine.keys import Keys, marked
from harness.score.engine.store import ScoreStore, is_error
from metrics.result import Failed, Unavailable, Value
from metrics.scoring import Metric, Sample, Score, ScoreLine
from metrics.transcript import primary

NoScore = Unavailable | Failed


@dataclass(slots=True)
class Group:
    """Samples that belong together. open: those that are not yet scored · members: kept where metrics of groups are
    asked for; None where there are too many of them."""

    name: str
    open: int = 0
    closed: bool = False
    members: list[Entry] | None = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Entry:
    """One sample on its way. audio, seconds: as in `ScoreLine`, once known.

    keys: of the scores that it has, by metric · scores: those of them that are at hand, the others lie in the store ·
    nothing: why it has none, by metric · waiting: metrics whose scorers have not yet answered.
    """

    sample: Sample
    group: Group
    audio: str = ""
    seconds: float | None = None
    keys: dict[str, str] = field(default_factory=dict)
    scores: dict[str, Score] = field(default_factory=dict)
    nothing: dict[str, NoScore] = field(default_factory=dict)
    waiting: int = 0


class Recorder:
    """Writes lines, and tells the watcher: for each sample and metric once."""

    def __init__(self, store: ScoreStore, watcher: Watcher, identities: Mapping[str, Mapping[str, str]]) -> None:
        self.store, self._watcher, self._identities = store, watcher, identities
        self.keys = Keys(identities)

    def score(self, chosen: Chosen, entry: Entry, key: str, score: Score) -> None:
        """A new score."""
        score = flagged(chosen.metric, entry.sample, score)
        self._write(chosen, entry, key, score)
        entry.scores[chosen.name] = score
        entry.keys[chosen.name] = marked(key) if is_error(score) else key

    def again(self, chosen: Chosen, entry: Entry, key: str) -> bool:
        """Whether this score is there already; then this sample has it too."""
        if not self.store.known(chosen.name, key):
            return False
        entry.keys[chosen.name] = key
        if self.store.is_last(chosen.name, entry.sample.id, key):
            self._watcher.kept(chosen.name)
        else:
            line = self.store.line(chosen.name, key)
            assert line is not None
            self._write(chosen, entry, key, line.score)
        return True

    def nothing(self, chosen: Chosen, entry: Entry, why: NoScore) -> None:
        """No score, and why."""
        entry.nothing[chosen.name] = why
        reason = why.because if isinstance(why, Unavailable) else why.error
        key = self.keys.of_nothing(chosen, entry.sample, reason)
        if isinstance(why, Unavailable) and self.store.is_last(chosen.name, entry.sample.id, key):
            self._watcher.kept(chosen.name)
        else:
            self._write(chosen, entry, key, chosen.metric.nothing(why))

    def score_of(self, name: str, entry: Entry) -> Score:
        """What this metric gave for the sample, in this scoring or an earlier one."""
        score = entry.scores.get(name)
        if score is None:  # errors are always at hand
            line = self.store.line(name, entry.keys[name])
            assert line is not None
            score = line.score
        return score

    def _write(self, chosen: Chosen, entry: Entry, key: str, score: Score) -> None:
        sample = entry.sample
        line = ScoreLine(
            key=key,
            sample=sample.id,
            metric=chosen.name,
            metric_version=chosen.metric.version,
            score=score,
            group=sample.group,
            order=sample.order,
            language=sample.language,
            audio=entry.audio,
            seconds=entry.seconds,
            inputs={name: entry.keys[name] for name in chosen.metric.needs if name in entry.keys},
            options=chosen.options,
            identity=dict(self._identities[chosen.name]),
        )
        self.store.add(chosen.name, line)
        self._watcher.scored(chosen.name, line)


def what_it_lacks(score: Score) -> NoScore | None:
    """Why a score is of no use to metrics that need it; None where it may be of use."""
    if score.details or any(isinstance(figure, Value) for figure in score.figures.values()):
        return None
    failed = next((figure for figure in score.figures.values() if isinstance(figure, Failed)), None)
    return failed or next((figure for figure in score.figures.values() if isinstance(figure, Unavailable)), None)


def flagged(metric: Metric, sample: Sample, score: Score) -> Score:
    """With the flag `out-of-domain: <language>` where a value is given outside the languages of the metric's model."""
    language = sample.language
    if not language or not metric.languages or primary(language) in metric.languages:
        return score
    has_value = any(isinstance(figure, Value) for figure in score.figures.values())
    if not has_value or any(flag.startswith("out-of-domain") for flag in score.flags):
        return score
    return Score(score.figures, [*score.flags, f"out-of-domain: {language}"], score.details)
