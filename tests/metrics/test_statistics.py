"""Percentiles and intervals: known tables, numpy, and the coverage of the bootstrap."""

from __future__ import annotations

import math
from statistics import NormalDist

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics.stats import Distribution, percentile, student_t, summarise

finite = st.floats(-1e6, 1e6)


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [
        # Hyndman and Fan (1996), definition 7: h = (n − 1)·q.
        ([1, 2, 3, 4], 50, 2.5),
        ([1, 2, 3, 4], 25, 1.75),
        ([15, 20, 35, 40, 50], 40, 29.0),
        ([3, 6, 7, 8, 8, 10, 13, 15, 16, 20], 75, 14.5),
        ([7], 95, 7.0),
        ([2, 1], 0, 1.0),
        ([2, 1], 100, 2.0),
    ],
)
def test_known_percentiles(values: list[float], percent: float, expected: float) -> None:
    assert percentile(values, percent) == pytest.approx(expected, rel=1e-12)


@given(values=st.lists(finite, min_size=1, max_size=60), percent=st.floats(0, 100))
def test_percentiles_are_numpys(values: list[float], percent: float) -> None:
    assert percentile(values, percent) == pytest.approx(float(np.percentile(values, percent)), rel=1e-9, abs=1e-6)


def test_no_values() -> None:
    with pytest.raises(ValueError, match="no values"):
        percentile([], 50)
    empty = summarise({"a": [], "b": []})
    assert (empty.n, empty.dialogues, empty.p50, empty.mean, empty.ci95) == (0, 0, None, None, {})
    assert set(empty.reasons) == {"p50", "p95", "p99", "ci95"}


def test_small_samples_have_no_tail_percentiles_and_say_why() -> None:
    few = summarise({"a": list(range(19))})
    assert few.p95 is None and few.reasons["p95"] == "needs 20 samples, has 19"
    assert (few.minimum, few.maximum, few.p50, few.mean) == (0, 18, 9, 9)
    enough = summarise({"a": list(range(20))})
    assert enough.p95 == pytest.approx(18.05) and enough.p99 is None and "p95" not in enough.reasons
    assert summarise({"a": list(range(99))}).p99 is None
    assert summarise({"a": list(range(100))}).p99 == pytest.approx(98.01)


def test_intervals_need_ten_dialogues_with_values() -> None:
    nine = {f"d{k}": [float(k), k + 1.0] for k in range(9)} | {"silent": []}
    found = summarise(nine)
    assert found.ci95 == {} and found.reasons["ci95"] == "needs 10 dialogues, has 9" and found.dialogues == 9
    ten = summarise(nine | {"d9": [9.0]})
    assert set(ten.ci95) == {"p50", "mean"} and "ci95" not in ten.reasons
    assert ten.p50 is not None and ten.ci95["p50"][0] <= ten.p50 <= ten.ci95["p50"][1]


def test_tail_intervals_are_withheld_where_they_end_beyond_all_values() -> None:
    rng = np.random.default_rng(4)
    some = summarise({f"d{k}": rng.normal(0, 1, 10).tolist() for k in range(12)})
    assert set(some.ci95) == {"p50", "mean"} and some.p95 is not None and some.p99 is not None
    assert some.reasons["ci95_p95"] == "an end of it lies beyond all values; needs more dialogues"
    many = summarise({f"d{k}": rng.normal(0, 1, 10).tolist() for k in range(30)})
    assert set(many.ci95) == {"p50", "p95", "mean"} and set(many.reasons) == {"ci95_p99"}
    all_of_them = summarise({f"d{k}": rng.normal(0, 1, 10).tolist() for k in range(90)})
    assert set(all_of_them.ci95) == {"p50", "p95", "p99", "mean"} and not all_of_them.reasons


