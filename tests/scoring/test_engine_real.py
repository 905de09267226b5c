"""The scoring engine with a real model: the same scores, however many work on them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.score.table import metric
from metrics.result import Value
from metrics.scoring import Piece, Sample
from metrics.scoring.device import DEVICE, torch_device
from metrics.speech_quality.dnsmos import RATE_HZ, make
from sessions.audio import read, resample
from tests.scoring.engine_rig import QUICK, figures, score

CLIPS = sorted((Path(__file__).parents[2] / "sessions" / "library" / "small-talk").glob("*.flac"))


@pytest.mark.parametrize("threads", [1, 2])
def test_scores_are_those_of_the_scorer_alone(tmp_path: Path, threads: int) -> None:
    samples = [Sample(path.name, str(path), language="en") for path in CLIPS]
    resources = replace(QUICK, threads=threads, decoders=threads)
    score(samples, ["dnsmos"], tmp_path, resources=resources, metrics={"dnsmos": metric("dnsmos")})
    scorer = make({})
    for sample in samples:
        source = read(sample.audio)
        piece = Piece(sample, resample(source.samples, source.rate_hz, RATE_HZ), RATE_HZ)
        (alone,) = scorer.score([piece])
        for name, figure in alone.figures.items():
            found = figures(tmp_path, "dnsmos", name)[sample.id]
            assert isinstance(figure, Value) and isinstance(found, Value)
            assert found.value == pytest.approx(figure.value, abs=1e-5)


def test_the_device_is_what_the_engine_says(monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    monkeypatch.delenv(DEVICE, raising=False)
    assert torch_device() == torch.device("cpu")
    if not torch.cuda.is_available():
        monkeypatch.setenv(DEVICE, "cuda")
        with pytest.raises(RuntimeError, match="finds no CUDA device"):
            torch_device()
