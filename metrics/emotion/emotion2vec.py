"""`emotion`: how likely each of nine emotions is, by emotion2vec+ through funasr.

Z. Ma, Z. Zheng, J. Ye and others: "emotion2vec: Self-Supervised Pre-Training for Speech Emotion Representation",
arXiv:2312.15185. As URO-Bench runs it: the whole utterance, a softmax over nine classes, indexed by position.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import logging
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from metrics.emotion.labels import EMOTIONS, refusal
from metrics.emotion.places import HUBS, KNOWN, folder_of, hashes
from metrics.gate import BLOCKS_PER_S, GATE, THRESHOLD_DBFS
from metrics.result import Measured, Unavailable, Value
from metrics.scoring import Figure, FloatPcm, Metric, Option, Options, Piece, Score, Scorer
from metrics.scoring.device import torch_device
from metrics.speech_quality.windows import even_cuts, mean_by_length, windowed
from sessions.errors import MetricUnavailable, MissingExtra

RATE_HZ = 16_000
LONGEST_S = 30
"""A longer sound is judged in even windows: the network's memory grows with the square of the length."""
SHORTEST_S = 0.5
_DIGITS = 6
_FORMULA = "softmax over nine classes, whole utterance; arXiv:2312.15185"
_UNUSED = re.compile(r"modality_encoders\.\w+\.decoder\.")
"""What the network was trained with and does not ask when it judges: the published checkpoints do not hold it."""

METRIC = Metric(
    name="emotion",
    version="1",
    purpose="emotion2vec+: how likely each of nine emotions is, and the one that was asked for",
    figures=(
        Figure("asked", "share", "higher", "Emotion asked for", f"probability of the sample's emotion; {_FORMULA}"),
        *(Figure(name, "share", "none", name.capitalize(), _FORMULA) for name in EMOTIONS),
    ),
    make="metrics.emotion.emotion2vec:make",
    identify="metrics.emotion.emotion2vec:identify",
    options=(
        Option("model", KNOWN[0], f"a folder, or one of {', '.join(KNOWN)}"),
        Option("hub", HUBS[0], "where a name is looked for: ModelScope or Hugging Face", HUBS),
    ),
    rate_hz=RATE_HZ,
    reads=("emotion",),
    extra="emotion",
    environment="emotion",
    on_device=True,
)


def identify(options: Options) -> dict[str, str]:
    """Raises `MissingExtra`, `MissingWeights`, `SetupError`."""
    folder = folder_of(*_asked_for(options))
    absent = next((name for name in ("torch", "funasr") if importlib.util.find_spec(name) is None), "")
    if absent:
        raise MissingExtra(absent, METRIC.extra, "Run: make emotion")
    return {**hashes(folder), "funasr": importlib.metadata.version("funasr")}


def make(options: Options) -> Scorer:
    return EmotionScorer(_Network(folder_of(*_asked_for(options))))


def _asked_for(options: Options) -> tuple[str, str]:
    return options.get("model", KNOWN[0]), options.get("hub", HUBS[0])


class _Network:
    """funasr's model, checked: all tensors that it judges with from the checkpoint, and the nine labels in order.

    Raises `MetricUnavailable` where the folder's files are no such model.
    """

    def __init__(self, folder: Path) -> None:
        import torch

        checkpoint = _tensors(folder / "model.pt")
        device = torch_device()
        self._model = _built(folder, str(device))
        _require_all(self._model.model.state_dict(), checkpoint, folder)
        labels = self._judge(np.zeros(RATE_HZ, dtype=np.float32))["labels"]
        if why := refusal(labels):
            raise MetricUnavailable(f"the model in {folder} cannot be used: {why}")
        torch.set_grad_enabled(False)

    def listen(self, samples: FloatPcm) -> NDArray[np.float64]:
        """(9,) probabilities, in the order of `EMOTIONS`. samples: float32 (n,) at 16 kHz."""
        return np.asarray(self._judge(samples)["scores"], dtype=np.float64)

    def _judge(self, samples: FloatPcm) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._model.generate(samples, granularity="utterance", extract_embedding=False)[0]
        return found


