"""Comparison, refusals, objectives and the gate, on hand-made runs: exact numbers, exact words."""

from __future__ import annotations

import dataclasses
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from harness.compare.compare import compare_metric, compare_runs, verdict_of
from harness.compare.fit import MUST_BE_EQUAL, judged_fit, mismatches, remarks
from harness.compare.gate import Gate, hold, parse_regression
from harness.compare.junit import junit_xml
from harness.compare.side import Attempts, Performed, Side
from harness.compare.slo import Slo, parse_slo
from metrics.comparison import Comparison, Difference, compare_clustered, compare_paired, rate_difference, wilson
from metrics.result import TurnResult
from sessions.errors import SetupError
from sessions.runs import Limits, Load, Plan, Share
from tests.support import run_samples

V2V = "voice_to_voice_ms"


def side(dialogues: list[list[float | None]], *, plan: Plan | None = None, failed: int = 0, invalid: int = 0) -> Side:
    """A run of those voice-to-voice latencies; `failed` and `invalid` turns more in the last dialogue."""
    performed = []
    for number, values in enumerate(dialogues):
        turns: list[TurnResult] = [run_samples.turn(index, value) for index, value in enumerate(values)]
        if number == len(dialogues) - 1:
            turns += [run_samples.turn(100 + k, None, turn_class="failed", outcome="time-out") for k in range(failed)]
            turns += [run_samples.turn(500 + k, 9e5, turn_class="invalid", outcome="late") for k in range(invalid)]
        performed.append(Performed(f"d{number + 1:04}", "garden", turns))
    return Side(Path("runs/x"), plan or run_samples.plan(), performed)


def steps(count: int, turns: int = 2, *, by: float = 10.0, base: float = 400.0) -> list[list[float | None]]:
    """Dialogue k: all its turns take base + by·k."""
    return [[base + by * k] * turns for k in range(count)]


def changed(**fields: Any) -> Plan:
    return msgspec.structs.replace(run_samples.plan(), **fields)


def with_turn(**fields: Any) -> Plan:
    """The sample plan whose first turn differs."""
    script = run_samples.plan().scripts[0]
    turns = [msgspec.structs.replace(script.turns[0], **fields), *script.turns[1:]]
    return changed(scripts=[msgspec.structs.replace(script, turns=turns)])


# Differences


def test_a_constant_shift_of_pairs_is_known_exactly() -> None:
    pairs = {f"d{k}": [(400.0 + 10 * k, 358.0 + 10 * k), (500.0 + k, 458.0 + k)] for k in range(12)}
    found = compare_paired(pairs)
    assert (found.pairing, found.n_a, found.n_b, found.dialogues_a, found.dialogues_b) == ("paired", 24, 24, 12, 12)
    p50, p95, p99 = found.differences
    assert p50.a is not None and p50.b == p50.a - 42 and p50.difference == -42.0
    assert p50.ci95 == pytest.approx((-42.0, -42.0)) and p50.shown is True and not p50.reason
    assert p95.difference == pytest.approx(-42.0) and p95.ci95 == pytest.approx((-42.0, -42.0))
    assert (p99.difference, p99.ci95, p99.shown, p99.reason) == (None, None, None, "needs 100 samples, has 24")
    assert (
        verdict_of(V2V, found)
        == "B is 42 ms faster at p50, 95 % CI 42 to 42; B is 42 ms faster at p95, 95 % CI 42 to 42"
    )


def test_the_same_values_clustered_are_less_certain() -> None:
    a = {f"d{k}": [400.0 + 10 * k] for k in range(12)}
    b = {f"d{k}": [358.0 + 10 * k] for k in range(12)}
    paired = compare_paired({name: [(a[name][0], b[name][0])] for name in a}).differences[0]
    clustered = compare_clustered(a, b).differences[0]
    assert paired.difference == clustered.difference == -42.0
    assert paired.shown is True and clustered.shown is False and clustered.ci95 is not None
    low, high = clustered.ci95
    assert low < -42.0 < 0.0 < high


