"""PLCMOS v2: what listeners would say of speech whose lost packets were concealed.

Model: Microsoft's, as the package `speechmos` 0.0.1.1 ships it (L. Diener, M. Purin, S. Sootla, A. Saabas, R. Aichner,
R. Cutler: "PLCMOS", arXiv:2305.15127). The model is told who listens; a score is the mean over 15 listeners drawn from
a normal distribution. As published they are drawn anew for each sound, so that two runs differ by about 0.01; here the
same 15 listen to every sound: the numbers are those of `speechmos.plcmos.run` after `numpy.random.seed(0)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from metrics.scoring import Figure, FloatPcm, Metric, Options, Scorer
from metrics.scoring.extras import require, weight_hashes
from metrics.speech_quality.onnx import session
from metrics.speech_quality.opinion import MosScorer, Opinion
from metrics.speech_quality.windows import even_cuts, mean_by_length, windowed
from sessions.weights import folder

RATE_HZ = 16_000
LONGEST_S = 30
_FFT_SAMPLES = 512
_HOP_SAMPLES = 256
_LISTENERS = 15
_SEED = 0
_TRAITS = 64

METRIC = Metric(
    name="plcmos",
    version="1",
    purpose="PLCMOS: how much gaps and their concealment are heard",
    figures=(
        Figure(
            "plcmos",
            "MOS",
            "higher",
            "PLCMOS v2",
            f"mean over the same {_LISTENERS} listeners, windows of at most {LONGEST_S} s by length; arXiv:2305.15127",
        ),
    ),
    make="metrics.speech_quality.plcmos:make",
    identify="metrics.speech_quality.plcmos:identify",
    rate_hz=RATE_HZ,
    reads=(),
    languages=("en",),
    extra="mos",
    batch=8,
)


def identify(options: Options) -> dict[str, str]:
    """Raises `MissingExtra`, `MissingWeights`."""
    require("onnxruntime", "mos")
    return {**weight_hashes("plcmos"), "listeners": f"{_LISTENERS} of seed {_SEED}"}


def make(options: Options) -> Scorer:
    return MosScorer(METRIC, Plcmos(folder("plcmos")), "plcmos", margin=0.7)


class Plcmos:
    """models: the folder with plcmos_v2.onnx."""

    def __init__(self, models: Path) -> None:
        self._model = session(models / "plcmos_v2.onnx")
        drawn = np.random.RandomState(_SEED).normal(size=(_LISTENERS, 1, _TRAITS))
        self._listeners = drawn.astype(np.float32)

    def listen(self, sounds: Sequence[FloatPcm], rates_hz: Sequence[int]) -> list[Opinion]:
        """At 16 kHz. What is longer than 30 s is cut evenly and said so."""
        return [self._opinion(sound) for sound in sounds]

    def _opinion(self, sound: FloatPcm) -> Opinion:
        cuts = even_cuts(len(sound), LONGEST_S * RATE_HZ)
        mos = mean_by_length((self._mos(sound[start:stop]) for start, stop in cuts), cuts)
        return Opinion({"plcmos": mos}, windowed(cuts, RATE_HZ))

    def _mos(self, sound: FloatPcm) -> float:
        spectrum = log_spectrum(sound)[None, None]
        heard = [
            self._model.run(None, {"degraded_audio": spectrum, "rater_embed": listener})[0]
            for listener in self._listeners
        ]
        return float(np.mean(np.asarray(heard, dtype=np.float64)))


def log_spectrum(sound: FloatPcm) -> FloatPcm:
    """What the model hears: the log power of each amplitude's spectrum over 20, as float32 (frames, 257).

    Frames of 512 samples under a periodic Hamming window, one per 256; the first begins 256 samples before the sound,
    the last is filled with zeros. Bins of no power are put 120 dB below the smallest power that there is; where
    there is none at all, as in a silent window of a long sound, all are at −80 dB.
    """
    frames = -(-(len(sound) + _HOP_SAMPLES) // _HOP_SAMPLES)
    padded = np.zeros((frames - 1) * _HOP_SAMPLES + _FFT_SAMPLES, np.float32)
    padded[_HOP_SAMPLES : _HOP_SAMPLES + len(sound)] = sound
    window = np.hamming(_FFT_SAMPLES + 1)[:-1]
    spectrum = np.fft.rfft(np.lib.stride_tricks.sliding_window_view(padded, _FFT_SAMPLES)[::_HOP_SAMPLES] * window)
    power = np.abs(spectrum) ** 2
    some = power > 0
    log = np.log(power, out=np.zeros_like(power), where=some)
    log[~some] = log[some].min() - 12 * np.log(10) if some.any() else -8 * np.log(10)
    scaled: FloatPcm = (log / 20).astype(np.float32)
    return scaled
