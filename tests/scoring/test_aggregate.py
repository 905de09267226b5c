"""Aggregates against tables that were computed by hand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
import pytest

from harness.score.aggregate import OTHER_REASONS, REASONS_AT_MOST, UNUSABLE_FILES, aggregate
from metrics.result import Failed, Measured, Unavailable, Value
from metrics.scoring import Aggregate, Figure, Metric, Score, ScoreLine
from metrics.stats import NEEDED_DIALOGUES, ratio_interval, summarise

FIGURES = (
    Figure("good", "MOS", "higher", "goodness", "by hand"),
    Figure("rate", "%", "lower", "rate", "by hand"),
)
PLAIN = Metric("plain", "1", "for this test", FIGURES)


def line(
    sample: str, good: Measured, rate: Measured | None = None, *, group: str = "", language: str = ""
) -> ScoreLine:
    score = Score({"good": good, "rate": rate or Unavailable("not asked")})
    return ScoreLine(f"key of {sample}", sample, "plain", "1", score, group=group, language=language)


def figures(metric: Metric, lines: list[ScoreLine]) -> dict[tuple[str, str], Aggregate]:
    return {(one.figure, one.language): one for one in aggregate(metric, lambda: iter(lines))}


def test_used_skipped_and_failed_add_up() -> None:
    lines = [
        line("a", Value(1.0)),
        line("b", Value(4.0)),
        line("c", Unavailable("silence")),
        line("d", Unavailable("silence")),
        line("e", Unavailable("too short")),
        line("f", Failed("RuntimeError: no memory")),
        line("g", Value(float("nan"))),
    ]
    good = figures(PLAIN, lines)["good", ""]
    assert (good.value, good.used, good.skipped, good.failed) == (2.5, 2, 3, 2)
    assert (good.minimum, good.maximum) == (1.0, 4.0)
    assert list(good.unavailable.items()) == [("silence", 2), ("too short", 1)]
    assert good.errors == {"RuntimeError: no memory": 1, "not a finite number": 1}
    assert (good.unit, good.direction, good.title) == ("MOS", "higher", "goodness")
    assert good.ci95 is None
    assert good.no_ci95 == "needs 10 dialogues or folders, has 2"


def test_nothing_was_used() -> None:
    good = figures(PLAIN, [line(name, Failed("killed by signal 9")) for name in "abc"])["good", ""]
    assert (good.value, good.minimum, good.maximum, good.ci95, good.no_ci95) == (None, None, None, None, "no values")
    nothing = figures(PLAIN, [])["good", ""]
    assert (nothing.value, nothing.used, nothing.skipped, nothing.failed) == (None, 0, 0, 0)


def test_each_language_has_its_mean_where_there_are_several() -> None:
    lines = [
        line("a", Value(1.0), language="en"),
        line("b", Value(2.0), language="en"),
        line("c", Value(6.0), language="zh"),
        line("d", Unavailable("silence"), language="zh"),
        line("e", Value(11.0)),
    ]
    found = figures(PLAIN, lines)
    assert {key: one.value for key, one in found.items() if key[0] == "good"} == {
        ("good", ""): 5.0,
        ("good", "en"): 1.5,
        ("good", "zh"): 6.0,
    }
    assert found["good", "zh"].unavailable == {"silence": 1}
    assert set(figures(PLAIN, [line("a", Value(1.0), language="en")])) == {("good", ""), ("rate", "")}


def test_the_interval_is_that_of_whole_groups() -> None:
    rng = np.random.default_rng(7)
    centres = rng.normal(3.0, 0.5, size=12)
    values = {f"g{k}": [float(value) for value in rng.normal(centre, 0.1, size=8)] for k, centre in enumerate(centres)}
    lines = [line(f"{group}/{k}", Value(v), group=group) for group, all_ in values.items() for k, v in enumerate(all_)]
    good = figures(PLAIN, lines)["good", ""]
    assert good.ci95 is not None
    low, high = good.ci95
    by_dialogue = summarise(values).ci95["mean"]
    assert (low, high) == pytest.approx(by_dialogue, abs=0.03)  # other draws, the same law
    assert good.value == pytest.approx(np.mean(list(values.values())))
    # Values of one group go together: taken one by one the interval would be far too narrow.
    alone = figures(PLAIN, [line(f"{k}", Value(v)) for k, v in enumerate(v for a in values.values() for v in a)])
    apart = alone["good", ""].ci95
    assert apart is not None
    assert high - low > 2 * (apart[1] - apart[0])
    assert figures(PLAIN, lines[::-1]) == figures(PLAIN, lines)


def test_the_interval_holds_the_truth_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(3)
    held = 0
    for seed in range(200):
        sizes = rng.integers(1, 5, size=20)
        parts = [(float(rng.normal(2.0, 1.0, size=size).sum()), float(size)) for size in sizes]
        interval = ratio_interval(parts, resamples=400, seed=seed)
        assert interval is not None
        held += interval[0] <= 2.0 <= interval[1]
    assert 0.90 <= held / 200 <= 0.99


def test_no_interval_of_few_groups_or_of_nothing() -> None:
    assert ratio_interval([(1.0, 1.0)] * (NEEDED_DIALOGUES - 1)) is None
    assert ratio_interval([(1.0, 1.0)] * NEEDED_DIALOGUES) == (1.0, 1.0)
    assert ratio_interval([(1.0, 0.0)] * 20) is None


def test_reasons_with_particulars_do_not_swell_the_summary() -> None:
    lines = [line(str(k), Unavailable(f"shorter than 1 s ({k} ms)")) for k in range(100)]
    lines += [line(f"again {k}", Unavailable("silence")) for k in range(2)]
    told = figures(PLAIN, lines)["good", ""].unavailable
    assert len(told) == REASONS_AT_MOST + 1
    assert next(iter(told.items())) == ("silence", 2)
    assert told[OTHER_REASONS] == 81
    assert sum(told.values()) == 102


def unusable(sample: int) -> Failed:
    return Failed(f"{'asr failed: ' * (sample % 2)}cannot use {sample}.wav: it is empty (0 bytes). Give a WAV file")


def test_files_that_cannot_be_used_are_one_reason_however_many() -> None:
    lines = [line(str(k), unusable(k)) for k in range(99)] + [line("a", Failed("no memory")), line("b", Value(1.0))]
    assert figures(PLAIN, lines)["good", ""].errors == {UNUSABLE_FILES: 99, "no memory": 1}


def own_reasons(lines: Iterable[ScoreLine]) -> list[Aggregate]:
    whys = Counter(each.score.figures["good"].because for each in lines)  # type: ignore[union-attr]
    errors = {unusable(k).error: 1 for k in range(30)}
    return [Aggregate("own", "own", "%", "lower", None, 0, 100, 30, unavailable=dict(whys), errors=errors)]


def test_the_reasons_of_what_a_metric_summarises_itself_are_bounded_too() -> None:
    own = Metric("own", "1", "for this test", (), summarise=f"{__name__}:own_reasons")
    (found,) = aggregate(own, lambda: (line(str(k), Unavailable(f"{k} ms")) for k in range(100)))
    assert found.errors == {UNUSABLE_FILES: 30}
    assert (len(found.unavailable), found.unavailable[OTHER_REASONS]) == (REASONS_AT_MOST + 1, 80)


def corpus_rate(lines: Iterable[ScoreLine]) -> list[Aggregate]:
    return [Aggregate("rate", "corpus rate", "%", "lower", 12.5, used=len(list(lines)), skipped=0, failed=0)]


def test_what_a_metric_summarises_itself_is_not_averaged() -> None:
    own = Metric("own", "1", "for this test", FIGURES, summarise=f"{__name__}:corpus_rate")
    found = aggregate(own, lambda: iter([line("a", Value(1.0), Value(3.0))]))
    assert [(one.figure, one.value) for one in found] == [("rate", 12.5), ("good", 1.0)]