def test_paired_equals_a_plain_bootstrap() -> None:
    rng = np.random.default_rng(8)
    pairs = {f"d{k:02}": rng.normal(400, 50, (int(rng.integers(1, 5)), 2)).tolist() for k in range(10)}
    names = sorted(pairs)
    draws = np.random.default_rng([6, 0]).multinomial(10, np.full(10, 1 / 10), size=300)
    differences = []
    for row in draws.tolist():
        drawn = [pair for times, name in zip(row, names, strict=True) for pair in pairs[name] * times]
        medians = np.median(np.asarray(drawn), axis=0)
        differences.append(medians[1] - medians[0])
    tail = 0.85618  # %: Φ(−√(10/9)·2.26216)
    expected = tuple(np.percentile(differences, [tail, 100 - tail]))
    found = compare_paired(
        {name: [tuple(pair) for pair in values] for name, values in pairs.items()}, resamples=300, seed=6
    )
    assert found.differences[0].ci95 == pytest.approx(expected, rel=1e-3)


def test_order_blocks_and_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    a = {f"d{k}": [k * 3.0, k * k / 7] for k in range(14)}
    b = {f"e{k}": [k * 2.5] for k in range(11)}
    whole = compare_clustered(a, b, resamples=200)
    assert compare_clustered(dict(reversed(a.items())), b, resamples=200) == whole
    assert compare_clustered(a, b, resamples=200, seed=2) != whole
    monkeypatch.setattr("metrics.stats._CELLS", 7 * 39)
    assert compare_clustered(a, b, resamples=200) == whole


def test_below_ten_dialogues_there_is_no_interval_and_it_says_so() -> None:
    nine = compare_clustered({f"d{k}": [400.0] for k in range(30)}, {f"d{k}": [380.0] * 3 for k in range(9)})
    p50, p95, _ = nine.differences
    assert (p50.difference, p50.ci95, p50.reason) == (-20.0, None, "needs 10 dialogues, has 9")
    assert (p95.difference, p95.ci95, p95.reason) == (-20.0, None, "needs 10 dialogues, has 9")
    assert verdict_of(V2V, nine) == "B is 20 ms faster at p50, no interval; B is 20 ms faster at p95, no interval"


def test_no_values() -> None:
    nothing = compare_paired({"d1": []})
    assert [one.reason for one in nothing.differences] == ["no values"] * 3
    assert verdict_of(V2V, nothing) == "nothing to compare: no values"
    with pytest.raises(ValueError, match="must be finite"):
        compare_paired({"d1": [(1.0, float("nan"))]})


def one(difference: float, ci95: tuple[float, float] | None, figure: str = "p50") -> Difference:
    return Difference(figure, 500.0, 500.0 + difference, difference, ci95, "")


@pytest.mark.parametrize(
    ("metric", "differences", "words"),
    [
        (V2V, [one(-42, (-55, -31))], "B is 42 ms faster at p50, 95 % CI 31 to 55"),
        (V2V, [one(7.25, (0.5, 12))], "B is 7.25 ms slower at p50, 95 % CI 0.50 to 12.00"),
        (V2V, [one(-42, (-55, 0))], "no difference shown at p50"),
        (
            V2V,
            [one(-42, (-55, -31)), one(-3, (-80, 70), "p95"), one(9, (-80, 70), "p99")],
            "B is 42 ms faster at p50, 95 % CI 31 to 55; no difference shown at p95 and p99",
        ),
        ("underruns_b0", [one(2, (1, 3))], "B is 2.0 higher at p50, 95 % CI 1.0 to 3.0"),
        ("gap_max_ms", [one(-20, (-30, -10))], "B is 20 ms lower at p50, 95 % CI 10 to 30"),
        (V2V, [one(0, None)], "no difference at p50, no interval"),
    ],
)
def test_verdicts(metric: str, differences: list[Difference], words: str) -> None:
    assert verdict_of(metric, Comparison("paired", 9, 9, 9, 9, differences)) == words


# Pairs of dialogues


def test_turns_without_a_value_on_both_sides_are_left_out() -> None:
    a, b = side([[400.0, 500.0, 600.0]]), side([[410.0, None, 610.0]])
    found = compare_metric(a, b, V2V)
    assert (found.pairing, found.n_a, found.n_b) == ("paired", 2, 2)
    assert found.differences[0].difference == 10.0


def test_another_number_of_dialogues_is_clustered() -> None:
    a, b = side(steps(12)), side(steps(11))
    compared = compare_runs(a, b, [V2V])
    assert compared.rows[0].comparison.pairing == "clustered" and compared.pairing.startswith("clustered: ")
    assert (compared.rows[0].comparison.n_a, compared.rows[0].comparison.n_b) == (24, 22)
    assert compare_runs(a, a, [V2V]).pairing.startswith(
        "paired: both performed the same 12 dialogues in the same order"
    )


