"""`voice_embedding`: the voice of a sound, and that of the sample's reference, as 256 numbers each. For `voice`."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from metrics.mel import RATE_HZ
from metrics.result import Unavailable, Value
from metrics.scoring import Figure, FloatPcm, Metric, Options, Piece, Score, Scorer
from metrics.scoring.extras import require, weight_hashes
from metrics.speech_quality.opinion import wrong_scale
from metrics.voice.encoder import Embedding, Encoder
from metrics.voice.speech import speech_of
from sessions.audio import read, resample
from sessions.errors import BadAudio
from sessions.weights import folder

WEIGHTS = "ge2e-resemblyzer"
LEAST_SPEECH_S = 1.0
_DIGITS = 6
_REFERENCES = 256
"""So many voices are kept; a run has few."""

METRIC = Metric(
    name="voice_embedding",
    version="2",
    purpose="speaker embedding (GE2E), for `voice`",
    figures=(Figure("voiced", "s", "none", "Speech", "audible stretches with pauses up to 180 ms (gate/1)"),),
    make="metrics.voice.embedding:make",
    identify="metrics.voice.embedding:identify",
    rate_hz=RATE_HZ,
    reads=("reference_audio",),
    extra="score",
    on_device=True,
    batch=16,
    hidden=True,
)


def identify(options: Options) -> dict[str, str]:
    """Raises `MissingExtra`, `MissingWeights`."""
    require("torch", METRIC.extra)
    return weight_hashes(WEIGHTS)


def make(options: Options) -> Scorer:
    return EmbeddingScorer(Encoder(folder(WEIGHTS) / "pretrained.pt"))


class EmbeddingScorer:
    """Embeds the sounds that it is handed, and the files with reference voices that their samples name, once each."""

    def __init__(self, encoder: Encoder) -> None:
        self._encoder = encoder
        self._reference = lru_cache(maxsize=_REFERENCES)(self._embed_file)

    def check(self) -> str:
        return ""

    def score(self, pieces: Sequence[Piece]) -> Sequence[Score]:
        """details: `embedding` (256 floats), and where a reference is named `reference` with its seconds of speech,
        or why there is none."""
        sounds = [piece.samples for piece in pieces]
        speech = [sound[:0] if wrong_scale(sound) else speech_of(sound) for sound in sounds]
        enough = [index for index, own in enumerate(speech) if len(own) >= LEAST_SPEECH_S * RATE_HZ]
        embedded = self._encoder.embed([speech[index] for index in enough]) if enough else []
        by_index = dict(zip(enough, embedded, strict=True))
        return [self._score(piece, speech[index], by_index.get(index)) for index, piece in enumerate(pieces)]

    def _score(self, piece: Piece, speech: FloatPcm, embedding: Embedding | None) -> Score:
        seconds = len(speech) / RATE_HZ
        if embedding is None:
            none = wrong_scale(piece.samples) or "silence: nothing is above the gate (gate/1)"
            because = "less than 1 s of speech" if seconds else none
            return Score({"voiced": Unavailable(because)})
        details: dict[str, Any] = {"embedding": _listed(embedding)}
        if piece.sample.reference_audio:
            details |= self._reference(piece.sample.reference_audio)
        return Score({"voiced": Value(seconds)}, [], details)

    def _embed_file(self, path: str) -> dict[str, Any]:
        try:
            source = read(path)
        except BadAudio as error:
            return {"no_reference": str(error)}
        samples = resample(source.samples, source.rate_hz, RATE_HZ)
        if why := wrong_scale(samples):
            return {"no_reference": f"{path}: {why}"}
        speech = speech_of(samples)
        if len(speech) < LEAST_SPEECH_S * RATE_HZ:
            return {"no_reference": f"less than 1 s of speech in {path}"}
        embedding = self._encoder.embed([speech])[0]
        return {"reference": _listed(embedding), "reference_s": round(len(speech) / RATE_HZ, 3)}


def _listed(embedding: Embedding) -> list[float]:
    return [round(float(value), _DIGITS) for value in np.asarray(embedding)]
