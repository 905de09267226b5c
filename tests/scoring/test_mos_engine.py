"""Models of opinion run by the engine: how many read the files and in which order they come changes no score."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

from harness.score.engine import Resources, ScoreStore
from harness.score.table import METRICS, metric
from metrics.scoring import FloatPcm, Sample
from metrics.speech_quality.known_pair import known_pair
from tests.scoring.engine_rig import Memory, figures, score, told

CLEAN, NOISY = (piece.samples for piece in known_pair())
SHIPPED = {name: metric(name) for name in METRICS if name in ("dnsmos", "plcmos", "utmos", "distillmos")}


def put(folder: Path, name: str, sound: FloatPcm, rate_hz: int = 16_000, language: str = "en") -> Sample:
    soundfile.write(folder / f"{name}.wav", sound, rate_hz, subtype="FLOAT")
    return Sample(name, str(folder / f"{name}.wav"), language=language)


def test_readers_and_order_change_no_score_and_bad_sounds_are_named(tmp_path: Path) -> None:
    samples = [
        put(tmp_path, "clean", CLEAN),
        put(tmp_path, "noisy", NOISY),
        put(tmp_path, "soft", CLEAN * np.float32(0.1)),
        put(tmp_path, "other language", CLEAN[:24_000], language="zh-CN"),
        put(tmp_path, "0.1 s", CLEAN[:1600]),
        put(tmp_path, "silence", np.zeros(16_000, np.float32)),
        Sample("no file", str(tmp_path / "none.wav")),
    ]
    runs = []
    for folder, decoders, order in (("one", 1, samples), ("two", 2, samples[::-1])):
        resources = Resources(decoders=decoders, threads=1)
        score(order, ["plcmos"], tmp_path / folder, resources=resources, metrics=SHIPPED)
        runs.append({sample: told(got) for sample, got in figures(tmp_path / folder, "plcmos").items()})
    first, second = runs
    assert first == second
    clean, noisy, soft = first["clean"], first["noisy"], first["soft"]
    assert isinstance(clean, float) and isinstance(noisy, float) and isinstance(soft, float)
    assert clean - noisy > 0.7 and soft - noisy > 0.7
    assert first["0.1 s"] == "unavailable because too short: under 0.2 s"
    assert first["silence"] == "unavailable because silence: nothing is louder than -60 dBFS"
    assert str(first["no file"]).startswith("error: ")
    flags = {line.sample: line.score.flags for line in ScoreStore(tmp_path / "one").lines("plcmos")}
    assert flags["other language"] == ["out-of-domain: zh-CN"]
    assert flags["clean"] == flags["silence"] == []


@pytest.mark.parametrize(("resampler", "rate_hz"), [("soxr", 16_000.0), ("as-published", 24_000.0)])
def test_utmos_hears_16_khz_or_as_published_the_files_own_rate(tmp_path: Path, resampler: str, rate_hz: float) -> None:
    rate_heard = replace(SHIPPED["utmos"], make="tests.scoring.mos_metrics:make_rate_heard", identify="")
    options = {"utmos": {"resampler": resampler}}
    sample = put(tmp_path, "a", CLEAN, rate_hz=24_000)
    score([sample], ["utmos"], tmp_path / "scores", options=options, metrics={"utmos": rate_heard})
    assert told(figures(tmp_path / "scores", "utmos")["a"]) == rate_hz


def test_a_checkpoint_that_is_none_is_named_under_every_sample(tmp_path: Path) -> None:
    (tmp_path / "cut.pt").write_bytes(b"PK\3\4 and no more")
    options = {"utmos": {"weights": str(tmp_path / "cut.pt")}}
    samples = [put(tmp_path, "a", CLEAN), put(tmp_path, "b", NOISY)]
    memory = score(samples, ["utmos"], tmp_path / "scores", options=options, metrics=SHIPPED)
    for got in figures(tmp_path / "scores", "utmos").values():
        assert "cut.pt (16 bytes) as a checkpoint: it is cut short" in str(told(got))
    assert said_once(memory, "cut short")


def test_weights_that_are_not_here_make_it_unavailable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DUOLOGUE_HOME", str(tmp_path))
    monkeypatch.delenv("DUOLOGUE_WEIGHTS_UTMOS22_STRONG", raising=False)
    memory = score([put(tmp_path, "a", CLEAN)], ["utmos"], tmp_path / "scores", metrics=SHIPPED)
    got = str(told(figures(tmp_path / "scores", "utmos")["a"]))
    assert got.startswith("unavailable because weights 'utmos22-strong' are missing")
    assert got.endswith("Run: duologue weights fetch utmos22-strong")
    assert said_once(memory, "utmos22-strong")


def said_once(memory: Memory, text: str) -> bool:
    return sum(text in remark for remark in memory.remarks) == 1
