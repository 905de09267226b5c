"""The audibility gate: replies that begin with noise, offset, clicks and ramps, at every rate."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from metrics.conversation import Pcm
from metrics.gate import audible_runs, block_edges, block_levels_dbfs, find_onset, first_audible_index

RATES_HZ = (8000, 11_025, 16_000, 22_050, 24_000, 44_100, 48_000)
Signal = NDArray[np.float64]


def int16(*parts: Signal) -> Pcm:
    return np.round(np.concatenate(parts) * 32768).clip(-32768, 32767).astype(np.int16)


def samples_of(ms: float, rate_hz: int) -> int:
    return round(ms * rate_hz / 1000)


def tone(ms: float, rate_hz: int, rms: float = 0.06) -> Signal:
    """A 400 Hz cosine: it starts above the gate at its first sample."""
    return np.asarray(rms * np.sqrt(2) * np.cos(2 * np.pi * 400 * np.arange(samples_of(ms, rate_hz)) / rate_hz))


def noise(ms: float, rate_hz: int, rms: float) -> Signal:
    return np.random.default_rng(7).normal(0, rms, samples_of(ms, rate_hz))


def flat(ms: float, rate_hz: int, level: float = 0.0) -> Signal:
    return np.full(samples_of(ms, rate_hz), level)


def onset_ms(pcm: Pcm, rate_hz: int) -> float:
    index = first_audible_index(pcm, rate_hz)
    assert index is not None
    return index * 1000 / rate_hz


@pytest.mark.parametrize("rate_hz", RATES_HZ)
class TestLowBeginnings:
    """What comes before the words."""

    def test_noise_at_minus_50_dbfs_is_not_speech(self, rate_hz: int) -> None:
        pcm = int16(noise(600, rate_hz, 0.003), tone(500, rate_hz))
        assert onset_ms(pcm, rate_hz) == pytest.approx(600, abs=0.1)

    def test_noise_at_minus_104_dbfs_is_not_speech(self, rate_hz: int) -> None:
        pcm = int16(noise(80, rate_hz, 10 ** (-104 / 20)), tone(500, rate_hz))
        assert onset_ms(pcm, rate_hz) == pytest.approx(80, abs=0.1)

    def test_a_dc_offset_is_not_speech(self, rate_hz: int) -> None:
        pcm = int16(flat(300, rate_hz, 0.01), tone(500, rate_hz) + 0.01)
        assert onset_ms(pcm, rate_hz) == pytest.approx(300, abs=0.1)

    def test_an_offset_that_ends_where_the_tone_begins(self, rate_hz: int) -> None:
        pcm = int16(flat(300, rate_hz, 0.01), tone(500, rate_hz))
        assert onset_ms(pcm, rate_hz) == pytest.approx(300, abs=0.1)

    def test_a_click_is_not_speech_but_is_shown(self, rate_hz: int) -> None:
        click = noise(3, rate_hz, 0.3)
        found = find_onset(int16(click, flat(400, rate_hz), tone(500, rate_hz)), rate_hz)
        assert found.index == pytest.approx(samples_of(403, rate_hz), abs=2)
        assert len(found.ignored) == 1
        first_sample, samples = found.ignored[0]
        assert first_sample == 0 and samples <= samples_of(10, rate_hz) + 1

    def test_a_click_alone_is_silence(self, rate_hz: int) -> None:
        found = find_onset(int16(noise(3, rate_hz, 0.3), flat(400, rate_hz)), rate_hz)
        assert found.index is None and len(found.ignored) == 1

    def test_a_soft_fricative_is_not_cut(self, rate_hz: int) -> None:
        ramp = noise(150, rate_hz, 0.06) * np.linspace(0, 1, samples_of(150, rate_hz))
        # It crosses −45 dBFS (0.0056) after 14 ms.
        assert 8 <= onset_ms(int16(ramp, tone(500, rate_hz)), rate_hz) <= 25

    def test_sound_from_the_first_sample(self, rate_hz: int) -> None:
        assert first_audible_index(int16(tone(300, rate_hz)), rate_hz) == 0


def test_exactly_at_the_level_is_loud_and_one_step_below_is_not() -> None:
    # −45 dBFS is 184.27 steps of int16; a square wave's deviation is its amplitude.
    square = np.tile(np.array([1, -1], dtype=np.int16), 1200)
    assert first_audible_index((square * 185).astype(np.int16), 24_000) == 0
    assert first_audible_index((square * 184).astype(np.int16), 24_000) is None


def test_three_of_four_blocks_are_enough_and_two_are_not() -> None:
    loud, still = np.tile(np.array([900, -900], dtype=np.int16), 20), np.zeros(40, dtype=np.int16)

    def blocks(pattern: str) -> Pcm:
        return np.concatenate([loud if sign == "x" else still for sign in pattern])

    assert first_audible_index(blocks("..x.xx...."), 8000) == 80
    assert first_audible_index(blocks("..xx......"), 8000) is None
    assert first_audible_index(blocks("..x..xxx.."), 8000) == 200
    assert first_audible_index(blocks("......xx"), 8000) == 240, "the reply ends: all that remain are loud"
    assert first_audible_index(blocks(".....x.x"), 8000) == 280, "only the last block is followed by nothing quiet"
    assert first_audible_index(blocks("....xx.x"), 8000) == 160, "all four are there: three of them are enough"


def test_the_first_sample_above_the_mean_of_what_came_before() -> None:
    still = np.full(480, 1000, dtype=np.int16)
    block = np.full(120, 1000, dtype=np.int16)
    block[60:] = 2000
    after = np.tile(np.array([3000, -3000], dtype=np.int16), 240)
    assert first_audible_index(np.concatenate([still, block, after]), 24_000) == 540


def test_a_short_last_block_counts_by_its_own_length() -> None:
    pcm = np.concatenate([np.zeros(80, dtype=np.int16), np.array([900, -900, 900], dtype=np.int16)])
    assert first_audible_index(pcm, 16_000) == 80


def test_nothing_and_full_scale() -> None:
    assert first_audible_index(np.zeros(0, dtype=np.int16), 24_000) is None
    extremes = np.tile(np.array([-32768, 32767], dtype=np.int16), 500)
    assert first_audible_index(extremes, 24_000) == 0
    assert block_levels_dbfs(extremes, 24_000) == pytest.approx(np.zeros(9), abs=0.001)
    assert np.all(np.isneginf(block_levels_dbfs(np.full(960, -32768, dtype=np.int16), 48_000)))


def test_a_rate_below_the_blocks_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 200 Hz"):
        block_edges(10, 100)


@given(samples=st.integers(0, 5000), rate_hz=st.sampled_from(RATES_HZ))
def test_blocks_cover_the_reply_as_defined(samples: int, rate_hz: int) -> None:
    edges = block_edges(samples, rate_hz).tolist()
    assert edges[0] == 0 and edges[-1] == samples
    assert edges[:-1] == [j * rate_hz // 200 for j in range(len(edges) - 1)]
    assert all(a < b for a, b in pairwise(edges))


def plain_onset(pcm: list[int], rate_hz: int) -> int | None:
    """The definition, word for word, without vectors."""
    level = 32768 * 10 ** (-45 / 20)
    edges: list[int] = block_edges(len(pcm), rate_hz).tolist()
    blocks = [pcm[a:b] for a, b in pairwise(edges)]
    loud = [np.std(block) >= level for block in blocks]
    for j, is_loud in enumerate(loud):
        window = loud[j : j + 4]
        if is_loud and sum(window) >= (3 if len(window) == 4 else len(window)):
            before = pcm[edges[max(j - 4, 0)] : edges[j]]
            mean = sum(before) / len(before) if before else 0.0
            return next((edges[j] + k for k, x in enumerate(blocks[j]) if abs(x - mean) >= level), edges[j])
    return None


@given(
    levels=st.lists(st.sampled_from([0, 100, 183, 190, 600, 9000]), min_size=1, max_size=14),
    cut=st.integers(1, 60),
    seed=st.integers(0, 50),
    rate_hz=st.sampled_from([8000, 11_025, 22_050]),
)
def test_vectors_agree_with_the_definition(levels: list[int], cut: int, seed: int, rate_hz: int) -> None:
    rng = np.random.default_rng(seed)
    pcm = np.concatenate([rng.integers(-level - 1, level + 1, 61) for level in levels])[:-cut].astype(np.int16)
    assert first_audible_index(pcm, rate_hz) == plain_onset(pcm.tolist(), rate_hz)


@given(
    st.lists(st.tuples(st.sampled_from([0, 4000]), st.integers(1, 60)), max_size=12), st.sampled_from([8000, 24_000])
)
def test_audible_runs_begin_at_the_onset_and_hold_no_click(parts: list[tuple[int, int]], rate_hz: int) -> None:
    pieces = [np.tile(np.array([level, -level], dtype=np.int16), ms * rate_hz // 2000) for level, ms in parts]
    pcm = np.concatenate([np.zeros(0, dtype=np.int16), *pieces])
    runs, onset = audible_runs(pcm, rate_hz), find_onset(pcm, rate_hz)
    assert (runs[0][0] if runs else None) == onset.index
    assert all(0 <= start < end <= len(pcm) for start, end in runs)
    assert all(one[1] <= after[0] for one, after in pairwise(runs))
    for first, samples in onset.ignored:
        assert all(end <= first or first + samples <= start for start, end in runs)
