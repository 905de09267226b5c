"""`speech_end/energy-1`: to the block, at every rate, and where there is nothing to find."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sessions import audio
from sessions.errors import BadAudio
from sessions.speech_end import ENERGY_1, SpeechEnd, block_edges, energy_1


def level(dbfs: float, samples: int) -> NDArray[np.float32]:
    """Alternating ±a: every block has the same RMS, whatever its length."""
    wave = np.full(samples, 10 ** (dbfs / 20), dtype=np.float32)
    wave[1::2] *= -1
    return wave


def plainly(samples: NDArray[np.float32], rate_hz: int) -> int:
    """The definition once more, one block at a time."""
    blocks = []
    j = 0
    while (first := j * rate_hz // 200) < len(samples):
        last = min((j + 1) * rate_hz // 200, len(samples))
        blocks.append((last - 1, float(np.mean(np.square(samples[first:last].astype(np.float64))))))
        j += 1
    loudest = max(power for _, power in blocks)
    return [end for end, power in blocks if power >= loudest * 10**-3.5][-1]


@pytest.mark.parametrize(
    ("rate_hz", "speech_samples", "end"),
    [
        (24_000, 24_000, 23_999),  # a multiple of 120
        (24_000, 24_001, 24_119),  # one sample into the next block: that block, RMS -20.8 dB, counts
        (8000, 400, 399),
        (16_000, 800, 799),
        (11_025, 11_025, 11_024),  # blocks of 55 and 56 samples
        (44_100, 22_050, 22_049),  # blocks of 220 and 221
        (44_100, 220, 219),
        (44_100, 221, 440),
    ],
)
def test_the_end_is_the_end_of_the_last_loud_block(rate_hz: int, speech_samples: int, end: int) -> None:
    wave = np.concatenate([level(-10, speech_samples), np.zeros(rate_hz, dtype=np.float32)])
    found = energy_1(wave, rate_hz, name="x.wav")
    assert found == SpeechEnd(end, rate_hz, ENERGY_1)


@pytest.mark.parametrize(("below_db", "counts"), [(34.9, True), (35.1, False)])
def test_35_db_below_the_loudest_is_the_limit(below_db: float, counts: bool) -> None:
    wave = np.concatenate([level(-12, 240), level(-12 - below_db, 240), level(-60, 240)])
    assert energy_1(wave, 24_000, name="x").index_samples == (479 if counts else 239)


def test_a_short_last_block_counts_by_its_own_length() -> None:
    wave = np.concatenate([level(-10, 120), np.zeros(120, dtype=np.float32), level(-40, 7)])
    assert energy_1(wave, 24_000, name="x").index_samples == 246


def test_int16_and_float_agree() -> None:
    wave = np.concatenate([level(-20, 1000), level(-54, 1000), level(-80, 1000)])
    pcm = audio.to_pcm16(wave)
    assert energy_1(pcm, 24_000, name="x") == energy_1(audio.to_float(pcm), 24_000, name="x")


@pytest.mark.parametrize(
    "wave",
    [
        np.zeros(24_000, dtype=np.int16),
        np.zeros(0, dtype=np.int16),
        np.random.default_rng(4).integers(-1, 2, 24_000).astype(np.int16),  # dither
        level(-70.1, 24_000),
    ],
    ids=["zeros", "nothing", "dither", "below the floor"],
)
def test_a_silent_file_has_no_speech_end_and_says_so(wave: NDArray[np.int16] | NDArray[np.float32]) -> None:
    with pytest.raises(BadAudio) as caught:
        energy_1(wave, 24_000, name="quiet.wav")
    assert caught.value.what.startswith("no speech in quiet.wav: cannot tell where it ends")
    assert "speech_end_sample" in caught.value.mend


def test_a_whisper_above_the_floor_has_an_end() -> None:
    wave = np.concatenate([level(-69.9, 240), np.zeros(240, dtype=np.float32)])
    assert energy_1(wave, 24_000, name="x").index_samples == 239


@given(
    st.lists(st.tuples(st.integers(1, 400), st.floats(-65, -3)), min_size=1, max_size=8),
    st.sampled_from((8000, 11_025, 22_050, 24_000, 44_100, 48_000)),
)
def test_same_as_the_definition_block_by_block(parts: list[tuple[int, float]], rate_hz: int) -> None:
    wave = np.concatenate([level(dbfs, samples) for samples, dbfs in parts])
    assert energy_1(wave, rate_hz, name="x").index_samples == plainly(wave, rate_hz)


def test_minutes_of_audio_are_measured_in_pieces_with_the_same_result() -> None:
    rate_hz = 11_025
    wave = np.random.default_rng(6).normal(0, 0.1, 130 * rate_hz + 17).astype(np.float32)
    wave[121 * rate_hz :] *= 1e-4
    assert energy_1(wave, rate_hz, name="x").index_samples == plainly(wave, rate_hz)


@given(st.integers(0, 5000), st.integers(1000, 96_000))
def test_blocks_cover_every_sample_once(samples: int, rate_hz: int) -> None:
    edges = block_edges(samples, rate_hz)
    assert edges[0] == 0
    assert edges[-1] == samples
    assert (np.diff(edges) > 0).all()
    assert all(edge == j * rate_hz // 200 for j, edge in enumerate(edges[:-1]))


def test_the_instant_is_the_end_of_the_last_sample() -> None:
    assert SpeechEnd(23_999, 24_000, ENERGY_1).offset_ns == 1_000_000_000
    assert SpeechEnd(0, 24_000, ENERGY_1).offset_ns == 41_667


def test_an_end_moves_with_the_rate_and_keeps_its_method() -> None:
    assert SpeechEnd(44_099, 44_100, ENERGY_1).at_rate(24_000) == SpeechEnd(23_999, 24_000, ENERGY_1)
    assert SpeechEnd(0, 48_000, "annotation").at_rate(24_000) == SpeechEnd(0, 24_000, "annotation")
