"""A change of rate keeps pace and tail, and chunks give what one piece gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import soundfile

from harness.dialogue.record import TurnToSpeak
from servers.vad import _Resampler
from sessions import audio
from sessions.clock import NS_PER_MS
from sessions.events import Sent, TurnStarted
from sessions.perturb.script import Effect, perturbed_clip
from sessions.scripts import script_from_audio
from tests.dialogue.test_dialogue_virtual import answers
from tests.support.dialogues import play_virtual

CLICK_MS = 10


def clip_with_a_click_at_its_end(folder: Path, rate_hz: int, seconds: float = 6.0) -> Path:
    """A tone that ends 0.5 s before the file does, then a click in its last 20 ms."""
    wave = np.zeros(round(seconds * rate_hz))
    tone = round((seconds - 0.5) * rate_hz)
    wave[:tone] = 0.3 * np.sin(2 * np.pi * 440 * np.arange(tone) / rate_hz)
    wave[-rate_hz * CLICK_MS // 1000] = 0.9
    path = folder / f"{rate_hz}.wav"
    soundfile.write(path, wave, rate_hz, subtype="PCM_16")
    return path


@pytest.mark.parametrize("rate_hz", [8000, 16_000, 24_000, 44_100, 48_000, 96_000])
def test_a_resampled_clip_is_sent_at_its_own_pace_to_its_last_sample(tmp_path: Path, rate_hz: int) -> None:
    """On the virtual clock: 6.000 s are 300 frames of 20 ms, each at its own deadline, the click in the last."""
    turn = script_from_audio([clip_with_a_click_at_its_end(tmp_path, rate_hz)]).turns[0]
    assert len(turn.clip.pcm) == 144_000
    spoken = TurnToSpeak(turn.clip.pcm, len(turn.clip.pcm) - 1, turn.speech_end.method, 100 * NS_PER_MS)
    played = play_virtual(answers, [spoken])
    start = next(e for e in played.record.events if isinstance(e, TurnStarted))
    frames = [e for e in played.record.events if isinstance(e, Sent) and e.what == "audio"]
    assert sum(e.samples for e in frames) == 144_000
    assert [e.t_ns for e in frames] == [start.start_ns + (k + 1) * 20 * NS_PER_MS for k in range(300)]
    loudest = int(np.argmax(np.abs(turn.clip.pcm[-480:].astype(int)))) + 144_000 - 480
    assert abs(loudest - (144_000 - 24_000 * CLICK_MS // 1000)) <= 1


@pytest.mark.parametrize("rate_hz", [24_000, 44_100])
def test_a_telephone_clip_keeps_its_length_and_its_last_samples(tmp_path: Path, rate_hz: int) -> None:
    """Through G.711 at 8 kHz: 6.000 s are 48 000 codes, and come back as the samples that they were."""
    clip = audio.load(clip_with_a_click_at_its_end(tmp_path, rate_hz))
    assert len(audio.resample(clip.pcm, 24_000, 8000)) == 48_000
    heard = perturbed_clip(clip, (Effect("mulaw8k", 0.0),), (1, 0)).pcm
    assert len(heard) == 144_000
    loudest = int(np.argmax(np.abs(heard[-480:].astype(int)))) + 144_000 - 480
    assert abs(loudest - (144_000 - 24_000 * CLICK_MS // 1000)) <= 3


def sweep(rate_hz: int, seconds: float = 3.0) -> audio.Pcm:
    t = np.arange(round(seconds * rate_hz)) / rate_hz
    return audio.to_pcm16(0.5 * np.sin(2 * np.pi * (100 * t + (rate_hz / 8 - 100) * t**2 / (2 * seconds))))


@pytest.mark.parametrize(("from_hz", "to_hz"), [(48_000, 24_000), (44_100, 16_000), (24_000, 8000)])
def test_a_whole_clip_has_the_length_that_its_duration_gives(from_hz: int, to_hz: int) -> None:
    """The length can be said beforehand, and the first sample is where it was."""
    pcm = sweep(from_hz)
    out = audio.resample(pcm, from_hz, to_hz)
    assert out.dtype == np.int16
    assert len(out) == round(len(pcm) * to_hz / from_hz)
    t = np.arange(to_hz // 10) / to_hz
    wanted = 0.5 * np.sin(2 * np.pi * (100 * t + (from_hz / 8 - 100) * t**2 / 6))
    assert np.abs(audio.to_float(out[: len(t)]) - wanted)[20:].max() < 0.01
    assert np.abs(audio.resample(np.zeros(0, dtype=np.int16), from_hz, to_hz)).size == 0


@pytest.mark.parametrize(("from_hz", "to_hz"), [(48_000, 16_000), (44_100, 16_000), (24_000, 16_000), (8000, 16_000)])
@pytest.mark.parametrize("chunk_ms", [20.0, 7.0, 0.0])
def test_chunks_give_the_same_as_one_piece(from_hz: int, to_hz: int, chunk_ms: float) -> None:
    """For the one resampler that works on a stream (the server's voice detector): 0.0 is one sample a chunk."""
    pcm = sweep(from_hz, 3.0 if chunk_ms else 0.2)
    whole = _Resampler(from_hz, to_hz).feed(pcm)
    size = max(1, round(from_hz * chunk_ms / 1000))
    stream = _Resampler(from_hz, to_hz)
    parts = [stream.feed(pcm[first : first + size]) for first in range(0, len(pcm), size)]
    parts.append(stream.feed(pcm[:0]))
    joined = np.concatenate(parts)
    assert joined.dtype == np.int16
    # What the filter still holds back is less than a millisecond, however the stream was cut.
    assert 0 <= len(pcm) * to_hz / from_hz - len(joined) <= to_hz / 1000
    shared = min(len(whole), len(joined))
    assert abs(len(whole) - len(joined)) <= to_hz / 1000
    assert np.abs(joined[:shared].astype(int) - whole[:shared]).max() <= 1
