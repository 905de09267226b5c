"""Whether a sound holds speech, where, and the pieces that a recogniser is handed.

A recogniser that is handed silence invents words, so it never is: what no listener would hear, and what no voice
detector takes for a voice, is settled here. The same pauses cut sounds longer than a recogniser takes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from harness.from_recording.segments import METHODS, Stretch
from harness.recognise.backend import RATE_HZ
from metrics.scoring import FloatPcm
from sessions.audio import to_pcm16
from sessions.gate import GATE, THRESHOLD_DBFS, first_audible_index

SPEECH: Final = ("silero", "energy-1", "none")
"""Ways to tell speech: those of `harness.from_recording`, or none: every sound is handed on."""
SHORTEST_S: Final = 0.1
"""Below this Whisper can only invent."""
_PAD: Final = RATE_HZ // 5
_PAUSE: Final = 2 * RATE_HZ
"""A longer pause parts two pieces: it is never decoded."""
_SHORT: Final = RATE_HZ * 6 // 10
_BLOCK: Final = 10 * RATE_HZ
_QUIET: Final = RATE_HZ // 5
_SEARCH: Final = 5 * RATE_HZ


def silence(samples: FloatPcm) -> str:
    """Why no listener hears anything in float32 (n,) mono at 16 kHz; "" where something is audible."""
    if len(samples) < SHORTEST_S * RATE_HZ:
        return f"the sound lasts {1000 * len(samples) / RATE_HZ:.0f} ms, less than {1000 * SHORTEST_S:.0f} ms"
    if all(first_audible_index(to_pcm16(block), RATE_HZ) is None for block in _blocks(samples)):
        return f"nothing in it is above {THRESHOLD_DBFS:.0f} dBFS ({GATE})"
    return ""


def stretches(samples: FloatPcm, method: str) -> list[Stretch]:
    """Where somebody speaks. Raises `MissingExtra` or `MissingWeights` where the detector is not there."""
    if method == "none":
        return [Stretch(0, len(samples))]
    # A voice that begins with the first sample, or is still there at the last, is told worse without quiet around it.
    quiet = np.zeros(_PAD, np.float32)
    padded = METHODS[method](_around(quiet, samples), RATE_HZ)
    found = (Stretch(max(0, one.first - _PAD), min(len(samples), one.stop - _PAD)) for one in padded)
    return [one for one in found if one.stop > one.first]


def pieces(samples: FloatPcm, speech: list[Stretch], longest_s: float | None) -> list[Stretch]:
    """`speech` in pieces of at most `longest_s`, with 200 ms of what lies around each; None: all in one.

    Cut in pauses where there are any, else at the quietest place of a piece's last 5 s. A short sound that stands alone
    at the beginning is a piece of its own: a recogniser that takes a "hmm" for nothing would stretch the first word of
    what follows back over it and over the pause.
    """
    if not speech:
        return []
    if longest_s is None:
        return [Stretch(0, len(samples))]
    longest = int(longest_s * RATE_HZ) - 2 * _PAD
    groups: list[Stretch] = []
    for part in _split(samples, speech, longest):
        last = groups[-1] if groups else None
        alone = len(groups) == 1 and speech[0].stop - speech[0].first <= _SHORT and last == speech[0]
        if last and not alone and part.first - last.stop <= _PAUSE and part.stop - last.first <= longest:
            groups[-1] = Stretch(last.first, part.stop)
        else:
            groups.append(part)
    return _padded(groups, len(samples))


def _split(samples: FloatPcm, speech: list[Stretch], longest: int) -> Iterator[Stretch]:
    for one in speech:
        first = one.first
        while one.stop - first > longest:
            cut = _quietest(samples, first + longest - _SEARCH, first + longest)
            yield Stretch(first, cut)
            first = cut
        yield Stretch(first, one.stop)


def _quietest(samples: FloatPcm, start: int, stop: int) -> int:
    """The middle of the quietest 200 ms."""
    power = np.concatenate([[0.0], np.cumsum(np.square(samples[start:stop], dtype=np.float64))])
    return start + _QUIET // 2 + int(np.argmin(power[_QUIET:] - power[:-_QUIET]))


def _padded(groups: list[Stretch], samples: int) -> list[Stretch]:
    """Each with what lies around it, never reaching into a neighbour's."""
    out = []
    for at, one in enumerate(groups):
        before = (groups[at - 1].stop + one.first) // 2 if at else 0
        after = (one.stop + groups[at + 1].first) // 2 if at + 1 < len(groups) else samples
        out.append(Stretch(max(before, one.first - _PAD), min(after, one.stop + _PAD)))
    return out


def _around(quiet: FloatPcm, samples: FloatPcm) -> Iterator[FloatPcm]:
    """In pieces of whole seconds, but for the last, as detectors want them."""
    head = RATE_HZ - len(quiet)
    if len(samples) <= head:
        yield np.concatenate([quiet, samples, quiet])
        return
    yield np.concatenate([quiet, samples[:head]])
    rest = samples[head:]
    whole = len(rest) // _BLOCK * _BLOCK
    yield from _blocks(rest[:whole])
    yield np.concatenate([rest[whole:], quiet])


def _blocks(samples: FloatPcm) -> Iterator[FloatPcm]:
    for first in range(0, len(samples), _BLOCK):
        yield samples[first : first + _BLOCK]
