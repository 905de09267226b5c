"""Which of a metric's lines count in its figures: one per sample of this scoring, all made with the same settings, from
what the sample is now."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby

import msgspec

from harness.score.engine import Chosen, ScoreStore
from harness.score.engine.audio_index import AudioIndex
from harness.score.engine.keys import Keys, without_mark
from harness.score.table import metric
from metrics.result import Failed, Unavailable, Value
from metrics.scoring import Sample, ScoreLine

NOT_SCORED = "not scored yet with these settings"
Samples = Callable[[], Iterable[Sample]]
"""The samples of a scoring, the same ones at each call."""


class Made(msgspec.Struct, frozen=True):
    """With what scores were made: the metric's version, its options, and what else they depend on (hashes of weights,
    versions of packages)."""

    version: str
    options: dict[str, str]
    identity: dict[str, str]

    @classmethod
    def of(cls, line: ScoreLine) -> Made:
        return cls(line.metric_version, line.options, line.identity)


With = Mapping[str, Made]
"""By name: of a metric, and of all that its scores rest on."""


def made_of(store: ScoreStore, name: str, asked: Mapping[str, Chosen]) -> dict[str, Made] | None:
    """With what the last line was made, and the lines that it was derived from. What is asked for now, and all that it
    needs, is made as asked. None where neither a line nor a question says."""
    of = asked.get(name)
    last = _last(store, name, of)
    if of is None:
        return None if last is None else _of_line(store, last)
    identity = {} if last is None else last.identity
    found = {name: Made(of.metric.version, of.options, identity)}
    for needed in of.metric.needs:
        found |= made_of(store, needed, asked) or {}
    return found


def _of_line(store: ScoreStore, line: ScoreLine) -> dict[str, Made]:
    found = {line.metric: Made.of(line)}
    for needed in metric(line.metric).needs:
        given = _input(store, line, needed)
        found |= (made_of(store, needed, {}) if given is None else _of_line(store, given)) or {}
    return found


def _last(store: ScoreStore, name: str, asked: Chosen | None) -> ScoreLine | None:
    """One with a value says more than one that was never scored."""
    last: ScoreLine | None = None
    for line in store.lines(name):
        if asked is not None and (line.metric_version, line.options) != (asked.metric.version, asked.options):
            continue
        if last is None or _has_value(line) or not _has_value(last):
            last = line
    return last


def counts(store: ScoreStore, line: ScoreLine, made: With) -> bool:
    """Whether it was made with these settings, and likewise all that it was derived from."""
    if line.metric not in made or not _made_with(line, made[line.metric]):
        return False
    given = [_input(store, line, name) for name in line.inputs]
    return all(one is not None and counts(store, one, made) for one in given)


def _made_with(line: ScoreLine, made: Made) -> bool:
    """Without any value it may have been made where the model was not to be had, so without its identity."""
    if (line.metric_version, line.options) != (made.version, made.options):
        return False
    return line.identity == made.identity or not _has_value(line)


def _has_value(line: ScoreLine) -> bool:
    return any(isinstance(figure, Value) for figure in line.score.figures.values())


def _input(store: ScoreStore, line: ScoreLine, name: str) -> ScoreLine | None:
    """The line of another metric that this one was derived from; None where it is gone. One with an error is only found
    as its sample's last."""
    key = without_mark(line.inputs.get(name, ""))
    given = store.line(name, key)
    if given is None:
        last = store.last(name, line.sample)
        given = last if last is not None and last.key == key else None
    return given