def test_a_run_does_not_differ_from_itself() -> None:
    a = side(steps(12))
    compared = compare_runs(a, a, [V2V, "first_packet_ms"])
    assert [row.verdict for row in compared.rows] == ["no difference shown at p50 and p95"] * 2
    assert not compared.warnings and not compared.allowed
    assert compared.remarks == [
        "each row is judged by itself: of 20 rows without a difference, one on average shows one by chance"
    ]


# What may be compared


@pytest.mark.parametrize(
    ("field", "other", "told"),
    [
        ("protocol_class", changed(protocol_class="B"), "protocol_class: A has A, B has B"),
        ("turn_detection", changed(turn_detection="server_vad"), "turn_detection: A has manual, B has server_vad"),
        (
            "server_vad",
            changed(server_vad={"threshold": 0.5}),
            "server_vad: A has the server's own, B has threshold 0.5",
        ),
        (
            "definitions",
            changed(definitions=run_samples.plan().definitions | {"gate": "7"}),
            "definitions: A has gate/1, B has gate/7",
        ),
        (
            "audio",
            with_turn(audio="f" * 64),
            "audio: A has also garden (clips 00000000, 00000000, 00000000), B has also",
        ),
        (
            "speech_end",
            with_turn(last_sample=19_000),
            "speech_end: A has sample 20000 of clip 00000000 (annotation), B has",
        ),
        (
            "speech_end",
            with_turn(method="energy-1"),
            "speech_end: A has sample 20000 of clip 00000000 (annotation), B has",
        ),
        (
            "pacing",
            changed(frame_ms=40),
            "pacing: A has frames of 20 ms at 24000 Hz, B has frames of 40 ms at 24000 Hz",
        ),
        (
            "pacing",
            changed(rate_hz=16_000),
            "pacing: A has frames of 20 ms at 24000 Hz, B has frames of 20 ms at 16000",
        ),
        ("pacing", with_turn(gap_ms=900.0), "pacing: A has turns 300 ms after reply, 300 ms after reply"),
        ("pacing", with_turn(at_ms=5000.0), "pacing: A has turns 300 ms after reply, 300 ms after reply"),
        ("pacing", with_turn(kind="overlap"), "pacing: A has turns 300 ms after reply, 300 ms after reply"),
    ],
)
def test_what_is_refused_and_allowed_by_name(field: str, other: Plan, told: str) -> None:
    plan = run_samples.plan()
    assert [found.field for found in mismatches(plan, other)] == [field]
    a, b = side(steps(12)), side(steps(12), plan=other)
    with pytest.raises(SetupError) as refused:
        compare_runs(a, b, [V2V])
    assert f"these runs cannot be compared: {told}" in str(refused.value)
    assert f"--allow {field}" in refused.value.mend
    with pytest.raises(SetupError, match="cannot be compared"):
        judged_fit(plan, other, [name for name in MUST_BE_EQUAL if name != field])
    compared = compare_runs(a, b, [V2V, "gap_max_ms"], [field])
    assert [row.marks for row in compared.rows] == [[field]] * 2
    assert compared.allowed[field].startswith(told)


def test_other_audio_is_never_paired() -> None:
    compared = compare_runs(side(steps(12)), side(steps(12), plan=with_turn(audio="f" * 64)), [V2V], ["audio"])
    assert compared.rows[0].comparison.pairing == "clustered"


def test_every_difference_is_named_at_once() -> None:
    with pytest.raises(SetupError, match=r"turn_detection: .*; pacing: .*--allow turn_detection --allow pacing"):
        judged_fit(run_samples.plan(), changed(turn_detection="server_vad", frame_ms=10), [])


def test_an_unknown_field_is_no_licence() -> None:
    with pytest.raises(SetupError, match=r"--allow pace: no such field\. Did you mean 'pacing'"):
        judged_fit(run_samples.plan(), run_samples.plan(), ["pace"])


