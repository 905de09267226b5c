"""Edits between texts and the published rates, held against golden pairs, jiwer itself, and hand counts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jiwer
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from metrics.text.alignment import Counts, Step, align, compare, count, units
from metrics.text.normalisers import normalise
from metrics.text.published import audiobench_counts, uro_corrected_error_rate, uro_error_rate

GOLDEN: dict[str, list[dict[str, Any]]] = json.loads(
    (Path(__file__).parent.parent / "data" / "scoring" / "text" / "error_rates.json").read_text(encoding="utf-8")
)
PAIRS = [(language, pair) for language in ("en", "zh") for pair in GOLDEN[language]]


@pytest.mark.parametrize(("language", "pair"), PAIRS)
def test_uro_bench_gives_the_published_rate(language: str, pair: dict[str, Any]) -> None:
    assert uro_error_rate(pair["first"], pair["second"], language) == pair["uro_error_rate"]


@pytest.mark.parametrize(("language", "pair"), PAIRS)
def test_audiobench_gives_the_published_rate(language: str, pair: dict[str, Any]) -> None:
    normalised = normalise(f"audiobench-{language}")
    rate = compare(normalised(pair["first"]), normalised(pair["second"]), "words").rate
    assert rate == pair["audiobench_wer"]
    if rate is not None and normalised(pair["second"]):
        assert audiobench_counts(pair["first"], pair["second"], f"audiobench-{language}").rate == rate


def test_audiobench_counts_nothing_as_a_word() -> None:
    assert audiobench_counts("um", "...") == Counts(hits=1)
    assert audiobench_counts("", "hello there") == Counts(substitutions=1, insertions=1)


def test_uro_bench_divides_by_the_answer_where_it_swaps_and_by_the_target_where_corrected() -> None:
    answer, target = "the cat sat the cat sat", "the cat sat"
    assert uro_error_rate(answer, target, "en") == 0.5
    assert uro_corrected_error_rate(answer, target, "en") == 1.0


def test_uro_bench_knows_two_languages() -> None:
    with pytest.raises(ValueError, match="not 'de'"):
        uro_error_rate("a", "b", "de")


def test_each_word_has_its_fate() -> None:
    steps = align(["the", "kettle", "is", "on", "now"], ["the", "metal", "is", "on", "right", "now"])
    assert steps == [
        Step("equal", "the", "the"),
        Step("substitute", "kettle", "metal"),
        Step("equal", "is", "is"),
        Step("equal", "on", "on"),
        Step("insert", "", "right"),
        Step("equal", "now", "now"),
    ]
    assert count(steps) == Counts(hits=4, substitutions=1, insertions=1)
    assert count(steps).rate == 2 / 5


@pytest.mark.parametrize(
    ("reference", "hypothesis", "counts", "rate"),
    [
        ("", "", Counts(), None),
        ("", "a b", Counts(insertions=2), None),
        ("a b", "", Counts(deletions=2), 1.0),
        ("a", "b c d", Counts(substitutions=1, insertions=2), 3.0),
        ("  a  b ", "a b", Counts(hits=2), 0.0),
    ],
)
def test_an_empty_reference_has_no_rate_and_an_empty_hypothesis_is_all_deletions(
    reference: str, hypothesis: str, counts: Counts, rate: float | None
) -> None:
    found = compare(reference, hypothesis, "words")
    assert (found, found.rate) == (counts, rate)


WORDS = st.lists(st.sampled_from(["a", "b", "c", "dd", "你", "ee"]), min_size=1, max_size=12).map(" ".join)


@given(reference=WORDS, hypothesis=WORDS)
@settings(max_examples=200)
def test_counts_are_jiwers(reference: str, hypothesis: str) -> None:
    words = jiwer.process_words(reference, hypothesis)
    found = compare(reference, hypothesis, "words")
    assert (found.hits, found.substitutions) == (words.hits, words.substitutions)
    assert (found.deletions, found.insertions, found.rate) == (words.deletions, words.insertions, words.wer)
    assert compare(reference, hypothesis, "characters").rate == jiwer.cer(reference, hypothesis)


def test_an_hour_of_words_is_aligned() -> None:
    said = [f"w{n % 977}" for n in range(10_000)]
    heard = [word for n, word in enumerate(said) if n % 10]
    assert count(align(said, heard)) == Counts(hits=9000, deletions=1000)
    assert len(units(" ".join(said), "characters")) > 40_000
