"""The page's part on what came back: every score with its interval, and each turn's own, where the run was scored."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from harness.report.html.markup import Markup, join, tag
from harness.report.wording import DASH, counts, digits_for, number
from harness.results.dialogue_result import DialogueResult
from harness.score.summary import FOLDER, Scores, read_scores
from harness.score.wording import Row, samples_line, score_rows, settings_lines, unusable_line
from metrics.result import Failed, Measured, Unavailable, Value
from sessions.errors import BadFile

_ROWS_AT_MOST = 500
_LEGEND = (
    "What the replies sound like and say, scored by models and rules. Means over the turns that have a value, invalid "
    "ones included: a machine that was late does not change what was said. "
    "The interval says how far the mean could be off by chance, from resampling whole dialogues."
)


def scores_section(folder: Path, dialogues: list[DialogueResult]) -> Markup:
    """folder: the run's. Nothing where it was not scored."""
    place = folder / FOLDER
    try:
        scores = read_scores(place)
        if scores is None:
            return Markup("")
        turns = _turns(place, scores, dialogues)
    except BadFile as error:
        return _section(tag("p", f"The scores cannot be read: {error}", class_="note bad"))
    return _section(
        tag("p", _LEGEND, class_="legend"),
        _table([row for name in scores.metrics for row in _rows(scores, name)]),
        *_notes(scores),
        *turns,
    )


def scores_link(section: Markup) -> Markup:
    """In the page's own menu, where there is a section."""
    return tag("a", "Scores", href="#scores") if section else Markup("")


def _section(*children: Markup) -> Markup:
    return tag("section", tag("h2", "Scores"), *children, id="scores")


def _table(rows: list[Markup]) -> Markup:
    titles = ("mean", "95 % interval", "min – max", "n")
    head = tag(
        "tr",
        tag("th", "Score", scope="col"),
        *(tag("th", title, class_="num", scope="col") for title in titles),
        tag("th", "What it is; why values are missing", scope="col"),
    )
    return tag("div", tag("table", tag("thead", head), tag("tbody", *rows), class_="figures"), class_="scroll")


def _rows(scores: Scores, name: str) -> Iterable[Markup]:
    found = scores.metrics[name]
    told = f"{found.purpose[:1].upper()}{found.purpose[1:]} ({name}/{found.made.version.rpartition('/')[2]})"
    yield tag("tr", tag("td", told, colspan=6), class_="head")
    for one, row in zip(found.aggregates, score_rows(scores, name), strict=True):
        yield _row(row, "" if row.behind else found.figures.get(one.figure, ""))


def _row(row: Row, meaning: str) -> Markup:
    label = join([row.label, tag("span", f" {row.unit}", class_="quiet") if row.unit else ""])
    spread = tag("td", row.spread, class_="num quiet" if row.spread == DASH else "num", title=row.no_spread or None)
    why = f"{row.missing[0].upper()}{row.missing[1:]}." if row.missing else ""
    return tag(
        "tr",
        tag("td", label, class_="sub" if row.behind else ""),
        tag("td", row.value, class_="num"),
        spread,
        tag("td", row.range, class_="num"),
        tag("td", row.used, class_="num"),
        tag("td", " ".join(filter(None, (f"{meaning}." if meaning else "", why))), class_="why"),
    )


def _notes(scores: Scores) -> Iterable[Markup]:
    yield tag("p", samples_line(scores), class_="soft")
    for line in unusable_line(scores):
        yield tag("p", line, class_="soft")
    for name, found in scores.metrics.items():
        if found.flags:
            yield tag("p", f"Remarks of {name}: {counts(found.flags)}.", class_="soft")
    for line in settings_lines(scores):
        yield tag("p", line, class_="soft")
    for name, why in scores.left_out.items():
        yield tag("p", f"Not scored: {name}, because {why}", class_="soft")


def _turns(place: Path, scores: Scores, dialogues: list[DialogueResult]) -> Iterable[Markup]:
    from harness.score.of_turns import scores_by_sample

    found = scores_by_sample(place, scores)
    if not found:
        return
    titles = {one.figure: one.title for of in scores.metrics.values() for one in of.aggregates if not one.language}
    figures = [name for name in titles if any(name in one.figures for one in found)]
    digits = {name: _digits(one.figures.get(name) for one in found) for name in figures}
    positions = {dialogue.id: position for position, dialogue in enumerate(dialogues)}
    head = tag(
        "tr",
        tag("th", "Turn", scope="col"),
        *(tag("th", titles[name], class_="num", scope="col") for name in figures),
        tag("th", "Remarks", scope="col"),
    )
    rows = [
        tag(
            "tr",
            tag("td", _link(one.group, one.order, positions), class_="num"),
            *(_cell(one.figures.get(name), digits[name]) for name in figures),
            tag("td", "; ".join(one.flags), class_="flags"),
        )
        for one in found[:_ROWS_AT_MOST]
    ]
    table = tag("div", tag("table", tag("thead", head), tag("tbody", *rows), class_="turns"), class_="scroll")
    more = f" The first {_ROWS_AT_MOST} of {len(found)}; all stand in scores/scores.csv." * (len(found) > _ROWS_AT_MOST)
    legend = tag("p", f"Rest the pointer on a dash to see why there is no value.{more}", class_="legend")
    yield tag("details", tag("summary", "Scores of every turn"), legend, table)


def _link(group: str, order: int, positions: Mapping[str, int]) -> Markup:
    """As turns are called in the table of turns."""
    position = positions.get(group)
    if position is None:
        return join([f"{group}/{order + 1}"])
    return tag("a", f"{position + 1}.{order + 1}", href=f"#d{position}")


def _digits(measured: Iterable[Measured | None]) -> int:
    return digits_for(*(one.value for one in measured if isinstance(one, Value)))


def _cell(measured: Measured | None, digits: int) -> Markup:
    match measured:
        case Value(value):
            return tag("td", number(value, digits), class_="num")
        case Unavailable(because):
            return tag("td", DASH, class_="num quiet", title=because)
        case Failed(error):
            return tag("td", DASH, class_="num quiet", title=f"error: {error}")
        case _:
            return tag("td", DASH, class_="num quiet", title="not scored")
