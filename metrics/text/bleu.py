"""BLEU of a translation against its reference, by sacrebleu, of each sample and of all together.

The corpus score, from the summed counts, is the one that is published; the mean of sentence scores is another figure.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import numpy as np

from metrics.result import Value
from metrics.scoring import Aggregate, Figure, Metric, Option, Options, Sample, Score, ScoreLine
from metrics.stats import RESAMPLES, SEED, middle_of_resamples
from metrics.text.alignment import unit_of
from metrics.text.corpus import CorpusFigure, Sums, corpus
from metrics.text.normalisers import AUTO
from metrics.text.packages import versions
from metrics.transcript import written
from sessions.errors import MissingWeights

AS_PUBLISHED: Final = "as-published"
_ORDERS: Final = 4
_SENTENCEPIECE: Final = {
    "flores101": "sacrebleu_tokenizer_spm.model",
    "flores200": "flores200sacrebleuspm",
}
"""Tokenisers with a model of their own, and its file's name in sacrebleu's folder."""

METRIC: Final = Metric(
    name="bleu",
    version="bleu/2",
    purpose="a translation against its reference: n-grams in common (sacrebleu)",
    figures=(
        Figure(
            "bleu",
            "points",
            "higher",
            "sentence BLEU",
            "100 · BP · exp(mean log precision of 1- to 4-grams) of one sample, effective order, exp smoothing "
            "(M. Post, 'A Call for Clarity in Reporting BLEU Scores', 2018)",
        ),
    ),
    derive="metrics.text.bleu:derive",
    identify="metrics.text.bleu:identify",
    summarise="metrics.text.bleu:summarise",
    reads=("language", "text", "reference"),
    options=(
        Option(
            "tokeniser",
            AUTO,
            "sacrebleu's; auto: 13a, zh for Chinese, char for others without spaces; as-published: AudioBench's, "
            "flores101, and 'empty' for nothing",
            (AUTO, "13a", "zh", "intl", "char", "none", *_SENTENCEPIECE, AS_PUBLISHED),
        ),
    ),
    extra="text",
)


def identify(options: Options) -> dict[str, str]:
    """sacrebleu's version, and the hash of the tokeniser's model where it has one."""
    identity = versions("sacrebleu")
    name = _tokeniser(options["tokeniser"], "")
    if name in _SENTENCEPIECE:
        identity |= versions("sentencepiece") | {f"{name}.model": _sha256(_model(name))}
    return identity


def _tokeniser(asked: str, language: str) -> str:
    if asked == AUTO:
        return "zh" if language == "zh" else "char" if unit_of(language) == "characters" else "13a"
    return "flores101" if asked == AS_PUBLISHED else asked


def _model(name: str) -> Path:
    """The SentencePiece model, where sacrebleu looks for it. Raises `MissingWeights`: it is never fetched from here."""
    folder = Path(os.environ.get("SACREBLEU") or Path.home() / ".sacrebleu")
    path = folder / "models" / _SENTENCEPIECE[name]
    if not path.is_file():
        raise MissingWeights(
            f"BLEU's tokeniser {name} needs {path}, which is not there",
            f"Copy it there (sacrebleu fetches it when it runs with --tokenize {name}), or choose another tokeniser",
        )
    return path


@cache
def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@cache
def _scorer(tokeniser: str) -> Any:
    if tokeniser in _SENTENCEPIECE:
        _model(tokeniser)
    from sacrebleu.metrics.bleu import BLEU

    return BLEU(tokenize=tokeniser, effective_order=True)


def derive(samples: Sequence[Sample], outputs: Sequence[Mapping[str, Score]], options: Options) -> Sequence[Score]:
    return [_one(sample, options["tokeniser"]) for sample in samples]


def _one(sample: Sample, asked: str) -> Score:
    if sample.reference is None:
        return METRIC.nothing("there is no reference for this sample")
    if sample.text is None:
        return METRIC.nothing("the system gave no text of this reply")
    text, reference = sample.text.strip(), sample.reference.strip()
    if asked == AS_PUBLISHED:
        text, reference = text or "empty", reference or "empty"
    if not reference:
        return METRIC.nothing("the reference is empty")
    tokeniser = _tokeniser(asked, written(sample.language))
    found = _scorer(tokeniser).sentence_score(text, [reference])
    sums = [*found.counts, *found.totals, found.sys_len, found.ref_len]
    return Score(
        {"bleu": Value(_points(found.score))}, details={"tokeniser": tokeniser, "sums": [int(n) for n in sums]}
    )


def summarise(lines: Iterable[ScoreLine]) -> list[Aggregate]:
    """Corpus BLEU, from the sums of n-gram counts and lengths."""
    return corpus([_CORPUS], lines)


def _points(score: float) -> float:
    """Without what rounding adds beyond 100."""
    return min(float(score), 100.0)


def _bleu(sums: Sums) -> float:
    from sacrebleu.metrics.bleu import BLEU

    counts = [int(n) for n in sums]
    correct, total = counts[:_ORDERS], counts[_ORDERS : 2 * _ORDERS]
    length, reference_length = counts[2 * _ORDERS :]
    return _points(BLEU.compute_bleu(correct, total, length, reference_length, smooth_method="exp").score)


def _interval(groups: Sums) -> tuple[float, float]:
    rng = np.random.default_rng(SEED)
    found = np.empty(RESAMPLES)
    for row in range(RESAMPLES):
        drawn = np.bincount(rng.integers(0, len(groups), size=len(groups)), minlength=len(groups))
        found[row] = _bleu(drawn @ groups)
    return middle_of_resamples(found, len(groups))


_CORPUS: Final = CorpusFigure(
    Figure("corpus_bleu", "points", "higher", "corpus BLEU", "of all samples' n-gram counts and lengths, summed"),
    of="bleu",
    parts=lambda line: line.score.details["sums"],
    value=_bleu,
    interval=_interval,
)
