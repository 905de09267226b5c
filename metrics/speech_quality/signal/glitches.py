"""Clicks, jumps, junk and packets that came twice: what was put together wrongly, at packet borders or anywhere.

A place is a glitch where its crest (`prediction`) stands above what clean speech has. At a border less is needed than
elsewhere, since a border seldom falls on one of the few samples at which clean speech comes near.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from metrics.repeats import is_tone
from metrics.scoring import FloatPcm
from metrics.speech_quality.signal.prediction import Crests, crests

CLICK = 15.0
JUNK = 50.0
CLICK_AT_BORDER = 8.0
JUMP_AT_BORDER = 15.0
JUNK_AT_BORDER = 40.0
EDGE_S = 0.010
"""At both ends of the sound nothing is looked for: there is nothing to foretell it from."""
APART_S = 0.005
"""Nearer ones are one glitch."""
BESIDE_BORDER = 2
"""A border's own sample and so many on either side."""
RANKED_BORDERS = 20
"""Fewer say nothing about borders as such."""
_POINTS = 8
"""Places within a packet that its border is compared with."""
_SHORTEST_PACKET_S = 0.004

Kind = Literal["click", "junk", "repeated packet"]


@dataclass(frozen=True, slots=True)
class Glitch:
    """at: its first sample · crest: how far it stands out, 0 for a repeated packet."""

    at: int
    kind: Kind
    at_border: bool
    crest: float


@dataclass(slots=True)
class Found:
    """glitches: in order · ranks: of each border that was compared, the share of its packet that stands out less."""

    glitches: list[Glitch] = field(default_factory=list)
    ranks: list[float] = field(default_factory=list)

    @property
    def rank(self) -> float | None:
        """The mean rank, 0.5 where borders are places like any other; None with too few borders."""
        return float(np.mean(self.ranks)) if len(self.ranks) >= RANKED_BORDERS else None

    @property
    def has_seams(self) -> bool:
        """Whether borders as such stand out: by 5 standard errors of a rank among equals, and by a tenth at least."""
        rank = self.rank
        return rank is not None and rank - 0.5 > max(0.1, 5 * math.sqrt(1 / 12 / len(self.ranks)))


def find_glitches(samples: FloatPcm, rate_hz: int, level: float, borders: tuple[int, ...]) -> Found:
    """level: root mean square of the speech · borders: the first sample of each packet."""
    edge = round(EDGE_S * rate_hz)
    inner = np.array([border for border in sorted({*borders}) if edge <= border < len(samples) - edge], dtype=np.int64)
    found = Found()
    places: list[Glitch] = _repeated(samples, rate_hz, sorted({*borders, len(samples)}), level)
    for chunk in crests(samples, rate_hz, level, BESIDE_BORDER):
        stop = chunk.start + len(chunk.click)
        for crest in (chunk.click, chunk.jump, chunk.junk):
            crest[: max(edge - chunk.start, 0)] = 0
            crest[max(len(samples) - edge - chunk.start, 0) :] = 0
        here = inner[(inner >= chunk.start + BESIDE_BORDER) & (inner < stop - BESIDE_BORDER)] - chunk.start
        places += _at_borders(chunk, here) + _anywhere(chunk)
        found.ranks += _ranks(chunk.jump, here, round(_SHORTEST_PACKET_S * rate_hz))
    found.glitches = _merged(places, round(APART_S * rate_hz))
    return found


def _at_borders(chunk: Crests, borders: NDArray[np.int64]) -> list[Glitch]:
    if not len(borders):
        return []
    around = borders[:, None] + np.arange(-BESIDE_BORDER, BESIDE_BORDER + 1)
    click, jump, junk = (crest[around].max(axis=1) for crest in (chunk.click, chunk.jump, chunk.junk))
    short = (click >= CLICK_AT_BORDER) | (jump >= JUMP_AT_BORDER)
    return [
        Glitch(
            int(borders[i]) + chunk.start, "click" if short[i] else "junk", True, float(max(click[i], jump[i], junk[i]))
        )
        for i in np.flatnonzero(short | (junk >= JUNK_AT_BORDER)).tolist()
    ]


def _anywhere(chunk: Crests) -> list[Glitch]:
    found: list[Glitch] = []
    kinds: tuple[tuple[Kind, NDArray[np.float64], float], ...] = (
        ("click", chunk.click, CLICK),
        ("junk", chunk.junk, JUNK),
    )
    for kind, crest, threshold in kinds:
        found += [
            Glitch(at + chunk.start, kind, False, float(crest[at]))
            for at in np.flatnonzero(crest >= threshold).tolist()
        ]
    return found


def _merged(places: list[Glitch], apart: int) -> list[Glitch]:
    """One glitch for all that lie together: the one at a border, else the one that stands out most."""
    merged: list[Glitch] = []
    for place in sorted(places, key=lambda one: one.at):
        if merged and place.at - merged[-1].at < apart:
            merged[-1] = max(
                merged[-1], place, key=lambda one: (one.kind == "repeated packet", one.at_border, one.crest)
            )
        else:
            merged.append(place)
    return merged


def _repeated(samples: FloatPcm, rate_hz: int, marks: list[int], level: float) -> list[Glitch]:
    """Packets that are the one before once more, to the sample, and neither just both silent nor parts of one tone."""
    found = []
    for before, start, stop in zip(marks, marks[1:], marks[2:], strict=False):
        packet, last = samples[start:stop], samples[before:start]
        if len(packet) != len(last) or float(np.std(packet)) < level / 10 or not np.array_equal(packet, last):
            continue
        if not is_tone(packet.astype(np.float64), rate_hz):
            found.append(Glitch(start, "repeated packet", True, 0.0))
    return found


def _ranks(crest: NDArray[np.float64], borders: NDArray[np.int64], shortest: int) -> list[float]:
    """Of each border that a packet follows: the share of places in that packet that stand out less; ties count half."""
    if len(borders) < 2:
        return []
    starts, lengths = borders[:-1], np.diff(borders)
    starts, lengths = starts[lengths >= shortest], lengths[lengths >= shortest]
    beside = np.arange(-BESIDE_BORDER, BESIDE_BORDER + 1)
    steps = np.arange(1, _POINTS + 1) * lengths[:, None] // (_POINTS + 1)
    own = crest[starts[:, None] + beside].max(axis=1)
    others = crest[(starts[:, None] + steps)[:, :, None] + beside].max(axis=2)
    sounding = others.max(axis=1, initial=0) > 0
    ranks = ((others < own[:, None]) + 0.5 * (others == own[:, None])).mean(axis=1)
    return [float(rank) for rank in ranks[sounding]]
