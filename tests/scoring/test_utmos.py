"""UTMOS22-strong against what the published code gives, alone and in batches, and checkpoints that are none."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from metrics.result import Value
from metrics.scoring import Piece, Sample
from metrics.speech_quality.utmos import metric as metric_module
from metrics.speech_quality.utmos.checkpoint import load
from metrics.speech_quality.utmos.metric import METRIC, identify
from metrics.speech_quality.utmos.model import Utmos22Strong, frames_of
from metrics.speech_quality.utmos.resample import resample_as_published
from metrics.speech_quality.utmos.scorer import Utmos, make
from sessions.errors import MissingWeights, SetupError
from tests.scoring.utmos_recipe import RATE_HZ, expected, state, wave

CPU = torch.device("cpu")
TOLERANCE = 1e-3
OWN = {"resampler": "soxr", "weights": ""}


@pytest.fixture(scope="module")
def stand_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("utmos") / "stand-in.pt"
    torch.save(state(), path)
    return path


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Test processes run side by side: threads of one that wait for one another's cores take many times longer."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def utmos(stand_in: Path) -> Utmos:
    return Utmos(load(stand_in, CPU))


def scores(utmos: Utmos, *sounds: np.ndarray[Any, np.dtype[np.float32]]) -> list[float]:
    return [opinion.figures["utmos"] for opinion in utmos.listen(sounds, [RATE_HZ] * len(sounds))]


@pytest.mark.parametrize("case", expected()["cases"], ids=lambda case: f"{case['seconds']} s")
def test_a_sound_alone_gets_the_published_score(utmos: Utmos, case: dict[str, Any]) -> None:
    sound = wave(case["seed"], case["seconds"])
    assert len(sound) == case["samples"]
    assert float(np.sum(sound, dtype=np.float64)) == pytest.approx(case["sum"])
    assert scores(utmos, sound) == [pytest.approx(case["score"], abs=TOLERANCE)]


@pytest.mark.parametrize("chosen", [slice(0, 4), slice(4, 6)], ids=["0.5 to 4 s", "7.3 and 12 s"])
def test_a_padded_batch_gets_the_published_scores(utmos: Utmos, chosen: slice) -> None:
    cases = expected()["cases"][chosen]
    sounds = [torch.from_numpy(wave(case["seed"], case["seconds"])) for case in cases]
    with torch.inference_mode():
        got = utmos._model(sounds).tolist()
    assert got == [pytest.approx(case["score"], abs=TOLERANCE) for case in cases]


def test_sixteen_at_once_in_any_order_get_what_each_gets_alone(utmos: Utmos) -> None:
    sounds = [wave(seed, 0.1 + 0.02 * seed) for seed in range(16)]
    alone = [scores(utmos, sound)[0] for sound in sounds]
    assert max(alone) - min(alone) > 0.1, "sounds that all get the same would prove nothing"
    assert scores(utmos, *sounds) == pytest.approx(alone, abs=TOLERANCE)
    assert scores(utmos, *sounds[::-1]) == pytest.approx(alone[::-1], abs=TOLERANCE)


def test_ten_runs_are_identical(utmos: Utmos) -> None:
    sounds = [wave(7, 0.1), wave(8, 0.15)]
    for sound in sounds:
        sound.setflags(write=False)  # as a mapped file is
    assert len({tuple(scores(utmos, *sounds)) for _ in range(10)}) == 1


def test_a_long_sound_is_judged_in_even_windows_and_says_so(utmos: Utmos) -> None:
    sound = wave(3, 1.5)
    (opinion,) = Utmos(utmos._model, longest_s=1).listen([sound], [RATE_HZ])
    halves = scores(utmos, sound[:12_000], sound[12_000:])
    assert opinion.figures["utmos"] == pytest.approx(sum(halves) / 2, abs=TOLERANCE)
    assert opinion.flags == ["windowed: 2 of 0.8 s"]


def test_passes_stay_within_their_bound_and_lose_nothing(utmos: Utmos) -> None:
    lengths = [RATE_HZ * seconds for seconds in (30, 2, 30, 5, 1, 29, 3, 30, 2)]
    passes = utmos._passes(lengths)
    assert sorted(place for places in passes for place in places) == list(range(len(lengths)))
    for places in passes:
        assert len(places) * max(lengths[place] for place in places) <= 64 * RATE_HZ


def test_frames_of_the_shortest_sounds() -> None:
    assert [frames_of(samples) for samples in (0, 9, 399, 400, 719, 720, 16_000)] == [0, 0, 0, 1, 1, 2, 49]


@pytest.mark.parametrize("case", expected("resampled")["cases"], ids=lambda case: f"{case['from_hz']} Hz")
def test_resampling_as_published(case: dict[str, Any]) -> None:
    got = resample_as_published(wave(case["seed"], case["seconds"]), case["from_hz"], RATE_HZ)
    assert got.dtype == np.float32
    assert len(got) == case["samples"]
    assert float(np.sum(got, dtype=np.float64)) == pytest.approx(case["sum"], abs=1e-3)
    assert float(np.sum(np.square(got, dtype=np.float64))) == pytest.approx(case["sum_of_squares"], abs=1e-3)
    for index, value in case["at"].items():
        assert got[int(index)] == pytest.approx(value, abs=1e-6)


def test_resampling_does_not_depend_on_how_much_is_reckoned_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    sound = wave(5, 0.2)
    whole = resample_as_published(sound, 24_000, RATE_HZ)
    monkeypatch.setattr("metrics.speech_quality.utmos.resample._AT_ONCE", 101)
    assert np.array_equal(whole, resample_as_published(sound, 24_000, RATE_HZ))


def test_as_published_hears_the_file_at_its_own_rate(stand_in: Path) -> None:
    options = {"resampler": "as-published", "weights": str(stand_in)}
    assert (METRIC.rate_for(options), METRIC.rate_for(OWN)) == (None, RATE_HZ)
    sound = wave(6, 0.4)
    piece = Piece(Sample("a", "a.wav", language="en"), sound, 24_000)
    scorer = make(options)
    (score,) = scorer.score([piece])
    at_16k = resample_as_published(sound, 24_000, RATE_HZ)
    (other,) = scorer.score([Piece(piece.sample, at_16k, RATE_HZ)])
    assert score.figures == other.figures
    assert isinstance(score.figures["utmos"], Value)
    assert score.flags == ["short: 0.27 s", "weights: not the published ones"]


def test_stand_in_weights_fail_the_self_check(utmos: Utmos, stand_in: Path) -> None:
    assert "must be at least 0.5 apart" in make({"resampler": "soxr", "weights": str(stand_in)}).check()


def test_its_identity_is_the_weights(stand_in: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (hash_,) = identify({"resampler": "soxr", "weights": str(stand_in)}).values()
    assert len(hash_) == 64
    with pytest.raises(MissingWeights, match="there is no file"):
        identify({"resampler": "soxr", "weights": str(tmp_path / "nowhere.pt")})
    monkeypatch.setenv("DUOLOGUE_HOME", str(tmp_path))
    monkeypatch.delenv("DUOLOGUE_WEIGHTS_UTMOS22_STRONG", raising=False)
    with pytest.raises(MissingWeights, match="Run: duologue weights fetch utmos22-strong"):
        identify(OWN)
    assert not metric_module.is_published(stand_in)


def test_a_damaged_copy_of_the_published_file_is_never_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "utmos22_strong_step7459_v1.pt").write_bytes(b"PK\3\4 cut short")
    monkeypatch.setenv("DUOLOGUE_WEIGHTS_UTMOS22_STRONG", str(tmp_path))
    with pytest.raises(SetupError, match="pinned is 38aa51ab"):
        identify(OWN)


def small_state() -> dict[str, torch.Tensor]:
    """The layout without the memory: every tensor is a view of one zero."""
    with torch.device("meta"):
        wanted = Utmos22Strong().state_dict()
    return {name: torch.zeros(()).expand(tensor.shape) for name, tensor in wanted.items()}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda s: s.pop("judge_emb"), "it lacks judge_emb"),
        (lambda s: [s.pop(name) for name in list(s)[5:]], "it lacks .*, .*, .* and 217 more"),
        (lambda s: s.update(head=torch.zeros(1)), "it has besides head"),
        (lambda s: s.update(domain_emb=torch.zeros(1, 64)), "it has domain_emb of 1×64 where 1×128 belongs"),
        (lambda s: s.update(epoch=3), "it holds .* instead"),
    ],
    ids=["lacks one", "lacks many", "has more", "another shape", "not only tensors"],
)
def test_another_layout_is_told_in_one_line(tmp_path: Path, change: Any, said: str) -> None:
    tensors: dict[str, Any] = small_state()
    change(tensors)
    torch.save(tensors, tmp_path / "other.pt")
    with pytest.raises(SetupError, match=f"other.pt is not a UTMOS22-strong checkpoint: {said}") as told:
        load(tmp_path / "other.pt", CPU)
    assert "\n" not in str(told.value)
    assert "duologue weights fetch utmos22-strong" in told.value.mend


def test_a_checkpoint_that_nests_its_weights_is_told(tmp_path: Path) -> None:
    torch.save({"state_dict": {"a": torch.zeros(1)}, "epoch": 1}, tmp_path / "nested.pt")
    with pytest.raises(SetupError, match="it holds state_dict, epoch instead"):
        load(tmp_path / "nested.pt", CPU)
    torch.save([torch.zeros(1)], tmp_path / "list.pt")
    with pytest.raises(SetupError, match="it holds no tensors by name"):
        load(tmp_path / "list.pt", CPU)


@pytest.mark.parametrize("kept", [0, 100, 0.5, 0.999], ids=["empty", "100 bytes", "half", "all but the end"])
def test_a_truncated_checkpoint_is_told_in_one_line(tmp_path: Path, kept: float) -> None:
    torch.save({"a": torch.zeros(10_000)}, tmp_path / "whole.pt")
    raw = (tmp_path / "whole.pt").read_bytes()
    cut = tmp_path / "cut.pt"
    cut.write_bytes(raw[: int(kept * len(raw)) if kept < 1 else int(kept)])
    with pytest.raises(SetupError, match=r"cut\.pt \([0-9,]+ bytes\) as a checkpoint: it is cut short") as told:
        load(cut, CPU)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("seed", range(20))
def test_a_file_that_is_something_else_is_told_in_one_line(tmp_path: Path, seed: int) -> None:
    """torch reads some of them far enough to trip over them in ways of its own."""
    (tmp_path / "sound.wav").write_bytes(b"RIFF" + bytes(random.Random(seed).choices(range(256), k=200)))
    with pytest.raises(SetupError, match="no checkpoint of tensors"):
        load(tmp_path / "sound.wav", CPU)


class Evil:
    def __reduce__(self) -> tuple[Any, ...]:
        return (Path("ran-by-the-checkpoint").touch, ())


def test_a_checkpoint_runs_no_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    torch.save({"a": Evil()}, "evil.pt")
    with pytest.raises(SetupError, match="no checkpoint of tensors"):
        load(Path("evil.pt"), CPU)
    assert not Path("ran-by-the-checkpoint").exists()


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"cannot read .*nowhere\.pt"):
        load(tmp_path / "nowhere.pt", CPU)
    with pytest.raises(SetupError, match="cannot read"):
        load(tmp_path, CPU)
