"""A microphone's lane on our clock: each sample where the device's own stamps put it.

The device's clock drifts from ours by some millionths. No sound is resampled for that: the nearest sample is taken, so
that now and then one is left out or comes twice. Where samples were lost there is silence.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import soundfile
from numpy.typing import NDArray

from sessions.clock import NS_PER_S
from sessions.errors import BadAudio
from sessions.events import AnyEvent, LaneAt, Opened
from sessions.lane import LANE_FILE, LaneTimes

Pcm = NDArray[np.int16]


def heard_lane(folder: Path, events: Sequence[AnyEvent]) -> list[tuple[int, Pcm]]:
    """(when its first sample was, int16 (samples,)) of each stretch without a loss; none where no microphone was used.

    folder: of the dialogue, with the lane. Raises `BadAudio`.
    """
    rate_hz = next((event.rate_hz for event in events if isinstance(event, Opened)), 0)
    anchors = sorted((event for event in events if isinstance(event, LaneAt)), key=lambda anchor: anchor.sample)
    if not anchors:
        return []
    pcm = read_lane(folder / LANE_FILE)
    times = LaneTimes(anchors, rate_hz)
    firsts = [0, *(anchor.sample for anchor in anchors[1:] if anchor.starts), len(pcm)]
    return [_stretch(pcm, times, anchors, (first, stop)) for first, stop in pairwise(firsts) if stop > first]


def read_lane(place: Path) -> Pcm:
    """int16 (samples,), however long. Raises `BadAudio`."""
    try:
        pcm, _ = soundfile.read(str(place), dtype="int16")
    except (soundfile.LibsndfileError, OSError) as error:
        raise BadAudio(f"cannot use {place}: {error}", "`duologue check RUN` tells what else is missing") from error
    return np.asarray(pcm, dtype=np.int16)


def _stretch(pcm: Pcm, times: LaneTimes, anchors: Sequence[LaneAt], within: tuple[int, int]) -> tuple[int, Pcm]:
    first, stop = within
    rate_hz, start_ns = times.rate_hz, times.at_ns(first)
    samples = [first, *(anchor.sample for anchor in anchors if first < anchor.sample < stop - 1), stop - 1]
    known_ns = np.array([times.at_ns(sample) - start_ns for sample in samples], dtype=np.float64)
    length = ((times.end_ns(stop - 1) - start_ns) * rate_hz + NS_PER_S // 2) // NS_PER_S
    wanted_ns = np.arange(length, dtype=np.float64) * NS_PER_S / rate_hz
    source = np.rint(np.interp(wanted_ns, known_ns, np.array(samples, dtype=np.float64))).astype(np.int64)
    return start_ns, pcm[source]
