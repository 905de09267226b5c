"""The metric `utmos`, described; its model is loaded by `metrics.speech_quality.utmos.scorer`."""

from __future__ import annotations

from pathlib import Path

from metrics.scoring import Figure, Metric, Option, Options
from metrics.scoring.extras import require, weight_hashes
from sessions.errors import MissingWeights
from sessions.weights import File, Store, folder
from sessions.weights.store import sha256_of

RATE_HZ = 16_000
WEIGHTS = "utmos22-strong"
LONGEST_S = 30
LONGEST_AS_PUBLISHED_S = 120
"""The published code hears everything whole; beyond this it would take gigabytes."""
AS_PUBLISHED = "as-published"

METRIC = Metric(
    name="utmos",
    version="1",
    purpose="UTMOS22-strong: naturalness of synthetic speech, with the model that URO-Bench uses",
    figures=(
        Figure(
            "utmos",
            "MOS",
            "higher",
            "UTMOS22-strong",
            f"mean over time × 2 + 3, windows of at most {LONGEST_S} s (as-published {LONGEST_AS_PUBLISHED_S} s) by "
            "length; arXiv:2204.02152, tarepan/SpeechMOS v1.2.0",
        ),
    ),
    make="metrics.speech_quality.utmos.scorer:make",
    identify="metrics.speech_quality.utmos.metric:identify",
    options=(
        Option(
            "resampler", "soxr", "to 16 kHz: soxr, or the windowed sinc of the published code", ("soxr", AS_PUBLISHED)
        ),
        Option("weights", "", "a checkpoint of your own (file); its scores are flagged unless it is the published one"),
    ),
    rate_hz=RATE_HZ,
    own_rate_with=("resampler", AS_PUBLISHED),
    reads=(),
    languages=("en",),
    extra="score",
    on_device=True,
    batch=16,
    pads=True,
)


def identify(options: Options) -> dict[str, str]:
    """Raises `MissingExtra`, `MissingWeights`."""
    require("torch", METRIC.extra, "Run: make score")
    if not options["weights"]:
        return weight_hashes(WEIGHTS)
    path = checkpoint(options)
    if not path.is_file():
        raise MissingWeights(f"there is no file {path}", "Name a checkpoint of UTMOS22-strong, or none")
    return {f"weights {path.name}": sha256_of(path)}


def checkpoint(options: Options) -> Path:
    """The file with the weights. Raises `MissingWeights`."""
    given = options["weights"]
    return Path(given).expanduser() if given else folder(WEIGHTS) / _published().name


def is_published(path: Path) -> bool:
    return path.stat().st_size == _published().size_bytes and sha256_of(path) == _published().sha256


def _published() -> File:
    (file,) = Store().entry(WEIGHTS).files
    return file
