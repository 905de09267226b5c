"""Whether the microphone hears the agent: what was played, found again in what is heard.

Half a second of the microphone is held against what left the loudspeaker up to 400 ms before it: by the phase of their
cross spectrum from 200 to 6000 Hz alone (GCC-PHAT: Knapp and Carter 1976), which a room's reverberation blurs least.
The clearest delay counts where it stands out seven times above the mean of all (RMS), and where the two are correlated
by at least 0.25 there: other speech of the same voice stays below 0.2. As an echo's delay is always the same, two of
the last five such windows must agree within 2 ms. A person who speaks meanwhile hides an echo, never makes one.
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
CLEAR: Final = 7.0
CORRELATED: Final = 0.25
_BAND_HZ: Final = (200.0, 6000.0)
_OF: Final = 5
_NEEDED: Final = 2
_SAME_MS: Final = 2
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
        self._found: deque[tuple[int, float] | None] = deque(maxlen=_OF)
        """(delay in samples, correlation) of the last windows, None where no delay was clear."""
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
        self._found.append(None if _rms(mic) < _QUIET else clear_match(played, mic, self._rate_hz))
        last = self._found[-1]
        due = self._told_ns is None or end_ns - self._told_ns > _AGAIN_NS
        if last is None or not due:
            return None
        near = _SAME_MS * self._rate_hz // 1000
        if sum(one is not None and abs(one[0] - last[0]) <= near for one in self._found) < _NEEDED:
            return None
        self._told_ns = end_ns
        delay_ns = samples_to_ns(self._reach - last[0], self._rate_hz)
        return Echo(t_ns=heard.handed_ns, correlation=round(last[1], 3), delay_ns=delay_ns)


def clear_match(played: Float, mic: Float, rate_hz: int) -> tuple[int, float] | None:
    """Where in `played` (window + reach,) the sound of `mic` (window,) begins, and their normalised correlation there,
    0 to 1; None where no place is clear, or they are not correlated."""
    size = 1 << (len(played) + len(mic) - 1).bit_length()
    spectrum = np.fft.rfft(played, size) * np.conj(np.fft.rfft(mic, size))
    spectrum /= np.abs(spectrum) + 1e-9
    frequency_hz = np.fft.rfftfreq(size, 1 / rate_hz)
    spectrum[(frequency_hz < _BAND_HZ[0]) | (frequency_hz > _BAND_HZ[1])] = 0
    clearness = np.abs(np.fft.irfft(spectrum, size)[: len(played) - len(mic) + 1])
    best = int(clearness.argmax())
    if clearness[best] < CLEAR * np.sqrt(np.square(clearness).mean()):
        return None
    stretch = played[best : best + len(mic)].astype(np.float64)
    scale = np.sqrt(max(1.0, float(np.square(stretch).sum())) * max(1.0, float(np.square(mic, dtype=np.float64).sum())))
    correlation = min(1.0, float(abs(stretch @ mic) / scale))
    return None if correlation < CORRELATED else (best, correlation)


def _rms(samples: Float) -> float:
    return float(np.sqrt(np.square(samples, dtype=np.float64).mean())) if len(samples) else 0.0
