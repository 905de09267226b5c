"""The section with every figure: headline rows, the same for first and later turns, attempts, connection."""

from __future__ import annotations

from collections.abc import Iterable

from harness.calibrate.bound import bound_line
from harness.report.html.markup import Markup, join, tag
from harness.report.html.turn_taking import turn_taking_section
from harness.report.network_wording import PHASES, network_rows
from harness.report.summary import Group, MeasureSummary, Summary
from harness.report.wording import DASH, ROWS, counts, number, reasons, row_digits, span, speech_end_bound, words_for
from metrics.stats import Distribution

MAIN = (*ROWS, "reply_duration_ms")
_ONLY_WHERE_MEASURED = ("first_text_ms", "server_vad_delay_ms")
_SPLIT = ("first_packet_ms", "voice_to_voice_ms")
"""Measures whose rows for first and later turns stand under the headline."""
_OWN_TIME = ("send_lateness_max_ms", "heartbeat_lag_max_ms")
_UNITS = {"ms": "", "count": "per reply", "ratio": ""}


def figures_section(summary: Summary) -> Markup:
    """The main figures, the others folded away; every dash has its reason in the last column."""
    measures = summary.headline.measures
    shown = [name for name in MAIN if name in measures and (measures[name].n or name not in _ONLY_WHERE_MEASURED)]
    main = [row for name in shown for row in _rows(name, summary)]
    if summary.connection_ms:
        main += [_head("Connection, once per dialogue"), *_connection(summary)]
    if summary.network is not None:
        main += [_head("Network, in milliseconds"), *_network(summary)]
    others = [name for name in measures if name not in (*shown, *_OWN_TIME)]
    more = [row for name in others for row in _rows(name, summary)]
    more += [_head("This machine's own punctuality"), *(row for name in _OWN_TIME for row in _rows(name, summary))]
    legend = (
        "Times in milliseconds, over completed turns only. p50: half of the turns were at or below it; p95: 95 in 100. "
        "The interval says how far the median could be off by chance, from resampling whole dialogues. "
        f"Too few values for a figure leave a dash. {_statistics(summary)}"
    )
    return join(
        [
            tag("h2", "All figures"),
            tag("p", legend, class_="legend"),
            _table(main),
            tag("p", bound_line(summary.clock), class_="note"),
            *_bounds(summary),
            tag("details", tag("summary", "More figures"), _table(more)),
            *turn_taking_section(summary),
            tag("h3", "What became of every attempt"),
            _attempts(summary),
        ]
    )


def _bounds(summary: Summary) -> Iterable[Markup]:
    for method, bound in summary.speech_end_bounds.items():
        line = speech_end_bound(method, bound)
        yield tag("p", f"{line[0].upper()}{line[1:]}.", class_="note")


def _table(rows: list[Markup]) -> Markup:
    titles = ("p50", "95 % interval", "p95", "p99", "min – max", "n")
    head = tag(
        "tr",
        tag("th", "Figure", scope="col"),
        *(tag("th", title, class_="num", scope="col") for title in titles),
        tag("th", "What it is; why values are missing", scope="col"),
    )
    return tag("div", tag("table", tag("thead", head), tag("tbody", *rows), class_="figures"), class_="scroll")


def _statistics(summary: Summary) -> str:
    reasons_seen = summary.headline.measures["voice_to_voice_ms"].distribution.reasons
    return f"Intervals: {reasons_seen['ci95']}." if "ci95" in reasons_seen else ""


def _rows(name: str, summary: Summary) -> list[Markup]:
    words = words_for(name)
    measure = summary.headline.measures[name]
    unit = _UNITS.get(measure.unit, measure.unit)
    label = join([words.label, tag("span", f" {unit}", class_="quiet") if unit else ""])
    rows = [_row(label, measure, words.meaning, "sub" if words.behind else "")]
    if name in _SPLIT:
        groups = (("first turns", summary.first_turns), ("later turns", summary.later_turns))
        rows += [_group_row(label, group, name) for label, group in groups if group.measures[name].n]
    return rows


