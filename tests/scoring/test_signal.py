"""Facts of the signal: on sounds made for the purpose, and on the shipped scripts' speech, whole and broken."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pyloudnorm
import pytest
import soundfile
import soxr
from numpy.typing import NDArray

from harness.score.table import metric
from metrics.result import Measured, Unavailable, Value
from metrics.scoring import FloatPcm, Piece, Sample, Score
from metrics.speech_quality.signal import levels, prediction
from metrics.speech_quality.signal.glitches import Glitch
from metrics.speech_quality.signal.levels import loudness_lufs
from metrics.speech_quality.signal.metric import METRIC, make
from metrics.speech_quality.signal.scorer import _belongs_to as belongs_to
from metrics.speech_quality.signal.scorer import facts
from sessions.gate import block_levels_dbfs

LIBRARY = Path(__file__).parents[2] / "sessions/library"
PACKET_S = 0.02
RATE_HZ = 24_000


@cache
def speech() -> tuple[tuple[str, FloatPcm, int], ...]:
    """(name, samples, rate_hz) of every clip of the library that is speech."""
    clips = []
    for path in sorted(LIBRARY.glob("*/*.flac")):
        if path.stem not in ("cough", "door", "music"):
            samples, rate_hz = soundfile.read(path, dtype="float32")
            clips.append((f"{path.parent.name}/{path.stem}", samples, rate_hz))
    return tuple(clips)


def packets(samples: FloatPcm, rate_hz: int) -> tuple[int, ...]:
    return tuple(range(0, len(samples), round(PACKET_S * rate_hz)))


def value(measured: Measured) -> float:
    assert isinstance(measured, Value), measured
    return measured.value


def why_not(measured: Measured) -> str:
    assert isinstance(measured, Unavailable), measured
    return measured.because


def tone(hz: float, amplitude: float = 0.5, seconds: float = 1.0, rate_hz: int = RATE_HZ) -> FloatPcm:
    t = np.arange(round(seconds * rate_hz)) / rate_hz
    return (amplitude * np.sin(2 * np.pi * hz * t)).astype(np.float32)


def test_the_metric_is_in_the_table_and_gives_all_its_figures() -> None:
    assert metric("signal") is METRIC
    _, samples, rate_hz = speech()[0]
    score = make({}).score([Piece(Sample("a", "a.flac"), samples, rate_hz)])[0]
    assert set(score.figures) == {figure.name for figure in METRIC.figures}


def test_levels_of_a_tone() -> None:
    figures = facts(tone(997, 1.0) * np.float32(0.999), RATE_HZ).figures
    assert value(figures["peak"]) == pytest.approx(20 * np.log10(0.999), abs=1e-3)
    # BS.1770's own reference: a full-scale sine of 997 Hz in one front channel is −3.01 LUFS, give or take 0.1.
    assert value(figures["loudness"]) == pytest.approx(-3.01 + 20 * np.log10(0.999), abs=0.1)
    assert value(figures["dc_offset"]) == pytest.approx(0, abs=0.05)
    assert value(figures["silence_share"]) == pytest.approx(0, abs=0.01)


def test_an_offset_is_told_and_is_not_sound() -> None:
    figures = facts(np.full(RATE_HZ, 0.02, dtype=np.float32), RATE_HZ).figures
    assert value(figures["dc_offset"]) == pytest.approx(2)
    assert value(figures["silence_share"]) == 100


def test_clipping_counts_flat_tops_and_not_peaks() -> None:
    hard = np.clip(2 * tone(200, 1.0, 0.1), -1, 1)
    score = facts(hard, RATE_HZ)
    flat = np.count_nonzero(np.abs(hard) == 1)
    assert value(score.figures["clipped"]) == pytest.approx(100 * flat / len(hard))
    assert score.flags[0] == "clipped: 40 flat tops"
    single = tone(200, 0.5, 0.1)
    single[100] = 1.0
    assert value(facts(single, RATE_HZ).figures["clipped"]) == 0


def test_silence_before_and_after() -> None:
    def quiet(ms: int) -> FloatPcm:
        return np.zeros(RATE_HZ * ms // 1000, dtype=np.float32)

    figures = facts(np.concatenate((quiet(300), tone(300, 0.3, 0.5), quiet(200))), RATE_HZ).figures
    assert value(figures["leading_silence"]) == pytest.approx(300, abs=1)
    assert value(figures["trailing_silence"]) == pytest.approx(200, abs=5)
    assert value(figures["silence_share"]) == pytest.approx(50, abs=1)


def test_a_long_sound_has_the_loudness_of_the_whole() -> None:
    rng = np.random.default_rng(1)
    noise = rng.standard_normal(150 * 8000).astype(np.float32) * 0.05
    noise[40 * 8000 : 70 * 8000] *= 0.02
    noise[100 * 8000 :] *= 3
    whole = pyloudnorm.Meter(8000).integrated_loudness(noise.astype(np.float64))
    assert value(loudness_lufs(noise, 8000)) == pytest.approx(whole, abs=0.002)
    short = noise[: 50 * 8000]
    whole = pyloudnorm.Meter(8000).integrated_loudness(short.astype(np.float64))
    assert value(loudness_lufs(short, 8000)) == pytest.approx(whole, abs=1e-9)


@pytest.mark.parametrize("samples", [1, 24, 1200, RATE_HZ], ids=["1 sample", "1 ms", "50 ms", "1 s"])
def test_silence_has_no_made_up_numbers(samples: int) -> None:
    score = facts(np.zeros(samples, dtype=np.float32), RATE_HZ)
    assert why_not(score.figures["peak"]) == "digital silence"
    for name in ("bandwidth", "leading_silence", "trailing_silence", "dropouts", "glitches", "border_rank"):
        assert why_not(score.figures[name]).startswith("silence: nothing is above the gate")
    assert why_not(score.figures["loudness"]).startswith("shorter than 0.4 s" if samples < 9600 else "silence")
    assert score.flags == []


def test_a_clip_of_a_tenth_of_a_second() -> None:
    score = facts(speech()[1][1][24_000:26_400], RATE_HZ, (0, 480, 960))
    assert why_not(score.figures["loudness"]).startswith("shorter than 0.4 s")
    assert value(score.figures["glitches"]) == 0
    assert why_not(score.figures["border_rank"]) == "fewer than 20 packet borders within sound"
    assert why_not(facts(tone(300, 0.3, 0.05), RATE_HZ).figures["glitches"]) == "shorter than 60 ms"


def test_bandwidth_tells_what_was_resampled() -> None:
    for _, samples, rate_hz in speech()[:10]:
        assert value(facts(samples, rate_hz).figures["bandwidth"]) == rate_hz / 2
        for middle_hz in (8000, 16_000):
            again = soxr.resample(soxr.resample(samples, rate_hz, middle_hz), middle_hz, rate_hz)
            stored = np.rint(again * 32768).astype(np.float32) / 32768
            score = facts(stored, rate_hz)
            bandwidth = value(score.figures["bandwidth"])
            assert 0.9 * middle_hz / 2 < bandwidth <= 1.03 * middle_hz / 2
            narrow = [flag for flag in score.flags if flag.startswith("narrow-band")]
            assert narrow == (
                [f"narrow-band: nothing above {bandwidth:.0f} Hz in a file of 24000 Hz"] if middle_hz == 8000 else []
            )


def test_clean_speech_has_no_glitch_and_no_hole() -> None:
    for name, samples, rate_hz in speech():
        score = facts(samples, rate_hz, packets(samples, rate_hz))
        assert score.details["glitches"] == [], name
        assert score.details["dropouts"] == [], name
        assert score.flags == [], name


@pytest.mark.parametrize("rate_hz", [8000, 16_000, 48_000])
def test_clean_speech_is_clean_at_other_rates(rate_hz: int) -> None:
    for name, samples, own_hz in speech()[::4]:
        other = soxr.resample(samples, own_hz, rate_hz)
        score = facts(other, rate_hz, packets(other, rate_hz))
        assert (score.details["glitches"], score.details["dropouts"]) == ([], []), name


Fault = Callable[[FloatPcm, int, int], FloatPcm]


def _bit_flipped(samples: FloatPcm, at: int, packet: int) -> FloatPcm:
    samples[at] -= np.copysign(np.float32(0.5), samples[at])
    return samples


def _header(samples: FloatPcm, at: int, packet: int) -> FloatPcm:
    """A WAV header that was taken for sound, as when each packet is a file of its own."""
    header = b"RIFF\x24\x08\x00\x00WAVEfmt \x10\0\0\0\x01\0\x01\0\xc0\x5d\0\0\x80\xbb\0\0\x02\0\x10\0data\0\x08\0\0"
    samples[at : at + 22] = np.frombuffer(header, "<i2").astype(np.float32) / 32768
    return samples


def _twice(samples: FloatPcm, at: int, packet: int) -> FloatPcm:
    return np.concatenate((samples[:at], samples[at - packet : at], samples[at:]))


def _hole(samples: FloatPcm, at: int, packet: int) -> FloatPcm:
    samples[at : at + packet] = 0
    return samples


def _broken(fault: Fault, seed: int) -> tuple[FloatPcm, int, int]:
    """(samples, rate_hz, where) of a clip with one fault at a packet's border, where there is sound on both sides."""
    rng = np.random.default_rng(seed)
    clips = [clip for clip in speech() if clip[2] == RATE_HZ]
    _, samples, rate_hz = clips[int(rng.integers(len(clips)))]
    packet = round(PACKET_S * rate_hz)
    loud = [
        at
        for at in range(2 * packet, len(samples) - 2 * packet, packet)
        if min(float(samples[at - 240 : at].std()), float(samples[at + packet : at + packet + 240].std())) > 0.02
    ]
    at = int(rng.choice(loud))
    return fault(samples.copy(), at, packet), rate_hz, at


