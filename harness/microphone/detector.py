"""When the person at the microphone speaks, block by block as it comes: `speech_end/floor-1`.

The lane is cut into 5 ms blocks on its sample index. The level of a block is its standard deviation, so that a DC
offset is none. The noise floor is the least level of any 50 ms in the last 8 s. A block is loud when its level is at
least −60 dBFS, at least 8 dB above the floor, and, within an utterance, within 35 dB of its loudest block so far. It is
heard when at least three of some four blocks in a row that hold it are loud (a click is not), or when it is loud within
100 ms after a heard one of its utterance (a voice dies away by single blocks).

An utterance begins with the first heard block of 100 ms of which at least 60 ms were heard, and ends with the last
sample of its last heard block, once the quiet after it has lasted for as long as was asked for. Where the noise floor
is more than 43 dB below the voice this is the level rule of `speech_end/energy-1`; where it is not, energy-1 would hear
no end.
"""

from __future__ import annotations

import math
from collections import deque
from dataclasses import dataclass, field
from typing import Final

import numpy as np

from sessions.audio import FloatPcm, Pcm, to_pcm16
from sessions.errors import BadAudio
from sessions.speech_end import FLOOR_1, SpeechEnd

BLOCKS_PER_S: Final = 200
ABOVE_FLOOR_DB: Final = 8.0
RANGE_DB: Final = 35.0
LEAST_DBFS: Final = -60.0
PAUSE_MS: Final = 200
"""Quiet inside an utterance that is told as a pause."""
_FLOOR_CHUNK: Final = 10
_FLOOR_CHUNKS: Final = 8 * BLOCKS_PER_S // _FLOOR_CHUNK
_BEGIN_WINDOW: Final = 20
_BEGIN_HEARD: Final = 12
_FADE: Final = 20
"""Blocks after a heard one in which a loud one alone is heard too."""
_LOOK: Final = 4
_NEEDED: Final = 3
_FULL_SCALE: Final = 32768
_SILENT_DBFS: Final = -120.0


@dataclass(slots=True)
class Utterance:
    """What is known of an utterance so far. Positions are samples of the lane.

    first: of its first heard block · stop: one past its last heard block · heard_samples: in its heard blocks ·
    pauses: (first, samples) · ended: no more of it comes.
    """

    first: int
    stop: int
    heard_samples: int = 0
    pauses: list[tuple[int, int]] = field(default_factory=list)
    ended: bool = False


