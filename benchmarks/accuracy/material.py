"""What is said to the metronome and what it answers: made so that definitions matter."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import soundfile
import yaml

RATE_HZ = 24_000
REPLIES = 6
"""The behaviour repeats after so many turns."""
_CLIP_SAMPLES = (5111, 4894, 5255, 5040, 4827, 5177)
"""About 0.2 s each; no whole number of 20 ms frames, nor of any other round grid."""
_GAP_MS = 40

BEHAVIOUR = """\
version: 1
description: Six replies over and over. Plain; silence first; more of it, in odd packets; all at once, with the
  beginning of speech inside a packet; a stall within the silence; noise too soft to be heard in the place of silence.
after_turns: cycle
reply: {text: tick, duration_ms: 120, pace: realtime}
turns:
  - {delay_ms: 180, packet_ms: 20}
  - {delay_ms: 120, packet_ms: 20, leading_silence_ms: 60}
  - {delay_ms: 200, packet_bytes: [1034, 3998, 514], leading_silence_ms: 140}
  - {delay_ms: 95, packet_ms: 90, leading_silence_ms: 33, pace: burst}
  - {delay_ms: 150, packet_ms: 40, leading_silence_ms: 100, gaps: [{before_packet: 2, ms: 55}]}
  - {delay_ms: 165, packet_ms: 37, leading_silence_ms: 80, leading_noise_dbfs: -62}
"""


def write_clips(folder: Path, rate_hz: int = RATE_HZ) -> None:
    """One WAV per utterance: a tone whose last sample is its loudest, so that there is no doubt where speech ends."""
    folder.mkdir()
    for number, samples_at_24k in enumerate(_CLIP_SAMPLES):
        samples = samples_at_24k * rate_hz // RATE_HZ
        phase = 2 * np.pi * 220 / rate_hz * (np.arange(samples) - (samples - 1))
        pcm = np.round(8000 * np.cos(phase)).astype(np.int16)
        soundfile.write(folder / f"clip-{number}.wav", pcm, rate_hz, subtype="PCM_16")


def write_script(place: Path, clips: Path, turns: int) -> Path:
    """A session script of `turns` of the clips, in turn."""
    paths = sorted(clips.glob("*.wav"))
    spoken = [
        {
            "audio": str(paths[number % len(paths)].relative_to(place)),
            "speech_end_sample": _CLIP_SAMPLES[number % len(paths)] - 1,
            "start": {"gap_ms": _GAP_MS},
        }
        for number in range(turns)
    ]
    script = place / f"turns-{turns}.yaml"
    script.write_text(yaml.safe_dump({"version": 1, "name": "accuracy", "turns": spoken}))
    return script


def write_behaviour(place: Path) -> Path:
    path = place / "metronome.yaml"
    path.write_text(BEHAVIOUR)
    return path


class Reported(msgspec.Struct, frozen=True):
    """What a client said of one turn. reply: the server's name of the reply, "" where it heard none.

    speech_end_ns: where the client holds the end of speech to have been on the host's clock, 0 if it does not tell ·
    late: the client itself calls the turn invalid.
    """

    turn: int
    reply: str = ""
    first_packet_ms: float | None = None
    voice_to_voice_ms: float | None = None
    speech_end_ns: int = 0
    late: bool = False