def _near(score: Score, kind: str, rate_hz: int, at: int) -> bool:
    return any(abs(one["at_s"] * rate_hz - at) <= 25 for one in score.details[kind])


@pytest.mark.parametrize(
    ("fault", "kind", "least"),
    [(_bit_flipped, "glitches", 19), (_twice, "glitches", 20), (_hole, "dropouts", 19), (_header, "glitches", 16)],
)
def test_of_20_faults_at_borders(fault: Fault, kind: str, least: int) -> None:
    """One in 20 may hide in a hiss that is as loud; of headers, which are short files of their own, some more."""
    found = 0
    for seed in range(20):
        samples, rate_hz, at = _broken(fault, seed)
        score = facts(samples, rate_hz, packets(samples, rate_hz))
        found += _near(score, kind, rate_hz, at)
        assert len(score.details["glitches"]) + len(score.details["dropouts"]) <= 2
    assert found >= least


def test_clicks_are_found_where_no_borders_are_known() -> None:
    found = 0
    for seed in range(20):
        samples, rate_hz, at = _broken(_bit_flipped, seed)
        score = facts(samples, rate_hz)
        found += _near(score, "glitches", rate_hz, at)
        assert why_not(score.figures["glitches_at_borders"]) == "no packet borders are known"
    assert found >= 19


