"""Audio files: what is refused and how, mixing down, resampling without delay, writing."""

from __future__ import annotations

import os
import resource
import signal
import struct
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sessions import audio
from sessions.audio import Clip, FloatPcm
from sessions.errors import BadAudio, SetupError

RATES_HZ = (8000, 16_000, 44_100, 48_000, 96_000)


def tone(samples: int, rate_hz: int, hz: float = 440.0, level: float = 0.5) -> FloatPcm:
    wave: FloatPcm = (level * np.sin(2 * np.pi * hz * np.arange(samples) / rate_hz)).astype(np.float32)
    return wave


def wav_bytes(rate_hz: int, data: bytes, *, channels: int = 1) -> bytes:
    """A 16-bit WAV file with any header that one likes."""
    form = struct.pack("<HHIIHH", 1, channels, rate_hz, rate_hz * channels * 2, channels * 2, 16)
    body = b"WAVEfmt " + struct.pack("<I", len(form)) + form + b"data" + struct.pack("<I", len(data)) + data
    return b"RIFF" + struct.pack("<I", len(body)) + body


def float_wav(path: Path, samples: NDArray[np.float64]) -> None:
    soundfile.write(path, samples.astype(np.float32), 24_000, subtype="FLOAT")


def damaged_flac(path: Path) -> None:
    soundfile.write(path, np.random.default_rng(1).uniform(-0.5, 0.5, 24_000), 24_000, format="FLAC")
    path.write_bytes(path.read_bytes()[:2000])


BAD: dict[str, tuple[Callable[[Path], object], str]] = {
    "missing": (lambda path: None, "no such file"),
    "folder": (lambda path: path.mkdir(), "it is a folder"),
    "pipe": (lambda path: os.mkfifo(path), "not a regular file"),
    "zero bytes": (lambda path: path.write_bytes(b""), "empty (0 bytes)"),
    "text": (lambda path: path.write_text("not a wav at all\n" * 50), "not readable as audio"),
    "header cut short": (lambda path: path.write_bytes(wav_bytes(8000, b"\0\0" * 9)[:30]), "not readable as audio"),
    "no samples": (lambda path: path.write_bytes(wav_bytes(8000, b"")), "holds no samples"),
    "0 Hz": (lambda path: path.write_bytes(wav_bytes(0, b"\0\0" * 100)), "header says 0 Hz"),
    "1 Hz": (lambda path: path.write_bytes(wav_bytes(1, b"\0\0" * 100)), "header says 1 Hz"),
    "0 channels": (lambda path: path.write_bytes(wav_bytes(8000, b"\0\0" * 100, channels=0)), "not readable as audio"),
    "NaN": (lambda path: float_wav(path, np.array([0.1, np.nan, 0.1])), "not numbers (NaN or infinite)"),
    "infinite": (lambda path: float_wav(path, np.array([0.1, -np.inf, 0.1])), "not numbers (NaN or infinite)"),
}


@pytest.mark.parametrize("kind", BAD)
def test_bad_files_are_refused_in_one_line_that_names_file_problem_and_mend(tmp_path: Path, kind: str) -> None:
    make, problem = BAD[kind]
    path = tmp_path / "user.wav"
    make(path)
    with pytest.raises(BadAudio) as caught:
        audio.load(path)
    assert problem in caught.value.what
    assert str(path) in caught.value.what
    assert caught.value.mend
    assert "\n" not in str(caught.value)


def test_a_headerless_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "user.raw"
    path.write_bytes(b"\1\2" * 1000)
    with pytest.raises(BadAudio, match="no header that tells its rate"):
        audio.load(path)


def test_a_damaged_flac_never_passes_as_a_whole_one(tmp_path: Path) -> None:
    path = tmp_path / "cut.flac"
    damaged_flac(path)
    with pytest.raises(BadAudio, match=r"cut\.flac"):
        audio.load(path)


def test_what_the_system_refuses_to_open_is_one_line_too(tmp_path: Path) -> None:
    with pytest.raises(BadAudio, match=r"File name too long|no such file"):
        audio.load(tmp_path / ("x" * 300))


def test_int16_files_at_the_wanted_rate_come_back_bit_for_bit(tmp_path: Path) -> None:
    pcm = np.random.default_rng(7).integers(-32768, 32768, 5000).astype(np.int16)
    for name in ("a.wav", "a.flac"):
        soundfile.write(tmp_path / name, pcm, 24_000, subtype="PCM_16")
        clip = audio.load(tmp_path / name)
        assert np.array_equal(clip.pcm, pcm)
        assert (clip.rate_hz, clip.notes) == (24_000, ())


