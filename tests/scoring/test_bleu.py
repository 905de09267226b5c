"""BLEU of samples and of a corpus, against sacrebleu's own corpus score."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
import sacrebleu
import sentencepiece

from metrics.result import Failed, Unavailable, Value
from metrics.scoring import Score, ScoreLine
from metrics.text import bleu
from metrics.text.bleu import METRIC, derive, identify, summarise
from sessions.errors import MissingWeights
from tests.scoring.transcripts import options, sample

PAIRS = [
    ("the cat is on the mat", "there is a cat on the mat"),
    ("hello world, again", "hello there, world"),
    ("it costs $3.50.", "it costs 3.50 dollars."),
    ("", "nothing was said"),
]


def score(text: str | None, reference: str | None, language: str = "en", tokeniser: str = "auto") -> Score:
    (found,) = derive([sample(text, language, reference=reference)], [{}], options(METRIC, tokeniser=tokeniser))
    return found


def lines(pairs: list[tuple[str, str]], language: str = "en", tokeniser: str = "auto") -> list[ScoreLine]:
    return [
        ScoreLine("", f"{language}{n}", "bleu", "1", score(text, reference, language, tokeniser), language=language)
        for n, (text, reference) in enumerate(pairs)
    ]


@pytest.mark.parametrize("tokeniser", ["13a", "zh", "intl", "char", "none"])
def test_the_corpus_score_is_sacrebleus(tokeniser: str) -> None:
    texts, references = [text for text, _ in PAIRS], [reference for _, reference in PAIRS]
    expected = sacrebleu.corpus_bleu(texts, [references], tokenize=tokeniser, force=True).score
    (corpus,) = summarise(lines(PAIRS, tokeniser=tokeniser))
    assert corpus.value == pytest.approx(expected, abs=1e-9)
    assert (corpus.figure, corpus.used, corpus.ci95) == ("corpus_bleu", 4, None)


def test_a_sentence_is_sacrebleus_and_chinese_is_cut_into_characters() -> None:
    text, reference = PAIRS[0]
    expected = sacrebleu.sentence_bleu(text, [reference]).score
    assert score(text, reference).figures == {"bleu": Value(pytest.approx(expected))}  # type: ignore[arg-type]
    chinese = score("他去了北京。", "他去过北京。", "zh-CN")
    assert chinese.details["tokeniser"] == "zh"
    assert chinese.figures["bleu"] == Value(
        pytest.approx(sacrebleu.sentence_bleu("他去了北京。", ["他去过北京。"], tokenize="zh").score)  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("language", ["ja", "jpn", "th", "my"])
def test_languages_without_spaces_are_cut_into_characters(language: str) -> None:
    text, reference = "今日は天気がいいですね", "今日は天気がいいですよ"
    found = score(text, reference, language)
    assert found.details["tokeniser"] == "char"
    assert found.figures["bleu"] == Value(
        pytest.approx(sacrebleu.sentence_bleu(text, [reference], tokenize="char").score)  # type: ignore[arg-type]
    )


def test_the_same_text_gives_100_and_no_more() -> None:
    same = "the cat is on the mat and looks at the other cat"
    assert score(same, same).figures == {"bleu": Value(100.0)}
    (corpus,) = summarise(lines([(same, same)], ""))
    assert corpus.value == 100.0


def test_the_interval_resamples_and_languages_stand_apart() -> None:
    found = summarise([*lines(PAIRS * 4), *lines([("你好", "你好吗")], "zh")])
    assert [(one.language, one.used) for one in found] == [("", 17), ("en", 16), ("zh", 1)]
    english = found[1]
    assert english.ci95 is not None and english.value is not None
    assert english.ci95[0] < english.value < english.ci95[1]
    assert found[2].no_ci95 == "needs 10 dialogues or folders, has 1"


def test_what_is_left_out_is_counted() -> None:
    failed = ScoreLine("", "f", "bleu", "1", Score({"bleu": Failed("no")}))
    skipped = ScoreLine("", "s", "bleu", "1", score(None, "a"))
    (corpus,) = summarise([*lines(PAIRS, ""), failed, skipped])
    assert (corpus.used, corpus.skipped, corpus.failed) == (4, 1, 1)
    assert (corpus.unavailable, corpus.errors) == ({"the system gave no text of this reply": 1}, {"no": 1})
    assert summarise([failed, skipped]) == []


@pytest.mark.parametrize(
    ("text", "reference", "why"),
    [
        (None, "a", "the system gave no text of this reply"),
        ("a", None, "there is no reference for this sample"),
        ("a", " ", "the reference is empty"),
    ],
)
def test_without_both_texts_there_is_none(text: str | None, reference: str | None, why: str) -> None:
    assert score(text, reference).figures == {"bleu": Unavailable(why)}


def test_a_text_of_nothing_scores_nothing() -> None:
    assert score("", "a b c d").figures == {"bleu": Value(0.0)}


def test_a_tokeniser_whose_model_is_not_there_is_never_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SACREBLEU", str(tmp_path))
    for tokeniser in ("flores101", "flores200", "as-published"):
        with pytest.raises(MissingWeights, match="which is not there"):
            identify(options(METRIC, tokeniser=tokeniser))
    assert not list(tmp_path.iterdir())


def test_as_published_cuts_by_the_model_and_takes_nothing_for_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "models").mkdir()
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("\n".join(text for pair in PAIRS for text in pair) + "\nempty\n" * 20)
    prefix = tmp_path / "models" / "sacrebleu_tokenizer_spm"
    sentencepiece.SentencePieceTrainer.train(
        input=str(corpus), model_prefix=str(prefix), vocab_size=60, minloglevel=2, hard_vocab_limit=False
    )
    monkeypatch.setenv("SACREBLEU", str(tmp_path))
    monkeypatch.setattr("sacrebleu.tokenizers.tokenizer_spm.SACREBLEU_DIR", str(tmp_path))
    bleu._scorer.cache_clear()
    identity = identify(options(METRIC, tokeniser="as-published"))
    assert {"sacrebleu", "sentencepiece", "flores101.model"} == set(identity)
    found = score("", "", tokeniser="as-published")
    assert found.details["tokeniser"] == "flores101"
    assert found.figures == {"bleu": Value(pytest.approx(100.0))}  # type: ignore[arg-type]
    bleu._scorer.cache_clear()


def test_a_score_is_json() -> None:
    found = score(*PAIRS[0])
    assert msgspec.json.decode(msgspec.json.encode(found), type=Score) == found
