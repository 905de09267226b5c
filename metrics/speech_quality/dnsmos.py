"""DNSMOS P.835 and P.808: what listeners would say of speech, of the background and of both, after noise suppression.

Models: Microsoft's, as the package `speechmos` 0.0.1.1 ships them (C. K. A. Reddy, V. Gopal, R. Cutler: "DNSMOS P.835",
arXiv:2110.01763; "DNSMOS", arXiv:2010.15258). The numbers are those of `speechmos.dnsmos.run`, to 1e-4.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from metrics.mel import power_mel
from metrics.scoring import Figure, FloatPcm, Metric, Options, Scorer
from metrics.scoring.extras import require, weight_hashes
from metrics.speech_quality.onnx import session
from metrics.speech_quality.opinion import MosScorer, Opinion
from metrics.speech_quality.windows import spread
from sessions.weights import folder

RATE_HZ = 16_000
_WINDOW_S = 9.01
_WINDOW_SAMPLES = 144_160
_P808_CUT_SAMPLES = 160
_MOST_WINDOWS = 600
_MELS, _FFT_SAMPLES = 120, 321
_FLOOR, _RANGE_DB = 1e-10, 80.0
# From the model's outputs to the listeners' scale, highest power first (arXiv:2110.01763's published calibration).
_SIG = (-0.08397278, 1.22083953, 0.0052439)
_BAK = (-0.13166888, 1.60915514, -0.39604546)
_OVRL = (-0.06766283, 1.11546468, 0.04602535)

_SOURCE = "mean over 9.01 s windows, one per second"
METRIC = Metric(
    name="dnsmos",
    version="1",
    purpose="DNSMOS: speech, background and overall quality, from a model made for noise suppression",
    figures=(
        Figure("dnsmos_ovrl", "MOS", "higher", "DNSMOS overall", f"P.835 OVRL, {_SOURCE}; arXiv:2110.01763"),
        Figure("dnsmos_sig", "MOS", "higher", "DNSMOS speech", f"P.835 SIG, {_SOURCE}; arXiv:2110.01763"),
        Figure("dnsmos_bak", "MOS", "higher", "DNSMOS background", f"P.835 BAK, {_SOURCE}; arXiv:2110.01763"),
        Figure("dnsmos_p808", "MOS", "higher", "DNSMOS P.808", f"P.808 MOS, {_SOURCE}; arXiv:2010.15258"),
    ),
    make="metrics.speech_quality.dnsmos:make",
    identify="metrics.speech_quality.dnsmos:identify",
    rate_hz=RATE_HZ,
    reads=(),
    languages=("en",),
    extra="mos",
    batch=8,
)


def identify(options: Options) -> dict[str, str]:
    """Raises `MissingExtra`, `MissingWeights`."""
    require("onnxruntime", "mos")
    return weight_hashes("dnsmos")


def make(options: Options) -> Scorer:
    return MosScorer(METRIC, Dnsmos(folder("dnsmos")), "dnsmos_ovrl", margin=1.0)


class Dnsmos:
    """models: the folder with sig_bak_ovr.onnx and model_v8.onnx."""

    def __init__(self, models: Path) -> None:
        self._p835 = session(models / "sig_bak_ovr.onnx")
        self._p808 = session(models / "model_v8.onnx")

    def listen(self, sounds: Sequence[FloatPcm], rates_hz: Sequence[int]) -> list[Opinion]:
        """At 16 kHz. A sound shorter than 9.01 s is repeated, doubling, until it is that long, as published."""
        return [self._opinion(sound) for sound in sounds]

    def _opinion(self, sound: FloatPcm) -> Opinion:
        while len(sound) < _WINDOW_SAMPLES:
            sound = np.append(sound, sound)
        starts, flags = spread(window_starts(len(sound)), _MOST_WINDOWS)
        rows = [self._row(sound[start : start + _WINDOW_SAMPLES]) for start in starts]
        sig, bak, ovrl, p808 = (float(value) for value in np.mean(rows, axis=0))
        figures = {"dnsmos_sig": sig, "dnsmos_bak": bak, "dnsmos_ovrl": ovrl, "dnsmos_p808": p808}
        return Opinion(figures, flags)

    def _row(self, window: FloatPcm) -> list[float]:
        """SIG, BAK, OVRL, P.808 of one window: on a CPU several at once are no faster, and take 0.2 GB each."""
        (raw,) = self._p835.run(None, {"input_1": window[None]})[0]
        mel = (log_mel_db(window[:-_P808_CUT_SAMPLES]) + 40) / 40
        ((p808,),) = self._p808.run(None, {"input_1": mel[None]})[0]
        scaled = [float(np.polyval(curve, value)) for curve, value in zip((_SIG, _BAK, _OVRL), raw, strict=True)]
        return [*scaled, float(p808)]


def log_mel_db(samples: FloatPcm) -> FloatPcm:
    """dB below the sound's own loudest bin, at most 80, as P.808's model was trained on (librosa's `power_to_db`).

    float32 (n,) at 16 kHz → float32 (1 + (n − 1) // 160, 120).
    """
    level_db = 10 * np.log10(np.maximum(power_mel(samples, fft_samples=_FFT_SAMPLES, mels=_MELS), _FLOOR))
    below_db: FloatPcm = np.maximum(level_db - level_db.max(), -_RANGE_DB)
    return below_db


def window_starts(samples: int) -> list[int]:
    """Where the windows of a sound of so many samples begin.

    The published loop reckons in seconds, in floating point, and leaves out a window that its rounding makes a sample
    short; so does this one.
    """
    hops = int(samples // RATE_HZ - _WINDOW_S) + 1
    begins = [hop * RATE_HZ for hop in range(hops)]
    ends = [int((hop + _WINDOW_S) * RATE_HZ) for hop in range(hops)]
    return [begin for begin, end in zip(begins, ends, strict=True) if min(end, samples) - begin >= _WINDOW_SAMPLES]