class SpeechDetector:
    """Fed the lane, it tells utterances. level_dbfs: of the last frame · floor_dbfs: of the noise."""

    def __init__(self, rate_hz: int, end_after_ms: int) -> None:
        self._block = rate_hz // BLOCKS_PER_S
        self._end_after = end_after_ms * BLOCKS_PER_S // 1000
        self._rest: Pcm = np.zeros(0, dtype=np.int16)
        self._blocks = 0
        """Blocks whose level is known."""
        self._loud: deque[bool] = deque([False] * (2 * _LOOK - 2), maxlen=2 * _LOOK - 1)
        self._heard: deque[int] = deque()
        """Heard blocks of the last 100 ms, while nobody speaks."""
        self._loudest_dbfs = -math.inf
        self._chunk: list[float] = []
        self._floors: deque[float] = deque(maxlen=_FLOOR_CHUNKS)
        self.utterance: Utterance | None = None
        self.level_dbfs = _SILENT_DBFS

    @property
    def floor_dbfs(self) -> float:
        return min(self._floors, default=_SILENT_DBFS)

    @property
    def quiet_samples(self) -> int:
        """Since the utterance's last heard block; 0 without one."""
        return 0 if self.utterance is None else self._blocks * self._block - self.utterance.stop

    def feed(self, pcm: Pcm) -> list[Utterance]:
        """The lane goes on, int16 (samples,). The utterances that began or ended with that; one may have done both."""
        self._rest = np.concatenate([self._rest, pcm])
        count = len(self._rest) // self._block
        whole = self._rest[: count * self._block].reshape(count, self._block).astype(np.float64)
        self._rest = self._rest[count * self._block :]
        powers = whole.var(axis=1) / _FULL_SCALE**2
        if count:
            self.level_dbfs = _dbfs(float(powers.mean()))
        news = []
        for power in powers.tolist():
            news += self._next(power)
        return news

    def end_now(self) -> Utterance | None:
        """The utterance is over, however short the quiet after it."""
        utterance, self.utterance = self.utterance, None
        if utterance is not None:
            utterance.ended = True
            self._loudest_dbfs = -math.inf
            self._heard.clear()
        return utterance

    def _next(self, power: float) -> list[Utterance]:
        level = _dbfs(power)
        self._note_floor(power)
        self._loud.append(level >= self._threshold_dbfs())
        self._blocks += 1
        judged = self._blocks - _LOOK  # the last block whose neighbours are all known
        if judged < 0:
            return []
        is_heard = self._loud[_LOOK - 1] and (self._fades(judged) or self._is_sustained())
        if self.utterance is not None and level >= self._threshold_dbfs():
            self._loudest_dbfs = max(self._loudest_dbfs, level)
        return self._quiet_or_on(judged, is_heard) if self.utterance is not None else self._begins(judged, is_heard)

    def _is_sustained(self) -> bool:
        loud = list(self._loud)
        return any(sum(loud[at : at + _LOOK]) >= _NEEDED for at in range(_LOOK))

    def _fades(self, judged: int) -> bool:
        """A voice that dies away is loud by single blocks in the end."""
        utterance = self.utterance
        return utterance is not None and judged * self._block - utterance.stop < _FADE * self._block

    def _threshold_dbfs(self) -> float:
        return max(LEAST_DBFS, self.floor_dbfs + ABOVE_FLOOR_DB, self._loudest_dbfs - RANGE_DB)

    def _note_floor(self, power: float) -> None:
        self._chunk.append(power)
        if len(self._chunk) == _FLOOR_CHUNK:
            self._floors.append(_dbfs(sum(self._chunk) / _FLOOR_CHUNK))
            self._chunk.clear()

    def _begins(self, judged: int, is_heard: bool) -> list[Utterance]:
        if is_heard:
            self._heard.append(judged)
        while self._heard and self._heard[0] <= judged - _BEGIN_WINDOW:
            self._heard.popleft()
        if len(self._heard) < _BEGIN_HEARD:
            return []
        first = self._heard[0] * self._block
        self.utterance = Utterance(first, (judged + 1) * self._block, len(self._heard) * self._block)
        return [self.utterance]

    def _quiet_or_on(self, judged: int, is_heard: bool) -> list[Utterance]:
        utterance = self.utterance
        assert utterance is not None
        quiet = judged * self._block - utterance.stop
        if is_heard:
            if quiet >= PAUSE_MS * self._block * BLOCKS_PER_S // 1000:
                utterance.pauses.append((utterance.stop, quiet))
            utterance.stop = (judged + 1) * self._block
            utterance.heard_samples += self._block
            return []
        if quiet + self._block < self._end_after * self._block:
            return []
        self.end_now()
        return [utterance]


def _dbfs(power: float) -> float:
    return 10 * math.log10(power) if power > 1e-12 else _SILENT_DBFS


def floor_1(samples: Pcm | FloatPcm, rate_hz: int, *, name: str) -> SpeechEnd:
    """Find the end of a whole recording by `speech_end/floor-1`, as if it had been heard: whatever its pauses, the last
    heard block. samples: int16 or float32 (samples,) at a whole number of blocks a second · name: for an error. Raises
    `BadAudio` where nothing is heard."""
    detector = SpeechDetector(rate_hz, len(samples) * 1000 // rate_hz + 1000)
    pcm = samples.astype(np.int16, copy=False) if samples.dtype == np.int16 else to_pcm16(samples.astype(np.float32))
    # The last blocks are judged by those after them.
    detector.feed(np.concatenate([pcm, np.zeros(_LOOK * (rate_hz // BLOCKS_PER_S), dtype=np.int16)]))
    if detector.utterance is None:
        raise BadAudio(
            f"no speech in {name}: cannot tell where it ends (to {FLOOR_1} none of it is louder than its noise)",
            "Give a recording with a voice in it, or annotate speech_end_sample in the script",
        )
    return SpeechEnd(min(detector.utterance.stop, len(pcm)) - 1, rate_hz, FLOOR_1)