def test_what_is_only_remarked() -> None:
    script = msgspec.structs.replace(
        run_samples.plan().scripts[0], name="other", sha256="cd" * 32, instructions="Sing."
    )
    other = changed(
        protocol="another", voice="ash", limits=Limits(lateness_ms=5), load=Load(sessions=8), scripts=[script]
    )
    assert not mismatches(run_samples.plan(), other)
    assert remarks(run_samples.plan(), other) == [
        "protocol: A has openai-realtime, B has another",
        "voice: A has the server's own, B has ash",
        "load: A has 1 at once, B has 8 at once",
        "lateness limit: A has 20 ms, B has 5 ms",
        "instructions: A has 'Answer in one sentence.', B has 'Sing.'",
    ]
    part = changed(shard=Share(1, 3), load=Load(rate_per_s=2, arrivals="constant", max_sessions=9))
    assert remarks(run_samples.plan(), part) == [
        "load: A has 1 at once, B has 2 dialogues a second (constant), at most 9 at once",
        "performed: A has the whole plan, B has shard 2/3 of its plan alone",
    ]
    only_one_knows = changed(definitions=run_samples.plan().definitions | {"new_measure": "1"})
    assert not mismatches(run_samples.plan(), only_one_knows)


# Shares of failures


def test_newcombes_intervals() -> None:
    """Newcombe (1998), table II, method 10: 56/70 − 48/80, 9/10 − 3/10, 10/10 − 0/20."""
    assert rate_difference(48, 80, 56, 70) == pytest.approx((0.0524, 0.3339), abs=5e-5)
    assert rate_difference(3, 10, 9, 10) == pytest.approx((0.1705, 0.8090), abs=5e-5)
    assert rate_difference(0, 20, 10, 10) == pytest.approx((0.6791, 1.0000), abs=5e-5)
    assert wilson(0, 10) == pytest.approx((0.0, 0.2775), abs=5e-5)


def test_a_warning_where_failures_differ() -> None:
    good, bad = side(steps(30)), side(steps(30), failed=20)
    (warning,) = compare_runs(good, bad, [V2V]).warnings
    assert warning.startswith("the shares of failed turns differ: A 0 of 60, B 20 of 80 (B − A ")
    assert "of completed turns only" in warning
    assert not compare_runs(good, side(steps(30), failed=2), [V2V]).warnings
    (warning,) = compare_runs(side(steps(30), invalid=20), good, [V2V]).warnings
    assert warning.startswith("the shares of invalid turns differ: A 20 of 80, B 0 of 60 ")


# Objectives


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("voice_to_voice p95 < 800ms", (V2V, "p95", "<", 800.0, "ms")),
        ("Voice-to-Voice P50<=0.8 s", (V2V, "p50", "<=", 800.0, "ms")),
        ("voice_to_voice_ms mean < 700", (V2V, "mean", "<", 700.0, "ms")),
        ("underruns_b0 max <= 0", ("underruns_b0", "max", "<=", 0.0, "count")),
        ("real_time_factor p99 < 0.9", ("real_time_factor", "p99", "<", 0.9, "ratio")),
        ("voice_to_voice min >= -200ms", (V2V, "min", ">=", -200.0, "ms")),
        ("failed <= 1%", ("failed", "share", "<=", 1.0, "%")),
        ("failed<=2", ("failed", "count", "<=", 2.0, "turns")),
        ("invalid < 5 %", ("invalid", "share", "<", 5.0, "%")),
    ],
)
def test_objectives_are_read(text: str, expected: tuple[str, str, str, float, str]) -> None:
    assert parse_slo(text) == Slo(text, *expected)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("fast please", "cannot read the SLO 'fast please'"),
        ("", "cannot read the SLO ''"),
        ("voice_to_voic p95 < 800ms", "unknown metric 'voice_to_voic'. Did you mean 'voice_to_voice'?"),
        ("faild <= 1%", "unknown metric 'faild'. Did you mean 'failed'?"),
        ("voice_to_voice p90 < 800ms", "unknown figure 'p90'. Known: p50, p95, p99, mean, min, max"),
        ("voice_to_voice < 800ms", "the figure is missing"),
        ("failed p95 < 1%", "failed has no figure 'p95'"),
        ("voice_to_voice p95 < 1%", "is not a share. Give the bound in ms"),
        ("real_time_factor p50 < 1s", "real_time_factor is not a time"),
        ("voice_to_voice p95 < fast", "'fast' is not a number"),
        ("voice_to_voice p95 < nan", "the bound must be finite"),
    ],
)
def test_objectives_that_cannot_be_read(text: str, problem: str) -> None:
    with pytest.raises(SetupError) as refused:
        parse_slo(text)
    assert problem in str(refused.value) and "\n" not in str(refused.value)


