"""Distributions as inline SVG.

Positions across are percentages, so that a figure fits a phone without shrinking its text.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from harness.report.html.markup import Markup, tag
from harness.report.wording import MINUS

DOTS_AT_MOST = 240
"""Above this many turns a row becomes a histogram: dots would only be a smear."""
BARS = 90
_ROW_PX = 40
_GOLDEN = 0.6180339887498949


@dataclass(frozen=True, slots=True)
class Axis:
    """A shared scale in ms, with round ticks."""

    low: float
    high: float
    ticks: tuple[float, ...]

    def percent(self, value: float) -> float:
        return round(100 * (value - self.low) / (self.high - self.low), 3)


@dataclass(frozen=True, slots=True)
class Dots:
    """One row. values and first (was it the dialogue's first turn) are as long as each other; ms."""

    label: str
    values: tuple[float, ...]
    first: tuple[bool, ...]
    p50: float
    p95: float | None


def axis_for(rows: Sequence[Dots], ticks: int = 8) -> Axis:
    """A scale that holds every value of every row, and zero."""
    values = [value for row in rows for value in row.values]
    low, high = min(0.0, *values), max(0.0, *values)
    step = _round_step((high - low or 1.0) / ticks)
    first, last = math.floor(low / step), max(math.ceil(high / step), 1)
    if low == 0.0:
        first = 0
    return Axis(first * step, last * step, tuple(i * step for i in range(first, last + 1)))


def strip(row: Dots, axis: Axis) -> Markup:
    """One row: range, dots or histogram, marks at p50 and p95."""
    parts = [*_gridlines(axis, _ROW_PX)]
    parts += _histogram(row, axis) if len(row.values) > DOTS_AT_MOST else [_range(row, axis), *_dots(row, axis)]
    if row.p95 is not None:
        parts.append(_mark("p95", axis.percent(row.p95), "95th percentile"))
    parts.append(_mark("p50", axis.percent(row.p50), "median"))
    title = f"{row.label}: {len(row.values)} turns, from {min(row.values):.0f} to {max(row.values):.0f} ms"
    return tag("svg", tag("title", title), *parts, class_="strip", height=_ROW_PX, width="100%", role="img")


def axis_line(axis: Axis) -> Markup:
    """Tick labels for a column of strips."""
    labels = []
    last = len(axis.ticks) - 1
    for index, tick in enumerate(axis.ticks):
        anchor = "start" if index == 0 else "end" if index == last else "middle"
        # On a phone every label would touch its neighbour; the style sheet hides every other one, counted from the end.
        odd = "tick odd" if (last - index) % 2 else "tick"
        text = f"{tick:g}".replace("-", MINUS) + (" ms" if index == last else "")
        labels.append(tag("text", text, class_=odd, x=f"{axis.percent(tick)}%", y=13, text_anchor=anchor))
    return tag("svg", *labels, class_="axis", height=18, width="100%", aria_hidden="true")


@dataclass(frozen=True, slots=True)
class Curve:
    """One cumulative curve: name is also its CSS class."""

    name: str
    label: str
    values: tuple[float, ...]


def cumulative(curves: Sequence[Curve], axis: Axis, height_px: int = 200) -> Markup:
    """Which share of the turns had come by when: one step per turn."""
    grid = [*_gridlines(axis, height_px)]
    for share in (0, 25, 50, 75, 100):
        y = round(height_px * (1 - share / 100), 2)
        grid.append(tag("line", class_="grid", x1="0", x2="100%", y1=y, y2=y))
        grid.append(tag("text", f"{share} %", class_="tick", x=4, y=y - 4 if share < 100 else y + 12))
    lines = [
        tag(
            "polyline",
            class_=f"curve {curve.name}",
            points=_steps(curve.values, axis),
            vector_effect="non-scaling-stroke",
        )
        for curve in curves
    ]
    plot = tag("svg", *lines, viewBox="0 0 100 100", preserveAspectRatio="none", width="100%", height=height_px)
    title = "Share of turns that had come by a given time: " + ", ".join(curve.label for curve in curves)
    return tag("svg", tag("title", title), *grid, plot, class_="cumulative", width="100%", height=height_px, role="img")


def _gridlines(axis: Axis, height_px: int) -> list[Markup]:
    lines = []
    for tick in axis.ticks:
        name = "grid zero" if tick == 0 else "grid"
        x = f"{axis.percent(tick)}%"
        lines.append(tag("line", class_=name, x1=x, x2=x, y1=0, y2=height_px))
    return lines


def _range(row: Dots, axis: Axis) -> Markup:
    low, high = axis.percent(min(row.values)), axis.percent(max(row.values))
    return tag("line", class_="range", x1=f"{low}%", x2=f"{high}%", y1=_ROW_PX / 2, y2=_ROW_PX / 2)


def _dots(row: Dots, axis: Axis) -> list[Markup]:
    dots = []
    for index, (value, first) in enumerate(zip(row.values, row.first, strict=True)):
        # A fixed, even scatter: the same run always draws the same figure.
        offset = (index * _GOLDEN % 1 - 0.5) * (_ROW_PX - 20) if len(row.values) > 1 else 0.0
        dots.append(
            tag(
                "circle",
                class_="dot first" if first else "dot",
                cx=f"{axis.percent(value)}%",
                cy=round(_ROW_PX / 2 + offset, 2),
                r=3,
            )
        )
    return dots


def _histogram(row: Dots, axis: Axis) -> list[Markup]:
    counts = [0] * BARS
    for value in row.values:
        counts[min(BARS - 1, int(axis.percent(value) / 100 * BARS))] += 1
    tallest = max(counts)
    bars = []
    for index, count in enumerate(counts):
        if count:
            height = round(max(1.0, count / tallest * (_ROW_PX - 4)), 2)
            bars.append(
                tag(
                    "rect",
                    class_="bar",
                    x=f"{round(100 * index / BARS, 3)}%",
                    width=f"{round(100 / BARS, 3)}%",
                    y=round(_ROW_PX - height, 2),
                    height=height,
                )
            )
    return bars


def _mark(name: str, percent: float, title: str) -> Markup:
    line = tag("line", class_=name, x1=f"{percent}%", x2=f"{percent}%", y1=3, y2=_ROW_PX - 3)
    return tag("g", tag("title", title), line)


def _steps(values: Sequence[float], axis: Axis) -> str:
    ordered = sorted(values)
    points = [(0.0, 100.0)]
    for index, value in enumerate(ordered, 1):
        x = axis.percent(value)
        points.append((x, points[-1][1]))
        points.append((x, round(100 - 100 * index / len(ordered), 3)))
    points.append((100.0, points[-1][1]))
    return " ".join(f"{x:g},{y:g}" for x, y in points)


def _round_step(rough: float) -> float:
    """The smallest of 1, 2, 2.5, 5 × 10^k that is at least `rough`."""
    power = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * (1 - 1e-9))
