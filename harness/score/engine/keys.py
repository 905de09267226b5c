"""What a score depends on, as a key: nothing is scored twice, and nothing stale is taken for a score."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from harness.score.engine.asked import Chosen
from metrics.scoring import Metric, Sample, key_of

_WHERE = {"id", "audio", "group", "order", "unavailable"}
"""Where a sample comes from: no score depends on it, but for the order within a group on those of groups."""
_PLAIN = {info.name: info.default for info in msgspec.structs.fields(Sample)}
_WITH_ERRORS = " with errors"


def marked(key: str) -> str:
    """The key of a score with an error, as an input: it will be scored again under its own, and what is derived from an
    error must not be taken for what is right."""
    return f"{key}{_WITH_ERRORS}"


def without_mark(key: str) -> str:
    """The key under which that score stands in the store."""
    return key.removesuffix(_WITH_ERRORS)


def read_fields(metric: Metric) -> list[str]:
    """The fields of a sample that the scores of this metric may depend on."""
    wanted = set(_PLAIN if metric.reads is None else metric.reads)
    if metric.languages:
        wanted.add("language")  # a sample in another one is flagged
    return [name for name in _PLAIN if name in wanted and name not in _WHERE]


def shown(metric: Metric, sample: Sample) -> Sample:
    """The sample with those fields alone that the metric says it reads."""
    return Sample(sample.id, sample.audio, sample.group, sample.order, **_read(metric, sample))


def _read(metric: Metric, sample: Sample) -> dict[str, Any]:
    return {name: getattr(sample, name) for name in read_fields(metric)}


class Keys:
    """Makes keys. identities: what each metric's scores depend on beside its version, by name."""

    def __init__(self, identities: Mapping[str, Mapping[str, str]]) -> None:
        self._identities = identities
        self._files: dict[str, str] = {}

    def of_sound(self, chosen: Chosen, sample: Sample, audio: str) -> str:
        """audio: sha256 of the decoded sound."""
        return self._key(chosen, {"audio": audio}, self._said(chosen.metric, sample))

    def of_derived(self, chosen: Chosen, samples: Sequence[Sample], inputs: Sequence[Mapping[str, str]]) -> list[str]:
        """One key per sample of a group (or of one). inputs: the keys of what the metric needs, by metric."""
        parts = [
            {**{f"key of {name}": key for name, key in keys.items()}, **self._said(chosen.metric, sample)}
            for sample, keys in zip(samples, inputs, strict=True)
        ]
        if not chosen.metric.of_groups:
            return [self._key(chosen, part) for part in parts]
        orders = {"orders": " ".join(str(sample.order) for sample in samples)}  # where in the dialogue each stands
        group = key_of("group", "", orders, *parts)
        return [self._key(chosen, {"group": group, "place": str(place)}) for place in range(len(parts))]

    def of_nothing(self, chosen: Chosen, sample: Sample, why: str) -> str:
        """Of a sample that got no score. Where the reason is gone it has another key, and is scored. The identity is no
        part of it: it may be what was not to be had."""
        return key_of(chosen.name, chosen.metric.version, chosen.options, {"sample": sample.id, "why": why})

    def _key(self, chosen: Chosen, *parts: Mapping[str, str]) -> str:
        metric = chosen.metric
        return key_of(metric.name, metric.version, chosen.options, self._identities[metric.name], *parts)

    def _said(self, metric: Metric, sample: Sample) -> dict[str, str]:
        """What stands at its default is left out: a field that samples get one day changes no key of today."""
        said = {}
        for name, value in _read(metric, sample).items():
            if value != _PLAIN[name]:
                said[name] = (
                    self._content(str(value)) if name == "reference_audio" else msgspec.json.encode(value).decode()
                )
        return said

    def _content(self, path: str) -> str:
        if path not in self._files:
            try:
                with Path(path).open("rb") as file:
                    self._files[path] = hashlib.file_digest(file, "sha256").hexdigest()
            except OSError:
                self._files[path] = f"not readable: {path}"
        return self._files[path]
