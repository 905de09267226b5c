"""The play-out model: the golden cases, and what must hold for any arrivals."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from metrics.conversation import Conversation, Packet, Reply, UserTurn
from metrics.playout import (
    Arrival,
    Playout,
    Segment,
    arrivals_of,
    duration_ns,
    gapless_prebuffer_ns,
    nearest_ns,
    play,
    real_time_factor,
)
from metrics.result import PLAYOUT_BUFFERS_MS, Value
from metrics.turns import measure_conversation
from sessions.clock import NS_PER_MS

GOLDEN = json.loads((Path(__file__).parents[1] / "data" / "playout_cases.json").read_text())
CASES: list[dict[str, Any]] = GOLDEN["cases"]
TOLERANCE_MS: float = GOLDEN["tolerance_ms"]


def played(arrivals: list[Arrival], rate_hz: int, buffer_ns: int = 0) -> Playout:
    playout = play(arrivals, rate_hz, buffer_ns)
    assert playout is not None
    return playout


def audible_index(packets: list[dict[str, Any]]) -> int | None:
    before = 0
    for packet in packets:
        if packet["audible_from"] is not None:
            return int(before + packet["audible_from"])
        before += packet["samples"]
    return None


def within(expected: float | None) -> Any:
    return None if expected is None else pytest.approx(expected, abs=TOLERANCE_MS)


def test_all_golden_cases_are_here() -> None:
    assert len(CASES) == 32


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_golden(case: dict[str, Any]) -> None:
    rate_hz, zero_ns, expected = case["rate_hz"], case["speech_end_ns"], case["expected"]
    arrivals = [Arrival(packet["arrival_ns"], packet["samples"]) for packet in case["packets"]]
    if play(arrivals, rate_hz) is None:
        assert expected["first_packet_ms"] is None and expected["underruns"] == {}
        with pytest.raises(ValueError, match="no audio"):
            gapless_prebuffer_ns(arrivals, rate_hz)
        return
    index = audible_index(case["packets"])
    first_ns = next(arrival.t_ns for arrival in arrivals if arrival.samples)
    assert (first_ns - zero_ns) / NS_PER_MS == within(expected["first_packet_ms"])
    for buffer_ms in PLAYOUT_BUFFERS_MS:
        playout, key = played(arrivals, rate_hz, buffer_ms * NS_PER_MS), str(buffer_ms)
        assert len(playout.underruns) == expected["underruns"][key]
        assert float(playout.underrun_ns / NS_PER_MS) == within(expected["underrun_ms"][key])
        heard_ms = None if index is None else float((playout.played_at(index) - zero_ns) / NS_PER_MS)
        assert heard_ms == within(expected["first_played_ms"][key])
    assert float(gapless_prebuffer_ns(arrivals, rate_hz) / NS_PER_MS) == within(expected["gapless_prebuffer_ms"])
    assert float(real_time_factor(arrivals, rate_hz)) == pytest.approx(expected["real_time_factor"], abs=1e-9)


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_golden_through_the_whole_chain(case: dict[str, Any]) -> None:
    """The same figures out of audio, the gate, attribution and the measures of a turn."""
    zero_ns, expected = case["speech_end_ns"], case["expected"]
    index, packets, before = audible_index(case["packets"]), [], 0
    for packet in case["packets"]:
        numbers = np.arange(before, before + packet["samples"])
        audible = numbers >= index if index is not None else np.zeros(len(numbers), dtype=bool)
        packets.append(Packet(packet["arrival_ns"], np.where(audible, 8000 * (-1) ** numbers, 0).astype(np.int16)))
        before += packet["samples"]
    start_ns = zero_ns - 10**9
    turn = UserTurn(0, start_ns, 16_000, 16_000, 15_999, zero_ns, "script")
    done_ns = max((packet.t_ns for packet in packets), default=zero_ns)
    reply = Reply("r", start_ns + 1, tuple(packets), done_ns=done_ns, status="completed")
    [result] = measure_conversation(Conversation("A", case["rate_hz"], start_ns, (turn,), (reply,)))

    def value(name: str) -> float | None:
        measured = result.measures[name]
        return measured.value if isinstance(measured, Value) else None

    assert value("first_packet_ms") == within(expected["first_packet_ms"])
    assert value("voice_to_voice_ms") == within(expected["first_audible_ms"])
    assert value("silence_padding_ms") == within(expected["silence_padding_ms"])
    assert value("gapless_prebuffer_ms") == within(expected["gapless_prebuffer_ms"])
    for buffer_ms in PLAYOUT_BUFFERS_MS:
        name = "voice_to_voice_ms" if buffer_ms == 0 else f"voice_to_voice_b{buffer_ms}_ms"
        assert value(name) == within(expected["first_played_ms"].get(str(buffer_ms)))
        assert value(f"underruns_b{buffer_ms}") == expected["underruns"].get(str(buffer_ms))
        assert value(f"underrun_b{buffer_ms}_ms") == within(expected["underrun_ms"].get(str(buffer_ms)))
    assert result.outcome == ("empty" if index is None else "answered")


def test_positions_are_exact_and_re_based_on_an_underrun() -> None:
    arrivals = [Arrival(0, 7), Arrival(0, 7), Arrival(10**6, 7), Arrival(10**6, 7)]
    playout = played(arrivals, 44_100)
    # 14 samples end at 317 460.3 ns; the third packet starts at its arrival, and the fourth follows it.
    assert playout.segments == (Segment(0, 0, 14), Segment(10**6, 14, 14))
    assert playout.underrun_ns == 10**6 - Fraction(14 * 10**9, 44_100)
    assert playout.played_at(13) == Fraction(13 * 10**9, 44_100)
    assert playout.played_at(14) == 10**6
    assert playout.played_at(27) == 10**6 + Fraction(13 * 10**9, 44_100)
    assert playout.end_ns == 10**6 + Fraction(14 * 10**9, 44_100)
    for outside in (-1, 28):
        with pytest.raises(IndexError, match="28 samples"):
            playout.played_at(outside)


def test_half_a_sample_late_is_no_underrun_and_does_not_add_up_unseen() -> None:
    rate_hz = 8000  # a sample lasts 125 000 ns
    on_the_edge = [Arrival(0, 80), Arrival(10_000_000 + 62_500, 80)]
    assert played(on_the_edge, rate_hz).underruns == ()
    assert gapless_prebuffer_ns(on_the_edge, rate_hz) == 0
    past_it = [Arrival(0, 80), Arrival(10_000_000 + 62_501, 80)]
    [underrun] = played(past_it, rate_hz).underruns
    assert underrun.at_ns == 10_000_000 and underrun.length_ns == 62_501
    assert gapless_prebuffer_ns(past_it, rate_hz) == 62_501
    # A peer 0.4 samples slow per packet: the base stays, so every second packet is an underrun of 0.8 samples.
    slow = [Arrival(k * (10_000_000 + 50_000), 80) for k in range(5)]
    assert [underrun.length_ns for underrun in played(slow, rate_hz).underruns] == [100_000, 100_000]


def test_ten_minutes_of_packets_do_not_drift() -> None:
    # 441 samples at 22 050 Hz are 20 ms; 147 are 6.67 ms, which no nanosecond count holds.
    arrivals = [Arrival(0, 147) for _ in range(90_000)]
    assert played(arrivals, 22_050).end_ns == 600 * 10**9


def test_heard_audio_stops_at_an_underrun_and_never_exceeds_what_came() -> None:
    """2 s arrive at once, then nothing; the user cuts in after 3.5 s."""
    playout = played([Arrival(0, 48_000)], 24_000)
    assert playout.heard_samples(3_500_000_000) == 48_000
    assert playout.heard_ns(3_500_000_000) == 2_000_000_000
    assert playout.heard_ns(-5) == 0 and playout.heard_samples(-5) == 0
    assert playout.heard_samples(41_666) == 0 and playout.heard_samples(41_667) == 1
    gap = played([Arrival(0, 2400), Arrival(500_000_000, 2400)], 24_000)
    assert gap.heard_ns(300_000_000) == 100_000_000
    assert gap.heard_ns(550_000_000) == 150_000_000
    assert gap.heard_samples(550_000_000) == 3600


def test_packets_without_samples_are_not_there() -> None:
    empty, full = np.zeros(0, dtype=np.int16), np.ones(5, dtype=np.int16)
    assert arrivals_of([Packet(1, empty), Packet(2, full)]) == (Arrival(2, 5),)
    assert play([Arrival(1, 0)], 8000) is None


rates = st.sampled_from([8000, 11_025, 16_000, 22_050, 24_000, 44_100, 48_000])
buffers = st.sampled_from([0, 1, 20 * NS_PER_MS, 60 * NS_PER_MS, 200 * NS_PER_MS])


@st.composite
def arrival_lists(draw: st.DrawFn) -> list[Arrival]:
    gaps = draw(st.lists(st.integers(0, 400 * NS_PER_MS), min_size=1, max_size=12))
    t_ns, arrivals = draw(st.integers(0, 10**10)), []
    for gap_ns in gaps:
        t_ns += gap_ns
        arrivals.append(Arrival(t_ns, draw(st.integers(1, 6000))))
    return arrivals


def figures(arrivals: list[Arrival], rate_hz: int, buffer_ns: int, zero_ns: int = 0) -> list[object]:
    playout = played(arrivals, rate_hz, buffer_ns)
    probes = [0, playout.samples // 3, playout.samples - 1]
    return [
        playout.samples,
        len(playout.underruns),
        playout.underrun_ns,
        [playout.played_at(index) - zero_ns for index in probes],
        playout.end_ns - zero_ns,
        playout.heard_ns(zero_ns + 700 * NS_PER_MS),
        gapless_prebuffer_ns(arrivals, rate_hz),
        real_time_factor(arrivals, rate_hz),
    ]


@given(arrivals=arrival_lists(), rate_hz=rates, buffer_ns=buffers, data=st.data())
def test_splitting_a_packet_changes_nothing(
    arrivals: list[Arrival], rate_hz: int, buffer_ns: int, data: st.DataObject
) -> None:
    where = data.draw(st.integers(0, len(arrivals) - 1))
    whole = arrivals[where]
    left = data.draw(st.integers(0, whole.samples))
    parts = [Arrival(whole.t_ns, left), Arrival(whole.t_ns, whole.samples - left)]
    split = [*arrivals[:where], *parts, *arrivals[where + 1 :]]
    assert figures(split, rate_hz, buffer_ns) == figures(arrivals, rate_hz, buffer_ns)


@given(arrivals=arrival_lists(), rate_hz=rates, buffer_ns=buffers, shift_ns=st.integers(-(10**12), 10**12))
def test_shifting_the_clock_shifts_the_results(
    arrivals: list[Arrival], rate_hz: int, buffer_ns: int, shift_ns: int
) -> None:
    shifted = [Arrival(arrival.t_ns + shift_ns, arrival.samples) for arrival in arrivals]
    zero_ns = arrivals[0].t_ns
    assert figures(shifted, rate_hz, buffer_ns, zero_ns + shift_ns) == figures(arrivals, rate_hz, buffer_ns, zero_ns)


@given(arrivals=arrival_lists(), rate_hz=rates)
def test_the_gapless_prebuffer_is_the_smallest(arrivals: list[Arrival], rate_hz: int) -> None:
    prebuffer_ns = gapless_prebuffer_ns(arrivals, rate_hz)
    enough_ns = -(-prebuffer_ns.numerator // prebuffer_ns.denominator)
    assert played(arrivals, rate_hz, enough_ns).underruns == ()
    if prebuffer_ns:
        # One nanosecond less, beyond the half sample that is never called late.
        less_ns = prebuffer_ns - duration_ns(1, rate_hz) / 2 - 1
        assert played(arrivals, rate_hz, less_ns.numerator // less_ns.denominator).underruns
        latest = max(
            arrival.t_ns - arrivals[0].t_ns - duration_ns(sum(a.samples for a in arrivals[:k]), rate_hz)
            for k, arrival in enumerate(arrivals)
        )
        assert prebuffer_ns == latest, "with one nanosecond less, a packet comes after the end of the one before"
    else:
        assert played(arrivals, rate_hz).underruns == ()


@given(arrivals=arrival_lists(), rate_hz=rates, buffer_ns=buffers)
def test_what_must_hold_for_any_reply(arrivals: list[Arrival], rate_hz: int, buffer_ns: int) -> None:
    playout = played(arrivals, rate_hz, buffer_ns)
    total_ns = duration_ns(playout.samples, rate_hz)
    assert playout.end_ns == arrivals[0].t_ns + buffer_ns + total_ns + playout.underrun_ns
    assert playout.heard_ns(nearest_ns(playout.end_ns) + 1) == total_ns
    index = 0
    for arrival in arrivals:
        # Nothing is heard before it came, but for the half sample that the model forgives.
        assert playout.played_at(index) >= arrival.t_ns - duration_ns(1, rate_hz) / 2
        index += arrival.samples


@given(numerator=st.integers(-(10**6), 10**6), denominator=st.integers(1, 1000))
def test_nearest_nanosecond(numerator: int, denominator: int) -> None:
    exact = Fraction(numerator, denominator)
    assert Fraction(-1, 2) < nearest_ns(exact) - exact <= Fraction(1, 2)