def test_borders_that_stand_out_a_little_are_seen_together() -> None:
    """Each packet is resampled by itself: no border is a click, but all of them are seams."""
    clip = next(samples for name, samples, _ in speech() if name == "read-back/number")
    packet = round(PACKET_S * RATE_HZ)
    parts = [clip[at : at + packet] for at in range(0, len(clip), packet)]
    alone = [
        soxr.resample(soxr.resample(part, RATE_HZ, 16_000, "LQ"), 16_000, RATE_HZ, "LQ")[:packet] for part in parts
    ]
    seams = np.concatenate(alone)
    borders = tuple(np.cumsum([0, *(len(part) for part in alone[:-1])]).tolist())
    score = facts(seams, RATE_HZ, borders)
    assert value(score.figures["border_rank"]) > 0.8
    assert "seams: packet borders stand out from what lies between them" in score.flags
    assert value(facts(clip, RATE_HZ, borders).figures["border_rank"]) < 0.6


def test_a_reply_that_is_over_in_the_midst_of_a_word() -> None:
    clip = next(samples for name, samples, _ in speech() if name == "facts/turn-1")
    loudest = int(np.argmax(np.abs(clip)))
    assert facts(clip[:loudest], RATE_HZ).flags == ["ends in speech: the last 5 ms are as loud as the rest"]


