"""The page's part on turn-taking: every rate and figure, the curve over pause length, each script by itself."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from harness.report.html.markup import Markup, join, tag
from harness.report.summary import Summary
from harness.report.turn_taking_wording import Row, curve_line, cut_off_sentence, figure_row, kinds_line, rows
from metrics.turn_taking.totals import Figure, TurnTaking

_LEGEND = (
    "Who spoke when, and what that did to the other. Shares with their 95 % interval (Wilson); times as p50 with "
    "minimum and maximum, over completed turns. Only what could be heard counts, not what the client dropped."
)


def turn_taking_section(summary: Summary) -> Iterable[Markup]:
    """Nothing where the turns only waited for each other."""
    told = summary.turn_taking
    if told is None or not told.is_duplex:
        return
    yield tag("h3", "Turn-taking", id="turn-taking")
    yield tag("p", f"{_LEGEND} {kinds_line(told)}", class_="legend")
    yield _block(told, summary.session)
    for name, one in summary.turn_taking_by_script.items():
        yield tag("details", tag("summary", f"Turn-taking of {name}"), tag("p", kinds_line(one)), _block(one, {}))


def _block(told: TurnTaking, session: Mapping[str, Figure]) -> Markup:
    made = [*rows(told, all_of_them=True), *(figure_row(name, figure) for name, figure in session.items())]
    parts = [_table([_row(row) for row in made])]
    if told.pauses:
        parts.append(tag("p", f"{cut_off_sentence(told.pauses)} {curve_line(told.pauses)}", class_="note"))
    return join(parts)


def _table(body: list[Markup]) -> Markup:
    head = tag(
        "tr",
        tag("th", "Figure", scope="col"),
        *(tag("th", title, class_="num", scope="col") for title in ("Share or p50", "95 % or range", "Turns")),
        tag("th", "What it is; why values are missing", scope="col"),
    )
    table = tag("table", tag("thead", head), tag("tbody", *body), class_="figures")
    return tag("div", table, class_="scroll")


def _row(row: Row) -> Markup:
    why = f"Unavailable: {row.missing}." if row.missing else ""
    return tag(
        "tr",
        tag("td", row.label, class_="sub" if row.behind else ""),
        *(tag("td", text, class_="num") for text in (row.share, row.spread, row.cases)),
        tag("td", f"{row.meaning} {why}".strip(), class_="why"),
    )
