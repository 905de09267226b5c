"""One arm: a metric over one set as the published scripts do it. A process per set and metric loads its model, reads
one file after another with librosa at its own rate, and scores each by itself.

    python -m benchmarks.scoring.published WEIGHTS METRIC FOLDER
"""

from __future__ import annotations

import sys
from pathlib import Path

import msgspec
import numpy as np

from benchmarks.scoring.measured import find, options_for
from metrics.result import Value
from metrics.scoring import FloatPcm, Piece, Sample
from sessions.audio import resample


def main() -> None:
    weights, name, folder = sys.argv[1:]
    import librosa

    metric = find(name)
    module, _, attribute = metric.make.partition(":")
    options = {option.name: option.default for option in metric.options} | options_for([name], Path(weights)).get(
        name, {}
    )
    scorer = getattr(__import__(module, fromlist=["_"]), attribute)(options)
    figures = {}
    for path in sorted(Path(folder).iterdir()):
        loaded, own_hz = librosa.load(path, sr=None, mono=True)
        wave: FloatPcm = loaded.astype(np.float32, copy=False)
        rate_hz = metric.rate_hz or int(own_hz)
        piece = Piece(Sample(path.name, str(path), language="en"), resample(wave, int(own_hz), rate_hz), rate_hz)
        (score,) = scorer.score([piece])
        given = {name: figure.value for name, figure in score.figures.items() if isinstance(figure, Value)}
        figures[f"{path.parent.name}/{path.name}"] = given
    sys.stdout.buffer.write(msgspec.json.encode(figures) + b"\n")


if __name__ == "__main__":
    main()