def test_a_tail_interval_counted_by_hand() -> None:
    """400 dialogues of one value 0 … 399: p95 ± 1.966·√(0.95·0.05/400) is 0.9286 … 0.9714, ranks 371.4 and 388.6."""
    low, high = summarise({f"d{k:03}": [float(k)] for k in range(400)}).ci95["p95"]
    assert (low, high) == (370.0, 389.0)


@pytest.mark.parametrize(("freedom", "expected"), [(9, 2.26216), (19, 2.09302), (29, 2.04523), (120, 1.97993)])
def test_students_t(freedom: int, expected: float) -> None:
    assert student_t(freedom) == pytest.approx(expected, abs=1e-4)


def test_the_same_values_give_the_same_intervals() -> None:
    values = {f"d{k}": [k * 1.5, k * k / 7] for k in range(12)}
    turned = dict(reversed(values.items()))
    assert summarise(values) == summarise(turned) == summarise(values, seed=1)
    assert summarise(values).ci95 != summarise(values, seed=2).ci95


def test_dialogues_are_resampled_whole() -> None:
    """Values that agree within a dialogue carry no more information than one value a dialogue."""
    rng = np.random.default_rng(3)
    means = rng.normal(0, 1, 20)
    alone = summarise({f"d{k}": [float(mean)] for k, mean in enumerate(means)}).ci95["mean"]
    copied = summarise({f"d{k}": [float(mean)] * 25 for k, mean in enumerate(means)}).ci95["mean"]
    assert copied == pytest.approx(alone, rel=1e-9)


def test_intervals_equal_a_plain_bootstrap() -> None:
    rng = np.random.default_rng(5)
    groups = {f"d{k:02}": rng.exponential(100, rng.integers(1, 5)).tolist() for k in range(15)}
    found = summarise(groups, resamples=400, seed=9)
    draws = np.random.default_rng(9).multinomial(15, np.full(15, 1 / 15), size=400)
    medians = [
        np.percentile(
            [value for times, name in zip(row, sorted(groups), strict=True) for value in groups[name] * times], 50
        )
        for row in draws.tolist()
    ]
    tail = 100 * NormalDist().cdf(-math.sqrt(15 / 14) * 2.14479)  # t of 14 degrees, from a table
    assert found.ci95["p50"] == pytest.approx(tuple(np.percentile(medians, [tail, 100 - tail])), rel=1e-4)


def test_blocks_of_resamples_do_not_change_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    groups = {f"d{k}": [k * 1.0, k * 2.0, k * 3.0] for k in range(11)}
    whole = summarise(groups, resamples=100)
    monkeypatch.setattr("metrics.stats._CELLS", 7 * 33)
    assert summarise(groups, resamples=100) == whole


def test_intervals_cover_the_truth() -> None:
    """Coarsely: 95 % intervals of clustered data hold the true median in 88 to 99.5 % of 200 seeded trials."""
    rng = np.random.default_rng(11)
    held = 0
    for trial in range(200):
        centres = 300 + rng.normal(0, 40, 25)
        groups = {f"d{k}": rng.normal(centre, 20, 4).tolist() for k, centre in enumerate(centres)}
        low, high = summarise(groups, resamples=300, seed=trial).ci95["p50"]
        held += low <= 300 <= high
    assert 0.88 * 200 <= held <= 0.995 * 200


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_values_must_be_numbers(bad: float) -> None:
    with pytest.raises(ValueError, match="must be finite"):
        summarise({"a": [1.0, bad]})


@given(groups=st.dictionaries(st.text(max_size=3), st.lists(finite, max_size=8), max_size=14))
def test_a_summary_is_in_order_and_survives_a_file(groups: dict[str, list[float]]) -> None:
    found = summarise(groups, resamples=50)
    assert found.n == sum(map(len, groups.values()))
    if found.p50 is not None and found.minimum is not None and found.maximum is not None:
        assert found.minimum <= found.p50 <= found.maximum
    for low, high in found.ci95.values():
        assert low <= high
    assert msgspec.json.decode(msgspec.json.encode(found), type=Distribution) == found
