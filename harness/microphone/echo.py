"""Whether the microphone hears the agent: what was played, found again in what is heard.

Half a second of the microphone is compared with what left the loudspeaker up to 400 ms before it, both differentiated,
as speech is mostly low frequencies that everything shares. The normalised correlation is 1 where one is the other,
louder or softer, and about 0.1 for unrelated speech. Two of three such windows must reach 0.35: a person who speaks
meanwhile hides the echo, never makes one.
"""

from __future__ import annotations

from collections import deque
from typing import Final

import numpy as np
from numpy.typing import NDArray

from harness.microphone.device import Heard, Pcm, Sounded
from sessions.clock import NS_PER_MS, NS_PER_S, samples_to_ns
from sessions.events import Echo

WINDOW_MS: Final = 500
REACH_MS: Final = 400
FOUND: Final = 0.35
_OF: Final = 3
_NEEDED: Final = 2
_QUIET: Final = 30.0
"""int16 steps, RMS: below it there is nothing to find, or nothing to find it in (−60 dBFS)."""
_AGAIN_NS: Final = 10 * NS_PER_S

Float = NDArray[np.float32]


class _Track:
    """The last seconds of one side on our clock, int16 samples with zeros where nothing was."""

    def __init__(self, rate_hz: int, lasts_ms: int) -> None:
        self._rate_hz = rate_hz
        self._pcm: Pcm = np.zeros(lasts_ms * rate_hz // 1000, dtype=np.int16)
        self.end_ns: int | None = None

    def put(self, pcm: Pcm, at_ns: int) -> None:
        """at_ns: of its first sample. Less than 5 ms off is jitter of the stamps."""
        gap = 0 if self.end_ns is None else round((at_ns - self.end_ns) * self._rate_hz / NS_PER_S)
        if abs(gap) * 200 < self._rate_hz:
            gap = 0
            at_ns = at_ns if self.end_ns is None else self.end_ns
        new = np.concatenate([np.zeros(min(max(0, gap), len(self._pcm)), dtype=np.int16), pcm])
        if gap < 0:
            new = new[min(-gap, len(new)) :]
        if len(new):
            self._pcm = np.concatenate([self._pcm, new])[-len(self._pcm) :]
        self.end_ns = at_ns + samples_to_ns(len(pcm), self._rate_hz)

    def cut(self, from_ns: int, samples: int) -> Float | None:
        """float32 (samples,) from an instant on; None where that is not all known."""
        if self.end_ns is None:
            return None
        first = len(self._pcm) - round((self.end_ns - from_ns) * self._rate_hz / NS_PER_S)
        if first < 0:
            return None
        found = self._pcm[first : first + samples].astype(np.float32)
        return np.pad(found, (0, samples - len(found)))


class EchoFinder:
    """Told both sides as they come."""

    def __init__(self, rate_hz: int) -> None:
        self._rate_hz = rate_hz
        self._window = WINDOW_MS * rate_hz // 1000
        self._reach = REACH_MS * rate_hz // 1000
        self._played = _Track(rate_hz, 3 * WINDOW_MS + REACH_MS)
        self._mic = _Track(rate_hz, 3 * WINDOW_MS)
        self._next_ns = 0
        self._found: deque[bool] = deque(maxlen=_OF)
        self._told_ns: int | None = None

    def sounded(self, block: Sounded) -> None:
        self._played.put(block.pcm, block.at_ns)

    def heard(self, heard: Heard) -> Echo | None:
        """A word on it, where an echo was found and none was told in the last 10 s."""
        self._mic.put(heard.pcm, heard.at_ns)
        end_ns = self._mic.end_ns or 0
        if end_ns < self._next_ns or self._played.end_ns is None:
            return None
        self._next_ns = end_ns + WINDOW_MS * NS_PER_MS
        window_ns = WINDOW_MS * NS_PER_MS
        if self._played.end_ns < end_ns - window_ns:  # the agent was silent
            return None
        mic = self._mic.cut(end_ns - window_ns, self._window)
        played = self._played.cut(end_ns - window_ns - REACH_MS * NS_PER_MS, self._window + self._reach)
        if mic is None or played is None or _rms(played) < _QUIET:
            return None
        correlation, delay = (0.0, 0) if _rms(mic) < _QUIET else best_match(played, mic)
        self._found.append(correlation >= FOUND)
        due = self._told_ns is None or end_ns - self._told_ns > _AGAIN_NS
        if sum(self._found) < _NEEDED or not self._found[-1] or not due:
            return None
        self._told_ns = end_ns
        delay_ns = samples_to_ns(self._reach - delay, self._rate_hz)
        return Echo(t_ns=heard.handed_ns, correlation=round(correlation, 3), delay_ns=delay_ns)


def best_match(played: Float, mic: Float) -> tuple[float, int]:
    """The greatest normalised correlation of `mic` (window,) with a stretch of `played` (window + reach,), 0 to 1, and
    the index in `played` at which that stretch begins."""
    played, mic = np.diff(played), np.diff(mic)
    size = 1 << (len(played) + len(mic) - 1).bit_length()
    spectrum = np.fft.rfft(played, size) * np.conj(np.fft.rfft(mic, size))
    products = np.fft.irfft(spectrum, size)[: len(played) - len(mic) + 1]
    sums = np.concatenate(([0.0], np.cumsum(np.square(played, dtype=np.float64))))
    energies = sums[len(mic) :] - sums[: len(sums) - len(mic)]
    scale = np.sqrt(np.maximum(energies, 1.0) * max(1.0, float(np.square(mic, dtype=np.float64).sum())))
    matches = np.abs(products) / scale
    best = int(matches.argmax())
    return float(min(1.0, matches[best])), best


def _rms(samples: Float) -> float:
    return float(np.sqrt(np.square(samples, dtype=np.float64).mean())) if len(samples) else 0.0
