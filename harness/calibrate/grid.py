"""What the metronome is asked to do while a machine is calibrated: reply delays × packet sizes × paddings × paces."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from harness.dialogue.record import TurnToSpeak
from sessions.clock import NS_PER_MS

RATE_HZ = 24_000
DELAYS_MS = (0, 40, 250)
PACKETS_MS = (10, 20, 80)
PADDINGS_MS = (0, 60)
PACES = ("steady", "stall", "burst")
STALL_MS = 40
_SOUND_MS = 160
_UTTERANCE_MS = 100
"""The shortest that servers of OpenAI Realtime take."""
_BETWEEN_TURNS_MS = 20


@dataclass(frozen=True, slots=True)
class Cell:
    """One reply. padding_ms: silence before its tone · pace: "steady" sends each packet when the one before has been
    heard, "stall" is that with one stall of 40 ms, "burst" sends all of it at once."""

    delay_ms: int
    packet_ms: int
    padding_ms: int
    pace: str
    sound_ms: int = _SOUND_MS

    def reply(self) -> dict[str, object]:
        """As it stands in a behaviour file."""
        fields: dict[str, object] = {
            "delay_ms": self.delay_ms,
            "packet_ms": self.packet_ms,
            "leading_silence_ms": self.padding_ms,
            "duration_ms": self.sound_ms,
            "pace": "burst" if self.pace == "burst" else "realtime",
        }
        if self.pace == "stall":
            fields["gaps"] = [{"before_packet": 1, "ms": STALL_MS}]
        return fields


def whole_grid() -> list[Cell]:
    """Every combination, in an order that is always the same and follows none of the four."""
    cells = [Cell(*each) for each in itertools.product(DELAYS_MS, PACKETS_MS, PADDINGS_MS, PACES)]
    random.Random(1).shuffle(cells)
    return cells


def quick_grid() -> list[Cell]:
    """A few short combinations that still hold every packet size, padding and pace."""
    paces = itertools.cycle(PACES)
    short = itertools.product(PADDINGS_MS, PACKETS_MS)
    return [Cell(40, packet_ms, padding_ms, next(paces)) for padding_ms, packet_ms in short]


def behaviour(cells: Sequence[Cell]) -> str:
    """A behaviour file (JSON is YAML) that replies to turn k with cell k, over and over."""
    file = {
        "version": 1,
        "description": "A calibration grid: one entry per combination.",
        "turns": [cell.reply() for cell in cells],
        "after_turns": "cycle",
    }
    return json.dumps(file)


def utterances(count: int) -> list[TurnToSpeak]:
    """`count` short user turns whose last sample is speech."""
    t = np.arange(_UTTERANCE_MS * RATE_HZ // 1000) / RATE_HZ
    pcm = np.round(8000 * np.cos(2 * np.pi * 220 * t)).astype(np.int16)
    return [TurnToSpeak(pcm, len(pcm) - 1, "annotation", _BETWEEN_TURNS_MS * NS_PER_MS)] * count
