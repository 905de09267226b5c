"""Samples in, lines in the store out: one after another, in this process."""

from __future__ import annotations

import importlib
import itertools
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from harness.score.engine.asked import Chosen, Resources, Watcher
from harness.score.engine.keys import Keys, shown
from harness.score.engine.sound import read_sound
from harness.score.engine.store import ScoreStore
from metrics.result import Failed
from metrics.scoring import Piece, Sample, Score, ScoreLine, Scorer
from sessions.errors import BadAudio, MissingExtra, MissingWeights


def score_samples(
    samples: Iterable[Sample],
    chosen: Sequence[Chosen],
    store: ScoreStore,
    *,
    watcher: Watcher,
    resources: Resources,
) -> None:
    """Score every sample by every metric; what the store has already is not scored again.

    chosen: with all that they need, in order (`chosen_with_needs`). The store is open for writing. Raises `SetupError`
    where scores cannot be written; whatever befalls a sample or a metric is in its lines, and `watcher` is told.
    """
    _Simple(chosen, store, watcher).run(samples)


def _object(name: str) -> Any:
    module, _, attribute = name.partition(":")
    return getattr(importlib.import_module(module), attribute)


class _Simple:
    def __init__(self, chosen: Sequence[Chosen], store: ScoreStore, watcher: Watcher) -> None:
        self._chosen, self._store, self._watcher = chosen, store, watcher
        self._why: dict[str, str] = {}
        self._identities: dict[str, dict[str, str]] = {}
        self._scorers: dict[str, Scorer] = {}
        self._keys = Keys(self._identities)

    def run(self, samples: Iterable[Sample]) -> None:
        for each in self._chosen:
            self._watcher.metric_begins(each.name, None)
            try:
                self._identities[each.name] = (
                    _object(each.metric.identify)(each.options) if each.metric.identify else {}
                )
            except (MissingExtra, MissingWeights) as error:
                self._identities[each.name] = {}
                self._why[each.name] = str(error)
                self._watcher.remark(f"{each.name} is unavailable: {error}")
        for _, group in itertools.groupby(samples, key=lambda sample: sample.group or sample.id):
            self._group(list(group))

    def _group(self, samples: list[Sample]) -> None:
        done: list[dict[str, ScoreLine]] = [{} for _ in samples]
        for each in self._chosen:
            if each.metric.make:
                for sample, lines in zip(samples, done, strict=True):
                    lines[each.name] = self._listen(each, sample)
            elif each.metric.of_groups:
                self._derive(each, samples, done)
            else:
                for sample, lines in zip(samples, done, strict=True):
                    self._derive(each, [sample], [lines])

    def _listen(self, each: Chosen, sample: Sample) -> ScoreLine:
        why = sample.unavailable or self._why.get(each.name, "")
        if why:
            return self._add(each, sample, self._keys.of_nothing(each, sample, why), each.metric.nothing(why))
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "sound"
            rate_hz = each.metric.rate_for(each.options) or 0
            try:
                sound = read_sound(Path(sample.audio), {rate_hz: place})
            except BadAudio as error:
                score = Score({figure.name: Failed(str(error)) for figure in each.metric.figures})
                return self._add(each, sample, self._keys.of_nothing(each, sample, str(error)), score)
            key = self._keys.of_sound(each, sample, sound.sha256)
            known = self._store.line(each.name, key)
            if known is not None:
                return self._again(each, sample, known)
            if each.name not in self._scorers:
                self._scorers[each.name] = _object(each.metric.make)(each.options)
            pcm = np.fromfile(place, np.float32)
            piece = Piece(shown(each.metric, sample), pcm, rate_hz or sound.rate_hz)
            (score,) = self._scorers[each.name].score([piece])
        return self._add(each, sample, key, score, audio=sound.sha256, seconds=sound.samples / sound.rate_hz)

    def _derive(self, each: Chosen, samples: Sequence[Sample], done: Sequence[dict[str, ScoreLine]]) -> None:
        inputs = [{name: lines[name] for name in each.metric.needs} for lines in done]
        why = self._why.get(each.name, "") or samples[0].unavailable
        input_keys = [{name: line.key for name, line in lines.items()} for lines in inputs]
        keys = self._keys.of_derived(each, samples, input_keys)
        for place, known in enumerate([self._store.line(each.name, key) for key in keys]):
            if known is not None:
                done[place][each.name] = self._again(each, samples[place], known)
        if all(each.name in lines for lines in done):
            return
        scores: Sequence[Score] = [each.metric.nothing(why)] * len(samples)
        if not why:
            given: list[Mapping[str, Score]] = [{name: line.score for name, line in lines.items()} for lines in inputs]
            scores = _object(each.metric.derive)(samples, given, each.options)
        for lines, sample, key, score in zip(done, samples, keys, scores, strict=True):
            lines[each.name] = self._add(each, sample, key, score)

    def _again(self, each: Chosen, sample: Sample, line: ScoreLine) -> ScoreLine:
        if self._store.is_last(each.name, sample.id, line.key):
            self._watcher.kept(each.name)
            return line
        return self._add(each, sample, line.key, line.score, audio=line.audio, seconds=line.seconds)

    def _add(self, each: Chosen, sample: Sample, key: str, score: Score, **known: Any) -> ScoreLine:
        line = ScoreLine(
            key,
            sample.id,
            each.name,
            each.metric.version,
            score,
            group=sample.group,
            order=sample.order,
            language=sample.language,
            options=each.options,
            identity=self._identities[each.name],
            **known,
        )
        self._store.add(each.name, line)
        self._watcher.scored(each.name, line)
        return line
