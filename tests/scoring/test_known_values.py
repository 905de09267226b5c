"""Known values of WER, CER, BLEU and METEOR, on which jiwer, torchmetrics, sacrebleu, NLTK and we agree."""

from __future__ import annotations

import os
import warnings
from types import ModuleType

import jiwer
import pytest
import sacrebleu

from metrics.scoring import ScoreLine
from metrics.text.alignment import compare
from metrics.text.bleu import METRIC as BLEU
from metrics.text.bleu import derive as bleu
from metrics.text.bleu import summarise as corpus_bleu
from metrics.text.meteor import wordnet
from metrics.text.meteor.metric import scorer
from sessions.errors import MissingWeights
from tests.scoring import tiny_wordnet
from tests.scoring.transcripts import options, sample


@pytest.fixture(scope="module")
def of_torch() -> ModuleType:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found: ModuleType = pytest.importorskip("torchmetrics.functional.text")
    return found


# reference, hypothesis, WER, CER: counted by hand.
RATES = [
    ("the cat sat on the mat", "the cat sat on the mat", 0.0, 0.0),
    ("the cat sat on the mat", "the cat sat on mat", 1 / 6, 4 / 22),
    ("the cat", "a cat", 1 / 2, 3 / 7),
    ("hello", "hello there world", 2.0, 12 / 5),
    ("this is the reference", "this is the prediction", 1 / 4, 8 / 21),
    ("there is another one", "there is an other sample", 3 / 4, 6 / 20),
    ("a b c d", "d c b a", 1.0, 4 / 7),
    ("one", "", 1.0, 1.0),
    ("今天天气很好", "今天天汽好", 1.0, 2 / 6),
]


@pytest.mark.parametrize(("reference", "hypothesis", "wer", "cer"), RATES)
def test_error_rates(reference: str, hypothesis: str, wer: float, cer: float, of_torch: ModuleType) -> None:
    assert compare(reference, hypothesis, "words").rate == wer == jiwer.wer(reference, hypothesis)
    assert compare(reference, hypothesis, "characters").rate == cer == jiwer.cer(reference, hypothesis)
    assert float(of_torch.word_error_rate([hypothesis], [reference])) == pytest.approx(wer)
    assert float(of_torch.char_error_rate([hypothesis], [reference])) == pytest.approx(cer)


def test_error_rates_of_a_corpus(of_torch: ModuleType) -> None:
    references, hypotheses = [row[0] for row in RATES], [row[1] for row in RATES]
    counts = [
        compare(reference, hypothesis, "words") for reference, hypothesis in zip(references, hypotheses, strict=True)
    ]
    ours = sum(one.errors for one in counts) / sum(one.units for one in counts)
    assert ours == pytest.approx(jiwer.wer(references, hypotheses))
    assert ours == pytest.approx(float(of_torch.word_error_rate(hypotheses, references)))


# text, reference, sacrebleu's tokeniser, sentence BLEU. The first is in the documentation of torchmetrics.
TRANSLATIONS = [
    ("the cat is on the mat", "the cat is on the mat", "13a", 100.0),
    ("the cat is on the mat", "a cat is on the mat", "13a", 75.98356856515926),
    ("It costs $3.50, he said.", "It costs 3.50 dollars, he said.", "13a", None),
    ("他昨天去了北京。", "他昨天去过北京。", "zh", None),
]


@pytest.mark.parametrize(("text", "reference", "tokeniser", "known"), TRANSLATIONS)
def test_bleu(text: str, reference: str, tokeniser: str, known: float | None, of_torch: ModuleType) -> None:
    (found,) = bleu([sample(text, reference=reference)], [{}], options(BLEU, tokeniser=tokeniser))
    (corpus,) = corpus_bleu([ScoreLine("", "s", "bleu", "1", found)])
    ours = corpus.value
    assert ours == pytest.approx(sacrebleu.corpus_bleu([text], [[reference]], tokenize=tokeniser, force=True).score)
    assert known is None or ours == pytest.approx(known)
    if min(len(text.split()), len(reference.split())) >= 4:  # it does not smooth what sacrebleu does
        theirs = of_torch.sacre_bleu_score([text], [[reference]], tokenize=tokeniser)
        assert ours == pytest.approx(100 * float(theirs), abs=1e-3)


# reference, text, METEOR, which is NLTK's own example where it has four digits; none of these needs a synonym.
CAPTIONS = [
    (
        "It is a guide to action that ensures that the military will forever heed Party commands",
        "It is a guide to action which ensures that the military always obeys the commands of the party",
        0.6944,
    ),
    ("this is a cat", "non matching hypothesis", 0.0),
    # All four match in one chunk, then in four: F-mean 1, penalty 0.5 · (chunks / matches)³.
    ("a b c d", "a b c d", 1 - 0.5 / 64),
    ("a b c d", "d c b a", 0.5),
    # Two of three words found of four: P = 2/3, R = 1/2, one chunk.
    ("rain falls very hard", "rain falls softly", (2 / 3 * 1 / 2) / (0.9 * 2 / 3 + 0.1 * 1 / 2) * (1 - 0.5 / 8)),
]


@pytest.mark.parametrize(("reference", "text", "known"), CAPTIONS)
def test_meteor(reference: str, text: str, known: float, tmp_path_factory: pytest.TempPathFactory) -> None:
    from nltk.translate.meteor_score import single_meteor_score

    folder = tiny_wordnet.write(tmp_path_factory.getbasetemp() / "known-values-wordnet")
    ours = scorer(str(folder), "punkt")(reference, text)
    theirs = single_meteor_score(reference.split(), text.split(), wordnet=wordnet.load(wordnet.find(str(folder))))
    assert ours == theirs
    assert round(ours, 4) == round(known, 4)


def test_meteor_with_the_synonyms_of_wordnet() -> None:
    try:
        real = wordnet.find("auto")
    except MissingWeights as why:
        assert "CI" not in os.environ, why
        pytest.skip(str(why))
    if real.version != "3.0":
        pytest.skip(f"the values are those of WordNet 3.0, not {real.version}")
    reference, text = "the car stops. A dog is barking.", "an automobile halts. A dog barks."
    assert scorer("auto", "punkt")(reference, text) == pytest.approx(0.66167290886392)
    assert scorer("auto", "punkt")("the car", "the auto") == 1 - 0.5 / 8
    assert scorer("auto", "punkt")("the car", "the oak") == 0.25
