"""Trials beside each other: figures by hand, and a test that is right as often as it says."""

from __future__ import annotations

import math

import numpy as np
import pytest

from metrics.trials import Spoken, TrialSpread, spread_of_trials


def trial(*dialogues: float, script: str = "facts") -> list[Spoken]:
    """Dialogues of one value each."""
    return [(script, [value]) for value in dialogues]


def test_figures_by_hand() -> None:
    found = spread_of_trials([trial(100, 110, 120), trial(130, 140, 150), trial(100, 120, 140)])
    assert found.p50s == [110, 140, 120]
    assert (found.minimum, found.maximum) == (110, 140)
    mean, sd = 370 / 3, math.sqrt(sum((p - 370 / 3) ** 2 for p in (110, 140, 120)) / 2)
    assert found.mean == pytest.approx(mean) and found.sd == pytest.approx(sd)
    assert found.ci95 == pytest.approx((mean - 4.3027 * sd / math.sqrt(3), mean + 4.3027 * sd / math.sqrt(3)))
    assert found.within_sd == pytest.approx(math.sqrt((200 + 200 + 800) / 6))


def test_two_trials_have_the_wide_interval_of_one_degree_of_freedom() -> None:
    found = spread_of_trials([trial(100), trial(104)])
    assert found.ci95 == pytest.approx((102 - 12.7062 * 2, 102 + 12.7062 * 2))
    assert found.differ is None and found.reason == "too few dialogues in each trial"
    assert found.within_sd is None


def test_the_interval_goes_on_into_the_expansion() -> None:
    """9 and 10 trials: 8 degrees from the table, 9 from the expansion of `student_t`."""
    for k, t in ((9, 2.3060), (10, 2.2622)):
        found = spread_of_trials([trial(float(number)) for number in range(k)])
        assert found.ci95 is not None and found.sd is not None
        assert (found.ci95[1] - found.ci95[0]) / 2 == pytest.approx(t * found.sd / math.sqrt(k), rel=1e-4)


def test_trials_that_lie_apart_differ() -> None:
    found = spread_of_trials([trial(*range(300, 310)), trial(*range(340, 350))])
    assert found.differ is True and found.p_value is not None and found.p_value < 0.001


def test_equal_trials_do_not() -> None:
    found = spread_of_trials([trial(*range(300, 310))] * 3)
    assert found.differ is False and found.p_value == 1.0
    same = spread_of_trials([trial(300, 300, 300, 300)] * 3)
    assert (same.sd, same.differ) == (0, False)


def test_scripts_are_ranked_apart() -> None:
    """A slow script in other shares is no difference between trials; one that is hidden behind it is found."""
    slow = [trial(*range(900, 908), script="slow") + trial(*range(100, 102))]
    quick = [trial(*range(900, 902), script="slow") + trial(*range(100, 108))]
    assert spread_of_trials([*slow, *quick]).differ is False
    hidden = [trial(*range(900, 910), script="slow") + trial(*range(100, 110))]
    later = [trial(*range(920, 930), script="slow") + trial(*range(120, 130))]
    assert spread_of_trials([*hidden, *later]).differ is True


def test_trials_without_values_are_left_out() -> None:
    found = spread_of_trials([trial(*range(10)), [("facts", [])], trial(*range(10))])
    assert found.p50s == [4.5, None, 4.5] and found.sd == 0
    lone = spread_of_trials([trial(1.0), []])
    assert lone == TrialSpread([1.0, None], reason="needs 2 trials with values, has 1")
    with pytest.raises(ValueError, match="finite"):
        spread_of_trials([trial(math.nan), trial(1.0)])


def test_the_test_is_right_as_often_as_it_says() -> None:
    """200 measurements of 4 trials, 10 correlated dialogues of 3 turns: seldom a difference where there is none."""
    rng = np.random.default_rng(7)

    def differ(between: float) -> float:
        found = []
        for _ in range(200):
            trials = []
            for shift in rng.normal(0, between, 4):
                dialogues = rng.normal(300 + shift, 20, 10)[:, None] + rng.normal(0, 10, (10, 3))
                trials.append([("facts", values.tolist()) for values in dialogues])
            found.append(spread_of_trials(trials).differ is True)
        return sum(found) / len(found)

    assert differ(0) <= 0.085
    assert differ(40) >= 0.9