@pytest.mark.parametrize(
    ("name", "subtype", "tolerance"),
    [
        ("a.wav", "PCM_U8", 1 / 128),
        ("a.wav", "PCM_24", 1 / 32768),
        ("a.wav", "PCM_32", 1 / 32768),
        ("a.wav", "FLOAT", 1 / 32768),
        ("a.wav", "DOUBLE", 1 / 32768),
        ("a.flac", "PCM_24", 1 / 32768),
        ("a.ogg", "VORBIS", 0.05),
        ("a.mp3", "MPEG_LAYER_III", 0.05),
    ],
)
def test_other_sample_types_and_containers(tmp_path: Path, name: str, subtype: str, tolerance: float) -> None:
    wave = tone(24_000, 24_000)
    soundfile.write(tmp_path / name, wave, 24_000, subtype=subtype)
    clip = audio.load(tmp_path / name)
    assert len(clip.pcm) == len(wave)
    # Codecs smear the edges; the middle must lie where it lay.
    middle = slice(4000, 20_000)
    assert np.abs(audio.to_float(clip.pcm)[middle] - wave[middle]).max() < tolerance


def test_float_files_above_full_scale_are_clipped_and_it_is_said(tmp_path: Path) -> None:
    float_wav(tmp_path / "loud.wav", np.array([0.5, 1.5, -2.0, 0.25]))
    clip = audio.load(tmp_path / "loud.wav")
    assert clip.pcm.tolist() == [16384, 32767, -32768, 8192]
    assert clip.notes == ("2 samples above full scale were clipped",)


@pytest.mark.parametrize("channels", [2, 6])
def test_channels_are_averaged(tmp_path: Path, channels: int) -> None:
    wave = tone(4800, 24_000)
    lanes = np.zeros((4800, channels), dtype=np.float32)
    lanes[:, 1] = wave
    soundfile.write(tmp_path / "many.wav", lanes, 24_000, subtype="FLOAT")
    clip = audio.load(tmp_path / "many.wav")
    assert np.abs(audio.to_float(clip.pcm) - wave / channels).max() <= 1 / 32768
    assert clip.notes == (f"mixed down from {channels} channels",)


def test_channels_in_opposite_phase_are_not_averaged_away(tmp_path: Path) -> None:
    wave = tone(4800, 24_000)
    soundfile.write(tmp_path / "phase.wav", np.stack([wave, -0.9 * wave], axis=1), 24_000, subtype="FLOAT")
    clip = audio.load(tmp_path / "phase.wav")
    assert np.abs(audio.to_float(clip.pcm) - wave).max() <= 1 / 32768
    assert clip.notes == ("channel 0 of 2 taken: mixed together they cancel (opposite phase)",)


def test_opposite_phase_takes_a_channel_that_holds_something(tmp_path: Path) -> None:
    wave = tone(4800, 24_000)
    soundfile.write(tmp_path / "p.wav", np.stack([0 * wave, wave, -wave], axis=1), 24_000, subtype="FLOAT")
    clip = audio.load(tmp_path / "p.wav")
    assert np.abs(audio.to_float(clip.pcm) - wave).max() <= 1 / 32768
    assert "channel 1 of 3" in clip.notes[0]


def test_a_file_longer_than_one_reading_block_is_joined_without_a_seam(tmp_path: Path) -> None:
    pcm = np.random.default_rng(3).integers(-3000, 3000, ((1 << 20) + 12_345, 2)).astype(np.int16)
    soundfile.write(tmp_path / "long.wav", pcm, 24_000)
    source = audio.read(tmp_path / "long.wav")
    assert np.array_equal(source.samples, (pcm.sum(axis=1) / 65536).astype(np.float32))


@pytest.mark.parametrize("rate_hz", RATES_HZ)
def test_a_click_stays_at_its_instant(tmp_path: Path, rate_hz: int) -> None:
    """Zero delay: the energy of a resampled click is centred where the click was, to a hundredth of a sample."""
    click_at = rate_hz // 4 + 3
    wave = np.zeros(rate_hz, dtype=np.float32)
    wave[click_at] = 0.9
    soundfile.write(tmp_path / "click.wav", wave, rate_hz, subtype="FLOAT")
    clip = audio.load(tmp_path / "click.wav")
    assert len(clip.pcm) == 24_000
    energy = np.square(clip.pcm.astype(np.float64))
    centre = float((energy * np.arange(24_000)).sum() / energy.sum())
    assert centre == pytest.approx(click_at * 24_000 / rate_hz, abs=0.01)
    assert clip.notes[-1] == f"resampled from {rate_hz} Hz to 24000 Hz"


@pytest.mark.parametrize("rate_hz", RATES_HZ)
def test_a_tone_keeps_its_phase(rate_hz: int) -> None:
    got = audio.resample(tone(rate_hz, rate_hz, 1000.0), rate_hz, 24_000)
    middle = slice(2400, 21_600)
    assert np.abs(got[middle] - tone(24_000, 24_000, 1000.0)[middle]).max() < 1e-3


