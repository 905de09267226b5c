"""In which order two runs perform their dialogues, so that what drifts with time falls on both alike."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Name = Literal["a", "b"]
NAMES: tuple[Name, Name] = ("a", "b")
"""Of the two runs, and of their folders."""
_BLOCK = 2
"""Dialogues of each run in a block: A B B A, or B A A B. In each both have the same mean place in time."""


@dataclass(frozen=True, slots=True)
class Step:
    """One dialogue. number: its place in the plan of its own run, from 0."""

    run: Name
    number: int


def alternation(warmups: int, dialogues: int, seed: int) -> list[Step]:
    """All dialogues of both runs, each of which has `dialogues`, the first `warmups` of them for warm-up.

    Dialogue k of A and dialogue k of B follow one another at once. Half of the blocks begin with A, half with B,
    which by `seed`; blocks of warm-up are apart.
    """
    draw = random.Random(seed)
    return [step for numbers in (range(warmups), range(warmups, dialogues)) for step in _blocks(numbers, draw)]


def _blocks(numbers: Sequence[int], draw: random.Random) -> list[Step]:
    blocks = [numbers[start : start + _BLOCK] for start in range(0, len(numbers), _BLOCK)]
    firsts = [NAMES[place % 2] for place in range(len(blocks) // 2 * 2)]
    if len(blocks) % 2:
        firsts.append(draw.choice(NAMES))
    draw.shuffle(firsts)
    steps = []
    for first, block in zip(firsts, blocks, strict=True):
        second: Name = "b" if first == "a" else "a"
        for place, number in enumerate(block):
            two = (first, second) if place % 2 == 0 else (second, first)
            steps += [Step(name, number) for name in two]
    return steps
