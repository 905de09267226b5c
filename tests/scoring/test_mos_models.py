"""DNSMOS, PLCMOS and Distill-MOS against their published code; what a model of opinion must never do."""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import itertools
import math
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import soundfile
import torch

from harness.score.table import metric
from metrics.mel import mel_filters
from metrics.result import Failed, Measured, Unavailable, Value
from metrics.scoring import Figure, FloatPcm, Metric, Piece, Sample, Score, Scorer
from metrics.scoring.device import torch_device
from metrics.speech_quality import distillmos, dnsmos, plcmos
from metrics.speech_quality.known_pair import known_pair
from metrics.speech_quality.opinion import MosScorer, Opinion, loudest_dbfs, peak_of, within_full_scale
from metrics.speech_quality.windows import even_cuts, mean_by_length, spread, windowed
from sessions.audio import read
from sessions.errors import MissingExtra, MissingWeights
from tools.scoring_environment import problems

RATE_HZ = 16_000
CLEAN, NOISY = known_pair()
NAMES = ("dnsmos", "plcmos", "distillmos")
HEADLINE = {"dnsmos": "dnsmos_ovrl", "plcmos": "plcmos", "distillmos": "distillmos"}
MODULES: dict[str, ModuleType] = {"dnsmos": dnsmos, "plcmos": plcmos, "distillmos": distillmos}
each = pytest.mark.parametrize("name", NAMES)


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """Test processes run side by side: threads of one that wait for one another's cores take many times longer."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def scorers(one_thread: None) -> dict[str, Scorer]:
    return {name: MODULES[name].make({}) for name in NAMES}


def piece(samples: FloatPcm, language: str = "en") -> Piece:
    return Piece(Sample("a", "a.wav", language=language), np.asarray(samples, np.float32), RATE_HZ)


def value(score: Score, figure: str) -> float:
    got = score.figures[figure]
    assert isinstance(got, Value), got
    return got.value


def one(scorer: Scorer, samples: FloatPcm) -> Score:
    (score,) = scorer.score([piece(samples)])
    return score


def stretched(seconds: float) -> FloatPcm:
    """So much speech, the clean sentence over and over."""
    return np.resize(CLEAN.samples, int(seconds * RATE_HZ))


@each
def test_clean_speech_is_above_noise_as_loud_as_itself_at_any_gain(scorers: dict[str, Scorer], name: str) -> None:
    scorer, figure = scorers[name], HEADLINE[name]
    assert scorer.check() == ""
    clean, noisy, soft, soft_noisy = (
        value(score, figure)
        for score in scorer.score([CLEAN, NOISY, piece(CLEAN.samples * 0.1), piece(NOISY.samples * 0.1)])
    )
    assert clean - noisy > 0.7
    assert soft - soft_noisy > 0.7
    assert abs(clean - soft) < 0.5, "a gain is no change of scale"


@each
def test_int16_and_float_files_get_the_same(scorers: dict[str, Scorer], name: str, tmp_path: Path) -> None:
    steps = np.rint(CLEAN.samples * 32767).astype(np.int16)
    soundfile.write(tmp_path / "a.wav", steps, RATE_HZ, subtype="PCM_16")
    soundfile.write(tmp_path / "b.wav", steps.astype(np.float32) / 32768, RATE_HZ, subtype="FLOAT")
    sounds = [read(tmp_path / f"{file}.wav").samples for file in "ab"]
    first, second = scorers[name].score([piece(sound) for sound in sounds])
    assert first.figures == second.figures


@each
def test_ten_runs_alone_in_a_batch_and_in_another_order_are_the_same(scorers: dict[str, Scorer], name: str) -> None:
    scorer, figure = scorers[name], HEADLINE[name]
    pieces = [CLEAN, NOISY, piece(stretched(1.3)), piece(stretched(0.3) * 0.5)]
    alone = [value(scorer.score([each])[0], figure) for each in pieces]
    order = [0, 1, 0, 0, 2, 0, 0, 3, 0, 0, 1, 0, 0, 2, 0, 3]
    sixteen = [value(score, figure) for score in scorer.score([pieces[place] for place in order])]
    assert sixteen == pytest.approx([alone[place] for place in order], abs=1e-3)
    runs = {got for got, place in zip(sixteen, order, strict=True) if place == 0}
    assert len(runs) == 1, "one sound, ten times"
    assert value(one(scorer, CLEAN.samples), figure) == alone[0]


@pytest.mark.parametrize("seconds", [0.5, 2.3, 9.01, 12.7])
def test_dnsmos_is_what_the_published_code_gives(scorers: dict[str, Scorer], seconds: float) -> None:
    import speechmos.dnsmos

    sound = stretched(seconds)
    published = speechmos.dnsmos.run(sound, RATE_HZ)
    score = one(scorers["dnsmos"], sound)
    for figure in ("ovrl", "sig", "bak", "p808"):
        assert value(score, f"dnsmos_{figure}") == pytest.approx(float(published[f"{figure}_mos"]), abs=1e-4)


@pytest.mark.parametrize("sound", [CLEAN.samples, NOISY.samples, CLEAN.samples[:5000]], ids=["clean", "noisy", "0.3 s"])
def test_plcmos_is_what_the_published_code_gives_to_the_same_listeners(
    scorers: dict[str, Scorer], sound: FloatPcm
) -> None:
    import speechmos.plcmos

    np.random.seed(0)  # the published code draws its listeners from this generator
    published = speechmos.plcmos.run(sound, RATE_HZ)["plcmos"]
    assert value(one(scorers["plcmos"], sound), "plcmos") == pytest.approx(published, abs=1e-4)


def test_a_silent_window_of_a_long_sound_is_heard_as_the_published_code_hears_silence(
    scorers: dict[str, Scorer], monkeypatch: pytest.MonkeyPatch
) -> None:
    import speechmos.plcmos

    silence = np.zeros(RATE_HZ, np.float32)
    published = speechmos.plcmos.PLCMOS().stft_transform(silence)
    np.testing.assert_allclose(plcmos.log_spectrum(silence), published, rtol=1e-6)
    monkeypatch.setattr(plcmos, "LONGEST_S", 3)
    score = one(scorers["plcmos"], np.concatenate((CLEAN.samples, np.zeros(6 * RATE_HZ, np.float32))))
    assert score.flags == ["windowed: 3 of 2.8 s"]
    assert 1 <= value(score, "plcmos") <= 5


def test_distillmos_is_what_the_published_code_gives(scorers: dict[str, Scorer]) -> None:
    with distillmos._without_torchaudio(), contextlib.redirect_stdout(io.StringIO()):
        published = importlib.import_module("distillmos").ConvTransformerSQAModel().eval()
    for sound in (CLEAN.samples, stretched(9.4)):
        with torch.no_grad():
            (wanted,) = published(torch.from_numpy(sound)[None]).flatten().tolist()
        assert value(one(scorers["distillmos"], sound), "distillmos") == pytest.approx(wanted, abs=1e-4)


def test_no_torchaudio_is_left_behind(scorers: dict[str, Scorer]) -> None:
    assert "distillmos" in sys.modules
    assert "torchaudio" not in sys.modules
    assert importlib.util.find_spec("torchaudio") is None


def test_this_environment_is_the_one_that_was_made() -> None:
    cuda_is_here = torch.version.cuda is not None
    assert problems(cuda_is_meant=cuda_is_here) == []
    assert any(torch.__version__ in told for told in problems(cuda_is_meant=not cuda_is_here))


def test_no_device_rounds_what_is_multiplied() -> None:
    torch.backends.cudnn.allow_tf32 = True
    torch_device()
    assert not torch.backends.cudnn.allow_tf32
    assert not torch.backends.cuda.matmul.allow_tf32


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_the_mel_spectrogram_is_that_of_librosa() -> None:
    import librosa

    sound = stretched(1.5)
    wanted = librosa.feature.melspectrogram(y=sound, sr=RATE_HZ, n_fft=321, hop_length=160, n_mels=120)
    assert mel_filters(321, 120) == pytest.approx(librosa.filters.mel(sr=RATE_HZ, n_fft=321, n_mels=120), abs=1e-6)
    wanted_db = librosa.power_to_db(wanted, ref=np.max)
    assert np.abs(dnsmos.log_mel_db(sound).T - wanted_db).max() < 1e-2


def test_dnsmos_hears_the_windows_of_the_published_loop() -> None:
    fs, length = RATE_HZ, 9.01
    for samples in (144_160, 160_000, 175_999, 176_000, 480_001, 1_000_000):
        wanted = []
        for hop in range(int(np.floor(samples / fs) - length) + 1):
            begin, end = int(hop * fs), min(samples, int((hop + length) * fs))
            if end - begin >= int(length * fs):
                wanted.append(begin)
        assert dnsmos.window_starts(samples) == wanted


BAD: dict[str, tuple[Callable[[], FloatPcm], str]] = {
    "0.1 s": (lambda: stretched(0.1), "too short: under 0.2 s"),
    "one sample": (lambda: stretched(1 / RATE_HZ), "too short: under 0.2 s"),
    "zeros": (lambda: np.zeros(RATE_HZ, np.float32), "silence: nothing is louder than -60 dBFS"),
    "an offset": (lambda: np.full(RATE_HZ, 0.3, np.float32), "silence: nothing is louder than -60 dBFS"),
    "hiss": (lambda: CLEAN.samples * np.float32(1e-3), "silence: nothing is louder than -60 dBFS"),
    "integers": (lambda: np.rint(CLEAN.samples * 32768), "wrong scale: the peak is 16"),
}


@each
@pytest.mark.parametrize("case", BAD)
def test_what_no_model_can_judge_has_a_reason_and_no_number(scorers: dict[str, Scorer], name: str, case: str) -> None:
    make, because = BAD[case]
    good, bad = scorers[name].score([CLEAN, piece(make())])
    assert isinstance(good.figures[HEADLINE[name]], Value), "the others of the batch are scored"
    for figure in bad.figures.values():
        assert isinstance(figure, Unavailable)
        assert figure.because.startswith(because)


def test_an_hour_is_not_copied() -> None:
    hour = np.lib.stride_tricks.as_strided(CLEAN.samples, (3600 * RATE_HZ,), (0,))  # takes no memory
    assert within_full_scale(hour) is hour
    assert peak_of(hour) == abs(hour[0])


def test_the_loudest_block_is_found_wherever_it_lies() -> None:
    sound = np.zeros(200 * RATE_HZ + 7, np.float32)
    assert loudest_dbfs(sound, RATE_HZ) == -math.inf
    sound[-RATE_HZ:] = CLEAN.samples[:RATE_HZ]
    assert loudest_dbfs(sound, RATE_HZ) == pytest.approx(loudest_dbfs(sound[-RATE_HZ - 167 :], RATE_HZ), abs=1.5)
    assert loudest_dbfs(CLEAN.samples[:3], RATE_HZ) < -30


@each
def test_an_overshoot_of_full_scale_is_clipped(scorers: dict[str, Scorer], name: str) -> None:
    loud = CLEAN.samples / np.abs(CLEAN.samples).max() * 1.2
    assert one(scorers[name], loud).figures == one(scorers[name], np.clip(loud, -1, 1)).figures


@each
def test_a_short_sound_is_flagged(scorers: dict[str, Scorer], name: str) -> None:
    assert one(scorers[name], stretched(0.5)).flags == ["short: 0.50 s"]


def test_a_long_sound_takes_windows_of_bounded_number(
    scorers: dict[str, Scorer], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dnsmos, "_MOST_WINDOWS", 2)
    monkeypatch.setattr(distillmos, "_MOST_WINDOWS", 2)
    monkeypatch.setattr(plcmos, "LONGEST_S", 5)
    sound = stretched(14)
    assert one(scorers["dnsmos"], sound).flags == ["sampled: 2 of 5 windows"]
    assert one(scorers["distillmos"], sound).flags == ["sampled: 2 of 8 windows"]
    score = one(scorers["plcmos"], sound)
    assert score.flags == ["windowed: 3 of 4.7 s"]
    thirds = [
        value(one(scorers["plcmos"], sound[start:stop]), "plcmos") for start, stop in even_cuts(len(sound), 80_000)
    ]
    assert value(score, "plcmos") == pytest.approx(sum(thirds) / 3, abs=1e-4)


def test_even_cuts_cover_all_and_differ_by_a_sample_at_most() -> None:
    for samples in (1, 9, 10, 11, 20, 21, 99, 1001):
        cuts = even_cuts(samples, 10)
        assert [cuts[0][0], cuts[-1][1]] == [0, samples]
        assert all(stop == start for (_, stop), (start, _) in itertools.pairwise(cuts))
        lengths = [stop - start for start, stop in cuts]
        assert max(lengths) <= 10
        assert max(lengths) - min(lengths) <= 1
        assert len(cuts) == math.ceil(samples / 10)
    assert mean_by_length([1.0, 4.0], [(0, 2), (2, 3)]) == 2.0
    assert windowed([(0, 5)], 1) == []


def test_spread_keeps_the_first_and_the_last() -> None:
    assert spread([0, 1, 2], 3) == ([0, 1, 2], [])
    assert spread(list(range(101)), 3) == ([0, 50, 100], ["sampled: 3 of 101 windows"])


@each
def test_its_identity_is_the_hashes_of_its_weights(name: str) -> None:
    hashes = [value for key, value in MODULES[name].identify({}).items() if key.startswith("weights ")]
    assert hashes
    assert all(re.fullmatch(r"[0-9a-f]{64}", one) for one in hashes)


def test_a_package_that_is_not_there_is_told_with_its_mend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=re.escape("pip install 'duologue[mos]'")):
        dnsmos.identify({})
    with pytest.raises(MissingExtra, match="Run: make score"):
        distillmos.identify({})


def test_weights_that_are_nowhere_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DUOLOGUE_HOME", str(tmp_path))
    monkeypatch.setattr("sessions.weights.store._package_folder", lambda weight: None)
    with pytest.raises(MissingWeights, match="Run: duologue weights fetch plcmos"):
        plcmos.identify({})


@pytest.mark.parametrize("name", [*NAMES, "utmos"])
def test_each_is_called_by_its_own_name(name: str) -> None:
    known = metric(name)
    assert known.name == name
    assert (name == "utmos") == any("UTMOS" in figure.title for figure in known.figures)
    assert known.languages == ("en",)


MADE_UP = Metric("made-up", "1", "a model of a test", (Figure("made_up", "MOS", "higher", "Made up", "none"),))


class MadeUp:
    """Gives what it is told to, one number per sound."""

    def __init__(self, *given: float) -> None:
        self._given = given

    def listen(self, sounds: Sequence[FloatPcm], rates_hz: Sequence[int]) -> list[Opinion]:
        return [Opinion({"made_up": given}) for given, _ in zip(self._given, sounds, strict=True)]


@pytest.mark.parametrize(
    ("clean", "noisy", "passes"),
    [(4, 2, True), (3, 3, False), (2, 4, False), (math.nan, 2, False), (4, math.nan, False)],
)
def test_a_model_that_cannot_tell_noise_from_speech_fails_its_check(clean: float, noisy: float, passes: bool) -> None:
    said = MosScorer(MADE_UP, MadeUp(clean, noisy), "made_up", margin=1.0).check()
    assert (said == "") == passes
    assert passes or said == (
        f"clean speech gets {clean:.2f}, the same under noise at 0 dB {noisy:.2f}; they must be at least 1 apart"
    )


@pytest.mark.parametrize("given", [math.nan, math.inf])
def test_what_is_no_number_is_an_error_and_never_a_value(given: float) -> None:
    (score,) = MosScorer(MADE_UP, MadeUp(given), "made_up", margin=1.0).score([CLEAN])
    wanted: dict[str, Measured] = {"made_up": Failed(f"the model gave {given}")}
    assert score.figures == wanted


def test_the_pair_is_at_0_db() -> None:
    noise = NOISY.samples.astype(np.float64) - CLEAN.samples
    power_db = 10 * math.log10(float(np.mean(np.square(CLEAN.samples, dtype=np.float64)) / np.mean(noise**2)))
    assert power_db == pytest.approx(0.0, abs=0.2)
    assert CLEAN.duration_s == pytest.approx(2.37, abs=0.01)


def test_the_example_of_the_manual_is_a_metric(monkeypatch: pytest.MonkeyPatch) -> None:
    manual = (Path(__file__).parent.parent.parent / "docs" / "speech-quality.md").read_text()
    (example,) = re.findall(r"```python\n(# crest_mos\.py.*?)```", manual, re.DOTALL)
    assert len(example.splitlines()) <= 30
    module = ModuleType("crest_mos")
    monkeypatch.setitem(sys.modules, "crest_mos", module)
    exec(compile(example, "crest_mos.py", "exec"), module.__dict__)
    described: Any = module.__dict__["METRIC"]
    assert isinstance(described, Metric)
    target, _, attribute = described.make.partition(":")
    scorer = getattr(sys.modules[target], attribute)({})
    assert scorer.check() == ""
    clean, silent = scorer.score([CLEAN, piece(np.zeros(RATE_HZ, np.float32))])
    assert isinstance(clean.figures[described.figures[0].name], Value)
    assert isinstance(silent.figures[described.figures[0].name], Unavailable)