def _tensors(path: Path) -> Mapping[str, Any]:
    """The checkpoint's own tensors; nothing else of it is unpickled."""
    import torch

    try:
        loaded = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except Exception as error:
        first = str(error).strip().partition("\n")[0]
        raise MetricUnavailable(f"{path} is no readable checkpoint ({first[:120]}); fetch it anew") from error
    for name in ("state_dict", "model_state_dict", "model"):
        if isinstance(loaded, Mapping) and isinstance(loaded.get(name), Mapping):
            loaded = loaded[name]
    if not isinstance(loaded, Mapping):
        raise MetricUnavailable(f"{path} holds no tensors by name")
    return loaded


def _built(folder: Path, device: str) -> Any:
    from funasr import AutoModel

    threads = int(os.environ.get("OMP_NUM_THREADS") or os.cpu_count() or 1)
    root = logging.getLogger()
    level = root.level
    try:
        return AutoModel(
            model=str(folder), device=device, ncpu=threads, disable_update=True, disable_pbar=True, log_level="ERROR"
        )
    except Exception as error:
        first = str(error).strip().partition("\n")[0]
        raise MetricUnavailable(
            f"funasr builds no model from {folder} ({type(error).__name__}: {first[:160]})"
        ) from error
    finally:
        root.setLevel(level)


def _require_all(wanted: Mapping[str, Any], found: Mapping[str, Any], folder: Path) -> None:
    """funasr leaves what a checkpoint lacks at random values, and says so in a line among others."""
    absent = [name for name, own in wanted.items() if not _UNUSED.match(name) and not _has(found, name, own.shape)]
    if absent:
        raise MetricUnavailable(
            f"{folder}/model.pt is of another layout: {len(absent)} of the {len(wanted)} tensors that config.yaml "
            f"asks for are not in it (the first is {absent[0]})"
        )


def _has(found: Mapping[str, Any], name: str, shape: object) -> bool:
    candidates = (found.get(f"{prefix}{name}") for prefix in ("", "d2v_model.", "module."))
    return any(getattr(one, "shape", None) == shape for one in candidates)


class EmotionScorer:
    """Judges one sound after another: funasr has no batches for this model."""

    def __init__(self, network: _Network) -> None:
        self._network = network

    def check(self) -> str:
        return ""

    def score(self, pieces: Sequence[Piece]) -> Sequence[Score]:
        return [self._score(piece) for piece in pieces]

    def _score(self, piece: Piece) -> Score:
        if why := _nothing_to_hear(piece.samples):
            return METRIC.nothing(why)
        cuts = even_cuts(len(piece.samples), LONGEST_S * RATE_HZ)
        heard = [self._network.listen(piece.samples[start:stop]) for start, stop in cuts]
        shares = [mean_by_length(share, cuts) for share in zip(*heard, strict=True)]
        figures: dict[str, Measured] = {
            name: Value(round(float(share), _DIGITS)) for name, share in zip(EMOTIONS, shares, strict=True)
        }
        top = EMOTIONS[int(np.argmax(shares))]
        flags = windowed(cuts, RATE_HZ)
        return Score({"asked": _asked(piece.sample.emotion, figures), **figures}, flags, {"top": top})


def _asked(emotion: str, figures: Mapping[str, Measured]) -> Measured:
    if not emotion:
        return Unavailable("no emotion is asked for")
    name = emotion.strip().lower()
    return figures.get(name, Unavailable(f"{emotion!r} is none of the nine emotions ({', '.join(EMOTIONS)})"))


def _nothing_to_hear(samples: FloatPcm) -> str:
    """Why it is not judged; "" where it is. Silence is told by the gate's level, block by block."""
    if len(samples) < SHORTEST_S * RATE_HZ:
        return f"shorter than {SHORTEST_S} s"
    size = RATE_HZ // BLOCKS_PER_S
    blocks = samples[: len(samples) // size * size].reshape(-1, size)
    loudest = max(float(part.std(axis=1).max()) for part in np.array_split(blocks, 1 + len(blocks) // 12_000))
    return "" if loudest >= 10 ** (THRESHOLD_DBFS / 20) else f"silence: nothing is above the level of the gate ({GATE})"