def test_an_offset_is_no_speech_at_the_edges_of_silence() -> None:
    clip: FloatPcm = next(samples for name, samples, _ in speech() if name == "facts/turn-1") * np.float32(0.3)
    quiet, hole = np.zeros(7200, dtype=np.float32), np.zeros(480, dtype=np.float32)
    for offset in (np.float32(0.01), np.float32(0.05)):
        shifted = np.concatenate((clip, quiet)) + offset
        assert facts(shifted, RATE_HZ).flags == []
        with_hole = np.concatenate((shifted, hole, quiet + offset))
        assert value(facts(with_hole, RATE_HZ).figures["dropouts"]) == 0


@pytest.mark.parametrize("hz", [50, 350, 1000, 5000])
def test_packets_of_a_tone_did_not_come_twice(hz: float) -> None:
    steady: FloatPcm = np.rint(tone(hz, 0.3) * 32768).astype(np.float32) / np.float32(32768)
    assert value(facts(steady, RATE_HZ, packets(steady, RATE_HZ)).figures["glitches"]) == 0


def test_a_border_between_two_chunks_is_a_border(monkeypatch: pytest.MonkeyPatch) -> None:
    hops = 70
    edges = [at for at in range(hops * 240, 60_000, hops * 240) if at % 480 == 0]
    clip = next(samples for name, samples, _ in speech() if name == "read-back/number").copy()
    for at in edges:
        clip[at] += 0.2
    whole = facts(clip, RATE_HZ, packets(clip, RATE_HZ)).details["glitches"]
    assert [one["at_border"] for one in whole] == [True] * len(edges)
    monkeypatch.setattr(prediction, "_CHUNK_HOPS", hops)
    assert facts(clip, RATE_HZ, packets(clip, RATE_HZ)).details["glitches"] == whole


def test_a_glitch_at_the_edge_of_a_hole_belongs_to_it() -> None:
    holes = [(100, 50), (160, 5), (400, 1)]
    for at in range(500):
        near = any(start - 10 <= at <= start + length + 10 for start, length in holes)
        assert belongs_to(Glitch(at, "click", False, 9.0), holes, 10) == near


def test_the_length_of_chunks_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    clip = next(samples for name, samples, _ in speech() if name == "read-back/number")

    def click() -> NDArray[np.float64]:
        return np.concatenate([chunk.click for chunk in prediction.crests(clip, RATE_HZ, 0.1)])

    whole = click()
    monkeypatch.setattr(prediction, "_CHUNK_HOPS", 70)
    assert len(whole) == len(clip)
    np.testing.assert_allclose(click(), whole, rtol=1e-6, atol=1e-9)


def test_runs_are_found_across_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    mask = np.random.default_rng(3).random(2000) < 0.8
    mask[300:420] = True
    whole = levels.runs_where(mask.astype(np.float32), lambda part: part > 0, 5)
    text = "".join("x" if one else " " for one in mask)
    assert whole == [(run.start(), len(run[0])) for run in re.finditer("x{5,}", text)]
    for chunk in (1, 7, 100, 1000):
        monkeypatch.setattr(levels, "_RUN_CHUNK", chunk)
        assert levels.runs_where(mask.astype(np.float32), lambda part: part > 0, 5) == whole


def test_levels_of_blocks_do_not_depend_on_the_length_of_a_sound() -> None:
    pcm = np.random.default_rng(0).integers(-3000, 3000, 8000 * 130).astype(np.int16)
    blocks = block_levels_dbfs(pcm, 8000)
    assert len(blocks) == 130 * 200
    np.testing.assert_array_equal(blocks[100 * 200 :], block_levels_dbfs(pcm[100 * 8000 :], 8000))
