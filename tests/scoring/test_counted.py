"""Which lines count, of what the engine wrote: no mean is made of two ways to score, or of what is no more."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import msgspec
import numpy as np
import pytest
import soundfile

from harness.score import table
from harness.score.counted import NOT_SCORED
from harness.score.engine import ScoreStore, chosen_with_needs
from harness.score.of_turns import scores_by_sample
from harness.score.run import Scoring
from harness.score.summary import Scored, Scores, read_scores, write_scores
from harness.score.wording import settings_lines
from metrics.scoring import Aggregate, Metric, Sample
from tests.scoring import engine_metrics
from tests.scoring.engine_metrics import LOG
from tests.scoring.engine_rig import QUICK, Memory, score, scorings, sound, sounds

THRICE = replace(engine_metrics.TWICE, name="thrice")
DEAF = replace(engine_metrics.LOUDEST, name="deaf", reads=())
NAMES = {
    "loudest": "tests.scoring.engine_metrics:LOUDEST",
    "deaf_to_text": "tests.scoring.engine_metrics:DEAF_TO_TEXT",
    "not_installed": "tests.scoring.engine_metrics:NOT_INSTALLED",
    "twice": "tests.scoring.engine_metrics:TWICE",
    "thrice": "tests.scoring.test_counted:THRICE",
    "deaf": "tests.scoring.test_counted:DEAF",
    "above_first": "tests.scoring.engine_metrics:ABOVE_FIRST",
}
OTHER = {"loudest": {"form": "other"}}
"""As another recogniser is to a word error rate."""


@pytest.fixture(autouse=True)
def metrics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(LOG, str(tmp_path / "log"))
    for name in list(table.METRICS):
        monkeypatch.delitem(table.METRICS, name)
    for name, where in NAMES.items():
        monkeypatch.setitem(table.METRICS, name, where)
    table.metric.cache_clear()
    yield
    table.metric.cache_clear()


def scored(
    samples: Sequence[Sample],
    names: Sequence[str],
    folder: Path,
    options: Mapping[str, Mapping[str, str]] | None = None,
    *,
    upto: int | None = None,
) -> Scores:
    """Score, and sum up. upto: samples after which it was interrupted."""
    known: dict[str, Metric] = {name: table.metric(name) for name in NAMES}
    score(samples[:upto], names, folder, options=options, metrics=known)
    chosen = chosen_with_needs(names, options)
    return write_scores(folder, Scored("x", lambda: samples, len(samples)), ScoreStore(folder), chosen)


def of_all(scores: Scores, metric: str) -> Aggregate:
    (one,) = [one for one in scores.metrics[metric].aggregates if not one.language]
    return one


def outcome(scores: Scores, metric: str) -> tuple[float | None, int, dict[str, int]]:
    one = of_all(scores, metric)
    return None if one.value is None else round(one.value, 4), one.used, one.unavailable


def test_interrupted_with_another_recogniser_no_mean_is_made_of_both(tmp_path: Path) -> None:
    samples = sounds(tmp_path, [None] * 4)
    assert outcome(scored(samples, ["twice"], tmp_path / "scores"), "twice") == (0.05, 4, {})
    half = scored(samples, ["twice"], tmp_path / "scores", OTHER, upto=2)
    assert outcome(half, "twice") == (0.03, 2, {NOT_SCORED: 2})
    assert half.metrics["twice"].needs["loudest"].options == {"form": "other"}
    begun = scored(samples, ["twice"], tmp_path / "scores", {"loudest": {"form": "plain"}}, upto=0)
    assert outcome(begun, "twice") == (0.07, 2, {NOT_SCORED: 2}), "those that are to be made anew are not counted"
    assert outcome(scored(samples, ["twice"], tmp_path / "scores", OTHER), "twice") == (0.05, 4, {})


def test_what_was_scored_with_another_recogniser_says_with_which(tmp_path: Path) -> None:
    samples = sounds(tmp_path, [None] * 4, group="d1")
    scored(samples, ["twice"], tmp_path / "scores")
    scores = scored(samples, ["thrice"], tmp_path / "scores", OTHER)
    assert outcome(scores, "twice") == (0.05, 4, {})
    made = {name: scores.metrics[name].needs["loudest"].options["form"] for name in ("twice", "thrice")}
    assert made == {"twice": "plain", "thrice": "other"}
    told = list(settings_lines(scores))
    assert {"loudest/1: form=plain (of twice).", "loudest/1: form=other (of thrice, loudest)."} <= set(told)
    assert len(scores_by_sample(tmp_path / "scores", scores)) == 4
    scored(samples, ["twice"], tmp_path / "scores", OTHER, upto=1)
    scores = scored(samples, ["deaf_to_text"], tmp_path / "scores")
    assert outcome(scores, "twice") == (0.02, 1, {NOT_SCORED: 3}), "later on, too, they are not mixed"
    (one,) = [one for one in scores_by_sample(tmp_path / "scores", scores) if "twice" in one.figures and one.id == "s0"]
    assert one.id == "s0"


def test_a_new_text_of_a_sample_that_is_not_scored_again_yet(tmp_path: Path) -> None:
    samples = sounds(tmp_path, ["a", "b", "c"])
    scored(samples, ["loudest", "twice"], tmp_path / "scores")
    changed = [msgspec.structs.replace(sample, text=f"new {sample.text}") for sample in samples]
    scores = scored(changed, ["loudest", "twice"], tmp_path / "scores", upto=1)
    for metric, value in (("loudest", 0.01), ("twice", 0.02)):
        assert outcome(scores, metric) == (value, 1, {NOT_SCORED: 2})


def test_texts_that_nobody_gives_again_leave_earlier_scores_be(tmp_path: Path) -> None:
    samples = sounds(tmp_path, ["a", "b"])
    scored(samples, ["twice"], tmp_path / "scores")
    bare = [msgspec.structs.replace(sample, text=None) for sample in samples]
    assert outcome(scored(bare, ["deaf_to_text"], tmp_path / "scores"), "twice") == (0.03, 2, {})


@pytest.mark.parametrize("asked", [["deaf_to_text"], ["twice", "above_first"]])
def test_a_sound_that_was_replaced(tmp_path: Path, asked: list[str]) -> None:
    """Scored by others, so that it is known what the file holds now; or about to be scored again."""
    samples = sounds(tmp_path, [None] * 3, group="d1")
    scored(samples, ["twice", "above_first"], tmp_path / "scores")
    sound(Path(samples[2].audio), 0.9, seconds=0.3)
    scores = scored(samples, asked, tmp_path / "scores", upto=2 if "twice" in asked else None)
    assert outcome(scores, "twice") == (0.03, 2, {NOT_SCORED: 1})
    assert of_all(scored(samples, ["above_first"], tmp_path / "scores"), "above_first").used == 3


def test_of_a_group_that_is_scored_together_all_count_or_none(tmp_path: Path) -> None:
    samples = sounds(tmp_path, [None] * 3, group="d1")
    scored(samples, ["above_first"], tmp_path / "scores")
    sound(Path(samples[0].audio), 0.9, seconds=0.3)
    known = {name: table.metric(name) for name in NAMES}
    score(samples, ["twice"], tmp_path / "scores", metrics=known)  # as far as it came
    store, chosen = ScoreStore(tmp_path / "scores"), chosen_with_needs(["above_first"])
    scores = write_scores(tmp_path / "scores", Scored("x", lambda: samples, 3), store, chosen)
    assert outcome(scores, "above_first") == (None, 0, {NOT_SCORED: 3})


def test_what_could_not_be_had_is_told_with_other_options_too(tmp_path: Path) -> None:
    samples = sounds(tmp_path, [None])
    for form in ("plain", "other"):
        scores = scored(samples, ["not_installed"], tmp_path / "scores", {"not_installed": {"form": form}})
        (reason,) = of_all(scores, "not_installed").unavailable
        assert reason.startswith("this needs the package 'nowhere'")
        assert scores.metrics["not_installed"].made.options == {"form": form}


def test_a_file_without_sound_counts_with_other_options_too(tmp_path: Path) -> None:
    samples = [*sounds(tmp_path, [None]), Sample("empty", str(tmp_path / "empty.wav"))]
    soundfile.write(tmp_path / "empty.wav", np.zeros(0), 16_000)
    for options in ({}, OTHER):
        scores = scored(samples, ["twice"], tmp_path / "scores", options)
        why = "there is no sound: the file holds no samples"
        assert outcome(scores, "loudest") == (0.01, 1, {why: 1})
        assert outcome(scores, "twice") == (0.02, 1, {f"loudest: {why}": 1})


def test_a_language_that_is_named_later_has_its_mean(tmp_path: Path) -> None:
    first, second = sounds(tmp_path, [None] * 2)
    samples = [msgspec.structs.replace(first, language="en"), second]
    scored(samples, ["deaf"], tmp_path / "scores")
    named = [samples[0], msgspec.structs.replace(second, language="zh", group="d2")]
    scores = scored(named, ["deaf"], tmp_path / "scores")
    assert scorings() == ["s0", "s1"], "nothing was scored again"
    languages = {one.language: one.value for one in scores.metrics["deaf"].aggregates}
    assert languages == pytest.approx({"": 0.015, "en": 0.01, "zh": 0.02})
    rows = (tmp_path / "scores" / "scores.csv").read_text().splitlines()
    assert rows[2].startswith("s1,d2,1,zh,")


def test_it_is_summed_up_before_another_process_may_write(tmp_path: Path) -> None:
    samples = sounds(tmp_path, [None] * 2)
    scoring = Scoring(tmp_path / "scores", Scored("x", lambda: samples, len(samples)), chosen_with_needs(["loudest"]))
    scoring.score(Memory(), QUICK)
    with ScoreStore(tmp_path / "scores").writing() as other:
        other.path("loudest").write_bytes(b"")
        assert outcome(scoring.finish(), "loudest") == (0.015, 2, {})
    assert read_scores(tmp_path / "scores") == scoring.finish()


def test_what_is_asked_for_has_a_row_before_anything_is_scored(tmp_path: Path) -> None:
    samples = sounds(tmp_path, [None] * 2)
    assert outcome(scored(samples, ["twice"], tmp_path / "scores", upto=0), "twice") == (None, 0, {NOT_SCORED: 2})
