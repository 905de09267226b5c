"""Turn detection: when a user starts and stops speaking, from a voice detector's probabilities. No clock, no I/O.

All positions are samples of the caller's audio since its session began, exact whatever the detector's own rate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import soxr

from servers.speech_model import Pcm, VoiceDetector
from sessions.audio import to_float, to_pcm16

START_MS = 60
"""Speech must have lasted this long before it counts: a click is no turn."""

HYSTERESIS = 0.15
"""Speech goes on while the probability is above the threshold less this, so that it does not flicker."""


@dataclass(frozen=True, slots=True)
class TurnDetection:
    """Settings of server VAD, with the protocol's defaults. threshold: of the detector's probability."""

    threshold: float = 0.5
    prefix_padding_ms: int = 300
    silence_duration_ms: int = 500
    create_response: bool = True
    interrupt_response: bool = True


@dataclass(frozen=True, slots=True)
class SpeechStarted:
    """sample: the first of the speech, without any padding."""

    sample: int


@dataclass(frozen=True, slots=True)
class SpeechStopped:
    """sample: the first after the silence that ended the turn."""

    sample: int


VadEvent = SpeechStarted | SpeechStopped


class TurnDetector:
    """Frames the stream for a detector and turns its probabilities into starts and stops."""

    def __init__(self, detector: VoiceDetector, settings: TurnDetection, *, rate_hz: int, origin: int) -> None:
        """rate_hz: of the audio that will be fed · origin: position of its first sample."""
        self._detector, self._settings = detector, settings
        self._rate_hz, self._origin = rate_hz, origin
        self._resampler = None if rate_hz == detector.rate_hz else _Resampler(rate_hz, detector.rate_hz)
        self._rest = np.empty(0, dtype=np.int16)
        self._frames = 0
        self._start_frames = -(-START_MS * detector.rate_hz // (1000 * detector.frame_samples))
        self._silence_samples = settings.silence_duration_ms * rate_hz // 1000
        self._loud_frames = 0
        self._loud_until = 0
        self.speaking = False

    def feed(self, pcm: Pcm) -> list[VadEvent]:
        """int16 (samples,) in order, any length. May take long with a neural detector: not for an event loop."""
        if self._resampler is not None:
            pcm = self._resampler.feed(pcm)
        audio = np.concatenate([self._rest, pcm]) if len(self._rest) else pcm
        size = self._detector.frame_samples
        whole = len(audio) // size
        self._rest = audio[whole * size :].copy()
        events: list[VadEvent] = []
        for index in range(whole):
            event = self._step(self._detector.probability(audio[index * size : (index + 1) * size]))
            if event is not None:
                events.append(event)
        return events

    @property
    def earliest_start(self) -> int:
        """Where the speech of a `SpeechStarted` still to come can begin at the earliest, without padding."""
        return self._position(self._frames - self._loud_frames)

    def _position(self, frames: int) -> int:
        """The sample at which the detector's frame number `frames` begins."""
        return self._origin + frames * self._detector.frame_samples * self._rate_hz // self._detector.rate_hz

    def _step(self, probability: float) -> VadEvent | None:
        self._frames += 1
        end = self._position(self._frames)
        floor = self._settings.threshold - (HYSTERESIS if self.speaking else 0.0)
        loud = probability >= max(floor, 0.01)
        self._loud_frames = self._loud_frames + 1 if loud else 0
        if loud:
            self._loud_until = end
        if not self.speaking and self._loud_frames >= self._start_frames:
            self.speaking = True
            return SpeechStarted(self._position(self._frames - self._loud_frames))
        if self.speaking and not loud and end - self._loud_until >= self._silence_samples:
            self.speaking = False
            return SpeechStopped(end)
        return None


class _Resampler:
    """To the detector's rate.

    The quick filter holds one sample back, the better ones up to 20 ms; Silero finds the same turns with either. By way
    of float, because soxr dithers int16: what is heard would depend on how the stream was cut.
    """

    def __init__(self, from_hz: int, to_hz: int) -> None:
        self._stream = soxr.ResampleStream(from_hz, to_hz, 1, dtype="float32", quality="QQ")

    def feed(self, pcm: Pcm) -> Pcm:
        return to_pcm16(np.asarray(self._stream.resample_chunk(to_float(pcm)), dtype=np.float32))
