"""The section with the latency distributions."""

from __future__ import annotations

from collections.abc import Sequence

from harness.report.html.figures import DOTS_AT_MOST, Axis, Curve, Dots, axis_for, axis_line, cumulative, strip
from harness.report.html.markup import Markup, join, tag
from harness.report.summary import Summary, value_of
from harness.report.wording import number, row_digits, words_for
from harness.results.dialogue_result import DialogueResult

STRIPS = (
    "first_packet_ms",
    "voice_to_voice_ms",
    "voice_to_voice_b20_ms",
    "voice_to_voice_b60_ms",
    "voice_to_voice_b100_ms",
    "voice_to_voice_b200_ms",
)
CURVES = (
    ("packet", "first_packet_ms"),
    ("voice", "voice_to_voice_ms"),
    ("buffered", "voice_to_voice_b200_ms"),
)
CURVES_FROM = 10
"""Below this many turns a cumulative curve tells nothing that the dots do not."""


def latency_section(summary: Summary, dialogues: Sequence[DialogueResult]) -> Markup:
    """Strips on one scale, and the cumulative curves below them."""
    rows = [row for name in STRIPS if (row := _dots(name, summary, dialogues)) is not None]
    title = tag("h2", "Latency")
    if not rows:
        return join([title, tag("p", "No completed turn has a latency, so there is nothing to draw.", class_="soft")])
    axis = axis_for([dots for _, dots in rows])
    cells = [tag("div", *_strip_row(name, dots, axis, summary), class_="row") for name, dots in rows]
    spare = tag("div", class_="spare")
    with_p95 = any(dots.p95 is not None for _, dots in rows)
    head = [spare, spare, tag("div", "median · p95" if with_p95 else "median, ms", class_="value soft spare")]
    scale = [spare, tag("div", axis_line(axis), class_="plotted"), spare]
    return join([title, _legend(rows), tag("div", *head, *cells, *scale, class_="strips"), *_cumulative(rows, axis)])


def _dots(name: str, summary: Summary, dialogues: Sequence[DialogueResult]) -> tuple[str, Dots] | None:
    distribution = summary.headline.measures[name].distribution
    if distribution.p50 is None:
        return None
    points = [
        (value, turn.turn == 0)
        for dialogue in dialogues
        if dialogue.completed and not dialogue.warmup
        for turn in dialogue.turns
        if turn.turn_class == "completed" and (value := value_of(turn.measures.get(name))) is not None
    ]
    values, first = zip(*points, strict=True)
    return name, Dots(words_for(name).label, values, first, distribution.p50, distribution.p95)


def _strip_row(name: str, dots: Dots, axis: Axis, summary: Summary) -> list[Markup]:
    words = words_for(name)
    distribution = summary.headline.measures[name].distribution
    digits = row_digits("ms", distribution)
    p50 = tag("b", number(dots.p50, digits))
    beside = "" if dots.p95 is None else tag("span", f" · {number(dots.p95, digits)}", class_="soft")
    return [
        tag("div", words.label, class_="name sub" if words.behind else "name", title=words.meaning),
        tag("div", strip(dots, axis), class_="plotted"),
        tag("div", p50, beside, class_="value"),
    ]


def _legend(rows: Sequence[tuple[str, Dots]]) -> Markup:
    dotted = all(len(dots.values) <= DOTS_AT_MOST for _, dots in rows)
    with_p95 = any(dots.p95 is not None for _, dots in rows)
    text = (
        "How long the user waited, in milliseconds. 0 is the user's last speech sample; left of it, the agent began "
        "before the user had finished. First packet is when audio began to arrive; voice-to-voice is when it could be "
        "heard, played on arrival; below it, the same for a listener whose player buffers."
    )
    keys = (
        [_key("dot", "turn"), _key("first", "first turn of a dialogue")] if dotted else [_key("bar", "share of turns")]
    )
    keys.append(_key("p50", "median (half of the turns were faster)"))
    keys += [_key("p95", "95th percentile")] if with_p95 else []
    keys += [_key("range", "fastest to slowest")] if dotted else []
    return join([tag("p", text, class_="legend"), tag("p", *keys, class_="legend")])


def _key(name: str, label: str) -> Markup:
    shapes = {
        "dot": tag("circle", class_="dot", cx=7, cy=6, r=3.5),
        "first": tag("circle", class_="dot first", cx=7, cy=6, r=3.5),
        "bar": tag("rect", class_="bar", x=1, y=2, width=12, height=9),
        "p50": tag("line", class_="p50", x1=7, x2=7, y1=0, y2=12),
        "p95": tag("line", class_="p95", x1=7, x2=7, y1=0, y2=12),
        "range": tag("line", class_="range", x1=0, x2=14, y1=6, y2=6),
    }
    return tag("span", tag("svg", shapes[name], width=14, height=12, aria_hidden="true"), label, class_="key")


def _cumulative(rows: Sequence[tuple[str, Dots]], axis: Axis) -> list[Markup]:
    by_name = dict(rows)
    curves = [Curve(css, by_name[name].label, by_name[name].values) for css, name in CURVES if name in by_name]
    if not curves or max(len(curve.values) for curve in curves) < CURVES_FROM:
        return []
    keys = [
        tag(
            "span",
            tag(
                "svg",
                tag("line", class_=f"curve {curve.name}", x1=0, x2=18, y1=6, y2=6),
                width=18,
                height=12,
                aria_hidden="true",
            ),
            f"voice-to-voice {curve.label}" if curve.name == "buffered" else curve.label,
            class_="key",
        )
        for curve in curves
    ]
    return [
        tag("h3", "Share of turns answered by a given time"),
        tag("p", "A curve that rises early is fast; one that rises steeply is steady.", class_="legend"),
        tag("p", *keys, class_="legend"),
        tag("div", cumulative(curves, axis), axis_line(axis), class_="plot"),
    ]
