"""The table: errors by number of streams, figure, client and definition, and what ours are against each."""

from __future__ import annotations

from collections.abc import Sequence

import click

from benchmarks.accuracy.arms import NOT_DRIVEN, OURS
from benchmarks.accuracy.truth import Found, Spread, spread

GOAL_RATIO = 5.0
FIGURES = ("first packet", "voice-to-voice")
WITH_LATE = ", + late turns"
"""Ours with the turns that it leaves out because this machine was late in them: the others leave out none."""
JUDGES = {"own": "own words", "ours": "our words"}


def tell_block(streams: int, found: dict[str, Found], turns: int) -> bool:
    """One table per figure for so many streams; whether every ratio holds the goal. turns: that each client held."""
    held = True
    for figure in FIGURES:
        head = f"{figure}, {streams} stream{'s' if streams > 1 else ''}; ms"
        click.echo(f"\n{head:<42}{'n':>6}{'bias':>9}{'p50':>9}{'p99':>9}{'max':>9}   peer / ours at p99")
        ours = {judge: _spread(found[OURS], figure, judge) for judge in JUDGES}
        for name, of_arm in found.items():
            for judge, words in JUDGES.items():
                seen = _spread(of_arm, figure, judge)
                label = f"  {name:<24}{words:<16}"
                if seen is None:
                    click.echo(f"{label}{'-':>6}   it has no such figure" if of_arm.errors else f"{label}{'-':>6}")
                    continue
                verdict, holds = ("", True) if name.startswith(OURS) else _verdict(seen, ours[judge])
                held = held and holds
                p99 = "-" if seen.p99 is None else f"{seen.p99:.3f}"
                numbers = f"{seen.n:>6}{seen.bias:>9.3f}{seen.p50:>9.3f}{p99:>9}{seen.largest:>9.3f}"
                click.echo(f"{label}{numbers}   {verdict}".rstrip())
    counts = {name: len(of_arm.errors.get(("first packet", "own"), [])) for name, of_arm in found.items()}
    left_out = ", ".join(f"{name} {turns - count}" for name, count in counts.items() if count < turns)
    if left_out:
        click.echo(f"left out of {turns} turns (called invalid by the client itself, or without a figure): {left_out}")
    return held


def _spread(found: Found, figure: str, judge: str) -> Spread | None:
    errors = found.errors.get((figure, judge))
    return spread(errors) if errors else None


def _verdict(peer: Spread, ours: Spread | None) -> tuple[str, bool]:
    """By p99; by the maximum where one of the two has too few values for a p99."""
    if ours is None:
        return "no figure of ours", False
    by_p99 = peer.p99 is not None and ours.p99 is not None
    theirs, mine = (peer.p99, ours.p99) if by_p99 else (peer.largest, ours.largest)
    assert theirs is not None and mine is not None
    ratio = theirs / mine
    holds = ratio >= GOAL_RATIO
    return f"{ratio:6.1f} {'PASS' if holds else 'MISSED'}{'' if by_p99 else ' (of max: n < 100)'}", holds


def tell_floor(floor: Sequence[float], ours: Found, goal_ms: float) -> bool:
    """The floor, and whether our own median is as near to it as it should be."""
    low = spread(floor)
    click.echo(
        f"\nfloor, write to data_received: n {low.n}, p50 {low.p50:.3f}, p99 {low.p99:.3f}, max {low.largest:.3f} ms"
    )
    goal = max(goal_ms, 2 * low.p50)
    medians = [spread(ours.errors[figure, "own"]).p50 for figure in FIGURES]
    held = max(medians) <= goal
    shown = " and ".join(f"{median:.3f}" for median in medians)
    word = "PASS" if held else "MISSED"
    click.echo(f"ours, 1 stream: p50 {shown}; goal <= max({goal_ms:g}, 2 x the floor's p50) = {goal:.3f} ms: {word}")
    return held


def tell_not_driven(failed: dict[str, str]) -> None:
    """failed: arms that were meant to run, with the reason."""
    click.echo("\nnot driven, and why:")
    for name, reason in {**failed, **NOT_DRIVEN}.items():
        click.echo(f"  {name}: {reason}")
