"""What is kept of a score: one line per sample and metric, found again by its content."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping

import msgspec

from metrics.scoring.metric import Score

LINE_VERSION = 1


class ScoreLine(msgspec.Struct, frozen=True):
    """One line of scores/<metric>.jsonl.

    key: what the score depends on, hashed; a line with the same key need never be made again · sample: its id ·
    audio: sha256 of the decoded sound, "" where it could not be read · inputs: the keys of the scores that it was
    derived from · options and identity: as in `Metric` · seconds: how long the sound is.
    """

    key: str
    sample: str
    metric: str
    metric_version: str
    score: Score
    group: str = ""
    order: int = 0
    language: str = ""
    audio: str = ""
    seconds: float | None = None
    inputs: dict[str, str] = {}
    options: dict[str, str] = {}
    identity: dict[str, str] = {}
    version: int = LINE_VERSION


class Aggregate(msgspec.Struct, frozen=True):
    """One figure over many samples.

    figure: its name, or another that `summarise` adds (a corpus rate) · value: None where nothing was used · used,
    skipped, failed: samples with a value, unavailable, with an error; they add up to all · ci95: 95 % bootstrap
    interval, groups resampled, None with a reason · unavailable, errors: reason → samples · language: "" over all
    """

    figure: str
    title: str
    unit: str
    direction: str
    value: float | None
    used: int
    skipped: int
    failed: int
    ci95: tuple[float, float] | None = None
    no_ci95: str = ""
    language: str = ""
    unavailable: dict[str, int] = {}
    errors: dict[str, int] = {}
    minimum: float | None = None
    maximum: float | None = None


def key_of(metric: str, version: str, *parts: Mapping[str, str]) -> str:
    """sha256 over the metric, its version and every part, whatever the order of their entries."""
    digest = hashlib.sha256(f"{metric}/{version}".encode())
    for part in parts:
        for name, value in sorted(part.items()):
            digest.update(f"\0{name}\0{value}".encode())
        digest.update(b"\1")
    return digest.hexdigest()