class Counted:
    """The lines of one metric that count.

    A metric that is asked for now is held to what is known of each sample now: a line counts if it need not be scored
    again, so that what an interruption left half done is told apart. Of the others, scored earlier, perhaps with texts
    that nobody gave this time, only those of another sound are left out.
    """

    def __init__(
        self,
        store: ScoreStore,
        name: str,
        made: With,
        samples: Samples,
        *,
        asked: Mapping[str, Chosen],
        audio: AudioIndex,
    ) -> None:
        self._store, self._name, self._made, self._samples = store, name, made, samples
        self._asked, self._audio = asked, audio
        self._keys = Keys({each: one.identity for each, one in made.items()})
        self._counting = {sample for group in self._groups() for sample in group}

    def lines(self) -> Iterator[ScoreLine]:
        """One per sample, in their order: those of the store, and of samples that it has none of, lines that say so. To
        which group and language a sample belongs is as it is now."""
        with self._store.reading(self._name) as last:
            for sample in self._samples():
                line = last(sample.id) if sample.id in self._counting else None
                yield self._not_scored(sample) if line is None else _as_now(line, sample)

    def _groups(self) -> Iterator[list[str]]:
        """Names of the samples whose lines count. Of a group that is scored together all do, or none."""
        together = self._name in self._asked and metric(self._name).of_groups
        with self._store.reading(self._name) as last:
            for _, group in groupby(self._samples(), key=lambda one: (one.group, "" if one.group else one.id)):
                found = [(sample.id, self._holds(last(sample.id), sample)) for sample in group]
                counting = [name for name, holds in found if holds]
                yield counting if len(counting) == len(found) or not together else []

    def _holds(self, line: ScoreLine | None, sample: Sample) -> bool:
        if line is None or not counts(self._store, line, self._made):
            return False
        return self._is_new(line, sample) if self._name in self._asked else self._same_sound(line, sample)

    def _is_new(self, line: ScoreLine, sample: Sample) -> bool:
        """Whether nothing that it depends on is another by now."""
        chosen = self._asked[line.metric]
        why = _why_nothing(line)
        if why is not None and line.key == self._keys.of_nothing(chosen, sample, why):
            return all(name in line.inputs or self._is_tried(name, sample) for name in chosen.metric.needs)
        if chosen.metric.make:
            known = self._audio.find(sample.audio)
            return known is not None and line.key == self._keys.of_sound(chosen, sample, known.sha256)
        if not chosen.metric.of_groups and line.key != self._keys.of_derived(chosen, [sample], [line.inputs])[0]:
            return False
        given = [_input(self._store, line, name) for name in line.inputs]
        return all(one is not None and self._is_new(one, sample) for one in given)

    def _is_tried(self, name: str, sample: Sample) -> bool:
        """Whether the last word on a sample, by a metric that gave nothing for it, is of these settings."""
        last = self._store.last(name, sample.id)
        return last is not None and counts(self._store, last, self._made)

    def _same_sound(self, line: ScoreLine, sample: Sample) -> bool:
        """Where nobody knows what the file holds now, it is taken to be unchanged."""
        if not line.audio or not (metric(line.metric).make or line.inputs):
            return True
        known = self._audio.find(sample.audio)
        return known is None or known.sha256 == line.audio

    def _not_scored(self, sample: Sample) -> ScoreLine:
        return ScoreLine(
            key="",
            sample=sample.id,
            metric=self._name,
            metric_version=self._made[self._name].version,
            score=metric(self._name).nothing(sample.unavailable or NOT_SCORED),
            group=sample.group,
            order=sample.order,
            language=sample.language,
        )


def _as_now(line: ScoreLine, sample: Sample) -> ScoreLine:
    now = (sample.group, sample.order, sample.language)
    if (line.group, line.order, line.language) == now:
        return line
    return msgspec.structs.replace(line, group=sample.group, order=sample.order, language=sample.language)


def _why_nothing(line: ScoreLine) -> str | None:
    """The one reason for which it has no figure at all."""
    whys: Sequence[Unavailable | Failed | Value] = list(line.score.figures.values())
    first = whys[0] if whys else None
    if first is None or isinstance(first, Value) or any(one != first for one in whys):
        return None
    return first.because if isinstance(first, Unavailable) else first.error
