"""UTMOS22-strong, loaded: sounds of any rate and length in, opinions out."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from metrics.scoring import FloatPcm, Options, Scorer
from metrics.scoring.device import torch_device
from metrics.speech_quality.opinion import MosScorer, Opinion
from metrics.speech_quality.utmos.checkpoint import load
from metrics.speech_quality.utmos.metric import (
    AS_PUBLISHED,
    LONGEST_AS_PUBLISHED_S,
    LONGEST_S,
    METRIC,
    RATE_HZ,
    checkpoint,
    is_published,
)
from metrics.speech_quality.utmos.model import Utmos22Strong
from metrics.speech_quality.utmos.resample import resample_as_published
from metrics.speech_quality.windows import even_cuts, mean_by_length, windowed

_PADDED_S_ON_CPU = 32
_PADDED_S_ELSEWHERE = 1024
"""Seconds of sound, padding included, in one pass: it bounds the memory that a pass takes."""


def make(options: Options) -> Scorer:
    """Raises `MissingWeights`, and `SetupError` for a checkpoint that is none."""
    path = checkpoint(options)
    model = load(path, torch_device())
    flags = [] if not options["weights"] or is_published(path) else ["weights: not the published ones"]
    longest_s = LONGEST_AS_PUBLISHED_S if options["resampler"] == AS_PUBLISHED else LONGEST_S
    return MosScorer(METRIC, Utmos(model, flags, longest_s), "utmos", margin=0.5)


class Utmos:
    """flags: said of every sound · longest_s: what is longer is cut."""

    def __init__(self, model: Utmos22Strong, flags: Sequence[str] = (), longest_s: int = LONGEST_S) -> None:
        self._model, self._flags, self._longest_s = model, list(flags), longest_s
        self._device = model.domain_emb.device

    def listen(self, sounds: Sequence[FloatPcm], rates_hz: Sequence[int]) -> list[Opinion]:
        """What is not at 16 kHz is resampled as published; what is too long is cut evenly and said so."""
        at_16k = [resample_as_published(sound, hz, RATE_HZ) for sound, hz in zip(sounds, rates_hz, strict=True)]
        cuts = [even_cuts(len(sound), self._longest_s * RATE_HZ) for sound in at_16k]
        parts = [sound[start:stop] for sound, its in zip(at_16k, cuts, strict=True) for start, stop in its]
        heard = iter(self._hear(parts))
        return [
            Opinion({"utmos": mean_by_length([next(heard) for _ in its], its)}, [*self._flags, *windowed(its, RATE_HZ)])
            for its in cuts
        ]

    def _hear(self, parts: Sequence[FloatPcm]) -> list[float]:
        """One number per part, each at 16 kHz; passes hold parts of like length."""
        heard = [0.0] * len(parts)
        for places in self._passes([len(part) for part in parts]):
            sounds = [torch.tensor(parts[place], device=self._device) for place in places]
            with torch.inference_mode():
                scores = self._model(sounds).tolist()
            for place, score in zip(places, scores, strict=True):
                heard[place] = score
        return heard

    def _passes(self, lengths: Sequence[int]) -> list[list[int]]:
        """Places of the parts, longest first, in groups whose padded length stays within bounds."""
        most = RATE_HZ * (_PADDED_S_ON_CPU if self._device.type == "cpu" else _PADDED_S_ELSEWHERE)
        groups: list[list[int]] = []
        for place in sorted(range(len(lengths)), key=lambda place: -lengths[place]):
            if not groups or (len(groups[-1]) + 1) * lengths[groups[-1][0]] > most:
                groups.append([])
            groups[-1].append(place)
        return groups