NONE = Attempts(0, 0, 0)


def test_objectives_are_judged() -> None:
    values = {"d1": [float(k) for k in range(700, 715)], "d2": [float(k) for k in range(715, 720)]}
    p95 = parse_slo("voice_to_voice p95 < 718.05ms").judge(values, NONE)
    assert p95.held is False and p95.value == pytest.approx(718.05)
    assert p95.why == "p95 = 718.05 ms (over 20 turns), not < 718.05 ms"
    assert parse_slo("voice_to_voice p95 <= 719ms").judge(values, NONE).why == "p95 = 718 ms (over 20 turns), <= 719 ms"
    assert parse_slo("voice_to_voice p95 < 718ms").judge(values, NONE).why == (
        "p95 = 718.05 ms (over 20 turns), not < 718 ms"
    )
    assert parse_slo("voice_to_voice max < 719.5").judge(values, NONE).held is True
    assert parse_slo("voice_to_voice mean > 709.5").judge(values, NONE).held is False


def test_a_figure_that_may_not_be_told_is_not_held() -> None:
    few = {"d1": [1.0] * 19}
    found = parse_slo("voice_to_voice p95 < 800ms").judge(few, NONE)
    assert (found.held, found.value, found.why) == (
        None,
        None,
        "p95 cannot be told: it needs 20 samples, there are 19",
    )
    assert parse_slo("voice_to_voice p99 < 800ms").judge({"d1": [1.0] * 99}, NONE).held is None
    assert parse_slo("voice_to_voice p50 < 800ms").judge({}, NONE).why == (
        "p50 cannot be told: no completed turn has a value"
    )
    assert parse_slo("failed <= 1%").judge({}, Attempts(0, 5, 0)).held is None


def test_failures_are_bounded() -> None:
    attempts = Attempts(completed=97, invalid=10, failed=3)
    share, count = (parse_slo(text).judge({}, attempts) for text in ("failed <= 2%", "failed <= 3"))
    assert (share.held, share.value, share.why) == (False, 3.0, "failed = 3 % (3 of 100 turns), not <= 2 %")
    assert (count.held, count.value) == (True, 3.0)
    invalid = parse_slo("invalid < 10%").judge({}, attempts)
    assert invalid.held is True and invalid.value == pytest.approx(100 * 10 / 110)


# The gate


def test_regressions_are_read() -> None:
    read = parse_regression("voice_to_voice p50 5%")
    assert (read.metric, read.figure, read.allowed, read.unit) == (V2V, "p50", 5.0, "%")
    read = parse_regression("first-packet p95 0.04s")
    assert (read.metric, read.figure, read.allowed, read.unit) == ("first_packet_ms", "p95", 40.0, "ms")
    read = parse_regression("failed 1%")
    assert (read.metric, read.figure, read.allowed, read.unit) == ("failed", "share", 1.0, "points")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("voice_to_voice p50 < 5%", "cannot read the regression"),
        ("voice_to_voice p50", "cannot read the regression"),
        ("voice_to_voice 5%", "the figure is missing"),
        ("voice_to_voice mean 5%", "mean is not compared between runs. Choose p50, p95 or p99"),
        ("voice_to_voice p50 -5%", "cannot be below 0"),
        ("reply_duration p50 5%", "has no better and no worse"),
        ("failed 2", "failed is bounded in %"),
        ("voice p50 5%", "unknown metric 'voice'"),
    ],
)
def test_regressions_that_cannot_be_read(text: str, problem: str) -> None:
    with pytest.raises(SetupError) as refused:
        parse_regression(text)
    assert problem in str(refused.value) and "\n" not in str(refused.value)


def judged(run: Side, baseline: Side, *texts: str) -> Gate:
    return hold(run, [], baseline, [parse_regression(text) for text in texts])


def test_a_regression_is_found() -> None:
    before, after = side(steps(12, base=345.0)), side(steps(12, base=365.0))  # medians 400 and 420
    found = judged(after, before, "voice_to_voice p50 4%", "voice_to_voice p50 5%", "voice_to_voice p50 19.9ms")
    assert [check.held for check in found.checks] == [False, True, False] and not found.passed
    assert found.checks[0].value == pytest.approx(5.0)
    assert found.checks[0].why.startswith(
        "p50 = 420 ms, baseline 400 ms, paired: worse by 5 %, beyond the 4 % allowed (95 % CI of what it is worse: "
    )
    better = judged(before, after, "voice_to_voice p50 0%").checks[0]
    assert better.held is True and "better by 4.762 %, within the 0 % allowed" in better.why


