"""One arm, a process of its own: a model's forward passes and nothing else, on sounds that lie decoded in memory.

python -m benchmarks.scoring.bare WEIGHTS METRIC BATCH FOLDER …
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec

from benchmarks.scoring.measured import find, options_for
from benchmarks.scoring.ours import samples_of
from metrics.result import Measured, Value
from metrics.scoring import FloatPcm
from sessions.audio import read, resample
from sessions.clock import NS_PER_S, MonotonicClock, process_cpu_ns


class Report(msgspec.Struct):
    """seconds, cpu_s: of the passes, after one that was not timed · figures: by sample, by figure."""

    seconds: float
    cpu_s: float
    figures: dict[str, dict[str, float]]


def main() -> None:
    weights, name, batch, *folders = sys.argv[1:]
    metric, size, clock = find(name), int(batch), MonotonicClock()
    module, _, attribute = metric.make.partition(":")
    options = {option.name: option.default for option in metric.options} | options_for([name], Path(weights)).get(
        name, {}
    )
    scorer = getattr(__import__(module, fromlist=["_"]), attribute)(options)
    listener = getattr(scorer, "scorer", scorer).listener
    samples = samples_of([Path(folder) for folder in folders])
    rate_hz = metric.rate_hz or 0
    sounds: list[tuple[str, FloatPcm]] = []
    for sample in samples:
        source = read(sample.audio)
        sounds.append((sample.id, resample(source.samples, source.rate_hz, rate_hz)))
    sounds.sort(key=lambda sound: len(sound[1]))  # the least padding that there can be
    batches = [sounds[at : at + size] for at in range(0, len(sounds), size)]
    listener.listen([pcm for _, pcm in batches[0]], [rate_hz] * len(batches[0]))
    began_ns, cpu_ns = clock.now_ns(), process_cpu_ns()
    opinions = [listener.listen([pcm for _, pcm in batch], [rate_hz] * len(batch)) for batch in batches]
    seconds, cpu_s = (clock.now_ns() - began_ns) / NS_PER_S, (process_cpu_ns() - cpu_ns) / NS_PER_S
    heard = [opinion for batch in opinions for opinion in batch]
    figures = {name: dict(opinion.figures) for (name, _), opinion in zip(sounds, heard, strict=True)}
    sys.stdout.buffer.write(msgspec.json.encode(Report(seconds, cpu_s, figures)) + b"\n")


def differences(bare: dict[str, dict[str, float]], ours: dict[str, dict[str, Measured]]) -> float:
    """The largest difference of any figure of any sample; infinite where one lacks a value."""
    if bare.keys() != ours.keys():
        return float("inf")
    found = 0.0
    for sample, figures in bare.items():
        for figure, value in figures.items():
            other = ours[sample].get(figure)
            found = max(found, abs(value - other.value) if isinstance(other, Value) else float("inf"))
    return found


if __name__ == "__main__":
    main()