def test_resampling_int16_gives_the_same_bytes_each_time() -> None:
    pcm = np.random.default_rng(5).integers(-20_000, 20_000, 4410).astype(np.int16)
    once = audio.resample(pcm, 44_100, 24_000)
    assert once.dtype == np.int16
    assert np.array_equal(once, audio.resample(pcm, 44_100, 24_000))


@given(st.integers(0, 3000), st.sampled_from((8000, 11_025, 22_050, *RATES_HZ)), st.sampled_from((16_000, 24_000)))
def test_resampled_length_is_the_duration_rounded(samples: int, from_hz: int, to_hz: int) -> None:
    out = audio.resample(np.zeros(samples, dtype=np.float32), from_hz, to_hz)
    assert abs(len(out) * from_hz - samples * to_hz) * 2 <= from_hz
    assert out.dtype == np.float32


@given(st.lists(st.integers(-32768, 32767), max_size=50))
def test_int16_to_float_and_back_is_the_same(values: list[int]) -> None:
    pcm = np.array(values, dtype=np.int16)
    assert np.array_equal(audio.to_pcm16(audio.to_float(pcm)), pcm)


@given(st.integers(0, 10**9), st.integers(1000, 192_000), st.integers(1000, 192_000))
def test_a_source_index_maps_to_the_last_sample_that_begins_before_its_end(
    index: int, from_hz: int, to_hz: int
) -> None:
    out = audio.source_index_to_out(index, from_hz, to_hz)
    assert out * from_hz < (index + 1) * to_hz <= (out + 1) * from_hz


@pytest.mark.parametrize(
    ("index", "from_hz", "to_hz", "out"),
    [
        (0, 24_000, 24_000, 0),
        (9, 24_000, 24_000, 9),
        (9, 48_000, 24_000, 4),
        (8, 48_000, 24_000, 4),
        (9, 8000, 24_000, 29),
    ],
)
def test_source_index_table(index: int, from_hz: int, to_hz: int, out: int) -> None:
    assert audio.source_index_to_out(index, from_hz, to_hz) == out


def test_the_hash_is_of_rate_and_samples_only() -> None:
    pcm = np.arange(100, dtype=np.int16)
    name = audio.sha256(Clip(pcm, 24_000))
    assert name == audio.sha256(Clip(pcm.copy(), 24_000, ("mixed down from 2 channels",)))
    assert name != audio.sha256(Clip(pcm, 16_000))
    assert name != audio.sha256(Clip(pcm[:-1], 24_000))


@pytest.mark.parametrize("shape", [(1000,), (1000, 2)])
def test_flac_comes_back_as_it_was_written(tmp_path: Path, shape: tuple[int, ...]) -> None:
    pcm = np.random.default_rng(2).integers(-32768, 32768, shape).astype(np.int16)
    audio.write_flac(tmp_path / "a.flac", pcm, 24_000)
    got, rate_hz = soundfile.read(tmp_path / "a.flac", dtype="int16")
    assert rate_hz == 24_000
    assert np.array_equal(got, pcm)
    assert [path.name for path in tmp_path.iterdir()] == ["a.flac"]


@pytest.mark.parametrize("shape", [(0,), (0, 2)])
def test_an_empty_recording_is_a_file_that_opens(tmp_path: Path, shape: tuple[int, ...]) -> None:
    audio.write_flac(tmp_path / "a.flac", np.zeros(shape, dtype=np.int16), 24_000)
    got, _ = soundfile.read(tmp_path / "a.flac", dtype="int16")
    assert got.shape == (1, *shape[1:])


@pytest.fixture
def small_files() -> Iterator[None]:
    """No file may grow past 10 kB: a full disk, as the write sees it."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    # Python ignores the signal, so that the write fails with an errno, as it does on a full disk.
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)
    signal.signal(signal.SIGXFSZ, handler)


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(tmp_path: Path, small_files: None) -> None:
    audio.write_flac(tmp_path / "a.flac", np.arange(10, dtype=np.int16), 24_000)
    noise = np.random.default_rng(2).integers(-32768, 32768, 50_000).astype(np.int16)
    with pytest.raises(SetupError, match=r"cannot write .*a\.flac: File too large"):
        audio.write_flac(tmp_path / "a.flac", noise, 24_000)
    got, _ = soundfile.read(tmp_path / "a.flac", dtype="int16")
    assert got.tolist() == list(range(10))
    assert [path.name for path in tmp_path.iterdir()] == ["a.flac"]


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="No such file or directory"):
        audio.write_flac(tmp_path / "nowhere" / "a.flac", np.zeros(3, dtype=np.int16), 24_000)