def test_a_regression_that_cannot_be_told_fails() -> None:
    found = judged(side(steps(3)), side(steps(3)), "voice_to_voice p95 50%")
    assert (found.passed, found.checks[0].held) == (False, None)
    assert found.checks[0].why == "p95 cannot be told: needs 20 samples, has 6"
    nothing = judged(side(steps(3, base=-20.0)), side(steps(3, base=-20.0)), "voice_to_voice p50 5%")
    assert nothing.checks[0].held is None and "of which there is no share" in nothing.checks[0].why


def test_failures_may_not_grow() -> None:
    found = judged(side(steps(20), failed=10), side(steps(20)), "failed 1%", "failed 20%")
    assert [check.held for check in found.checks] == [False, True]
    assert found.checks[0].why.startswith(
        "failed = 10 of 50 turns, baseline 0 of 40: worse by 20 points, beyond the 1 point"
    )


def test_a_baseline_under_other_conditions_is_refused() -> None:
    other = side(steps(12), plan=changed(turn_detection="server_vad"))
    with pytest.raises(SetupError, match="turn_detection"):
        judged(side(steps(12)), other, "voice_to_voice p50 5%")
    allowed = hold(side(steps(12)), [], other, [parse_regression("voice_to_voice p50 5%")], ["turn_detection"])
    assert allowed.passed and allowed.checks[0].marks == ["turn_detection: A has server_vad, B has manual"]


def test_failures_that_nothing_bounds_are_remarked() -> None:
    run = side(steps(12), failed=3)
    loose = hold(run, [parse_slo("voice_to_voice p95 < 9s")])
    assert loose.passed and loose.remarks == [
        "3 failed turns in no latency, and nothing here bounds them: --slo 'failed <= 1%'"
    ]
    assert not hold(run, [parse_slo("failed <= 50%")]).remarks


def test_what_was_lost_or_not_performed_does_not_pass_in_silence() -> None:
    run = dataclasses.replace(side(steps(12)), lost_turns=6, left="3 dialogues")
    bounded = hold(run, [parse_slo("failed <= 10%"), parse_slo("invalid <= 0%")])
    assert [check.held for check in bounded.checks] == [False, True]
    assert bounded.checks[0].why == "failed = 20 % (6 of 30 turns, 6 of them lost), not <= 10 %"
    loose = hold(run, [parse_slo("voice_to_voice p95 < 9s")])
    assert loose.passed and loose.remarks == [
        "6 lost turns in no latency, and nothing here bounds them: --slo 'failed <= 1%'",
        "the run was interrupted, 3 dialogues left: duologue measure --resume runs/x",
    ]
    grown = judged(run, side(steps(12)), "failed 1%").checks[0]
    assert grown.held is False and grown.why.startswith("failed = 6 of 30 turns, 6 of them lost, baseline 0 of 24")
    compared = compare_runs(side(steps(12)), run, [V2V])
    assert (compared.b.lost, compared.b.left) == (6, "3 dialogues")
    assert compared.warnings[0].startswith("the shares of failed or lost turns differ: A 0 of 24, B 6 of 30 ")


def test_junit_says_the_same() -> None:
    slos = [parse_slo(text) for text in ("voice_to_voice p95 < 9s", "voice_to_voice p99 < 9s", "failed <= 1%")]
    found = hold(side(steps(12), failed=3), slos)
    root = ET.fromstring(junit_xml(found))
    assert root.tag == "testsuites" and (root.get("tests"), root.get("failures"), root.get("errors")) == ("3", "2", "0")
    cases = root.findall("./testsuite/testcase")
    assert [case.get("name") for case in cases] == [slo.text for slo in slos]
    failures = [case.find("failure") for case in cases]
    assert failures[0] is None and failures[1] is not None and failures[2] is not None
    assert (failures[1].get("type"), failures[2].get("type")) == ("untold", "slo")
    assert failures[1].get("message") == "p99 cannot be told: it needs 100 samples, there are 24"
    assert root.find("./testsuite/properties/property[@name='run']") is not None
    strange = hold(Side(Path("runs/\x07<&"), run_samples.plan(), side(steps(1)).dialogues), slos[:1])
    assert ET.fromstring(junit_xml(strange)) is not None