def _group_row(label: str, group: Group, name: str) -> Markup:
    return _row(label, group.measures[name], "", "sub")


def _row(label: str, measure: MeasureSummary, meaning: str, class_: str) -> Markup:
    missing = {**measure.unavailable, **{f"error: {error}": count for error, count in measure.errors.items()}}
    why = f"Unavailable: {reasons(missing)}." if missing else ""
    figures = _figures(measure.distribution, measure.unit)
    return tag("tr", tag("td", label, class_=class_), *figures, tag("td", f"{meaning} {why}".strip(), class_="why"))


def _figures(distribution: Distribution, unit: str) -> Iterable[Markup]:
    digits = row_digits(unit, distribution)
    for figure, value in (
        ("p50", distribution.p50),
        ("ci95", None),
        ("p95", distribution.p95),
        ("p99", distribution.p99),
    ):
        interval = distribution.ci95.get("p50") if figure == "ci95" else None
        if interval is not None:
            yield tag("td", span(*interval, digits), class_="num")
        elif value is not None:
            yield tag("td", number(value, digits), class_="num")
        else:
            yield tag("td", DASH, class_="num quiet", title=distribution.reasons.get(figure))
    if distribution.minimum is None or distribution.maximum is None:
        yield tag("td", DASH, class_="num quiet")
    else:
        yield tag("td", span(distribution.minimum, distribution.maximum, digits), class_="num")
    yield tag("td", str(distribution.n), class_="num")


def _head(text: str) -> Markup:
    return tag("tr", tag("td", text, colspan=8), class_="head")


def _connection(summary: Summary) -> list[Markup]:
    ordered = sorted(summary.connection_ms, key=lambda name: list(PHASES).index(name) if name in PHASES else 99)
    return [
        tag("tr", tag("td", PHASES.get(name, name)), *_figures(summary.connection_ms[name], "ms"), tag("td", ""))
        for name in ordered
    ]


def _network(summary: Summary) -> Iterable[Markup]:
    for label, times, meaning in network_rows(summary):
        why = f"{meaning} Unavailable because {times.unavailable}." if times.unavailable else meaning
        figures = _figures(times.distribution, "ms")
        yield tag("tr", tag("td", label), *figures, tag("td", why, class_="why"))


def _attempts(summary: Summary) -> Markup:
    attempts = summary.attempts
    meanings = {
        "completed": "in the figures above",
        "invalid": f"this machine was more than {summary.conditions.lateness_limit_ms:g} ms late, so it proves nothing "
        "about the server; in no figure",
        "failed": "no proper reply came; in no figure",
    }
    rows = [
        tag(
            "tr",
            tag("td", tag("span", name, class_=f"badge {name}")),
            tag("td", str(getattr(attempts, name)), class_="num"),
            tag("td", counts(attempts.outcomes[name]) or DASH),
            tag("td", meanings[name], class_="why"),
        )
        for name in ("completed", "invalid", "failed")
    ]
    titles = ("Class", "Turns", "Outcomes", "")
    head = tag("tr", *(tag("th", title, class_="num" if title == "Turns" else None) for title in titles))
    table = tag("table", tag("thead", head), tag("tbody", *rows), class_="figures")
    return join([tag("div", table, class_="scroll"), *_besides(summary)])


def _besides(summary: Summary) -> Iterable[Markup]:
    starts, never = summary.false_starts, summary.attempts.never_attempted
    if never:
        yield tag("p", f"Never attempted, because their dialogue had ended before: {never}.", class_="soft")
    if starts.count:
        text = (
            f"False starts: {starts.count} in {starts.turns} turns, {number(starts.heard_ms)} ms of them heard. "
            "The agent began while the user was still speaking, and broke off."
        )
        yield tag("p", text, class_="soft")
    if summary.flags:
        yield tag("p", f"Remarks on turns: {counts(summary.flags)}.", class_="soft")
