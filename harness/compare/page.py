"""A comparison as a page: one file that opens offline, in the style of a run's report."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from importlib.resources import files

from harness.compare.compare import Compared, ComparedSide, Row
from harness.report.html.markup import Markup, tag, void
from harness.report.wording import DASH, digits_for, number, plural, span, words_for
from metrics.comparison import Difference


def comparison_page(compared: Compared, reports: Mapping[str, str]) -> str:
    """The whole page. reports: "a" and "b" → the address of that run's report, from where the page lies."""
    style = (files("harness.report.html") / "report.css").read_text(encoding="utf-8")
    sides = [_side(name, side, reports[name]) for name, side in (("a", compared.a), ("b", compared.b))]
    verdicts = [
        tag("p", tag("b", words_for(row.metric).label), f": {row.verdict}.") for row in compared.rows if row.verdict
    ]
    untold = [one for row in compared.rows for one in row.comparison.differences if one.difference is None]
    notes = [
        *dict.fromkeys(
            f"no {one.figure}: {one.reason.partition(', has ')[0]}" for one in untold if "needs" in one.reason
        )
    ]
    notes += [f"not under equal conditions: {what}" for what in compared.allowed.values()]
    notes += [*compared.bounds, compared.pairing, *compared.remarks]
    body = [
        tag("header", tag("div", "duologue · B against A", class_="over"), tag("h1", _headline(compared)), *sides),
        tag(
            "main",
            tag(
                "section",
                *(tag("p", f"Warning: {line}.", class_="note") for line in compared.warnings),
                tag("h2", "In words"),
                *verdicts,
            ),
            tag("section", tag("h2", "Differences"), _table(compared)),
            tag("section", tag("h2", "What to know beside them"), *(tag("p", _sentence(note)) for note in notes)),
        ),
    ]
    head = [
        void("meta", charset="utf-8"),
        void("meta", http_equiv="Content-Security-Policy", content=_policy(style)),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        tag("title", f"{compared.b.target} against {compared.a.target}: speech-to-speech latency"),
        tag("style", Markup(style)),
    ]
    return f"<!doctype html>\n{tag('html', tag('head', *head), tag('body', *body), lang='en')}\n"


def _policy(style: str) -> str:
    """Nothing is loaded, no script runs."""
    sha256 = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; base-uri 'none'; form-action 'none'; style-src 'sha256-{sha256}'"


def _headline(compared: Compared) -> str:
    """The verdict on voice-to-voice, where there is one."""
    verdicts = [row.verdict for row in compared.rows if row.metric == "voice_to_voice_ms" and row.verdict]
    return f"Voice-to-voice: {verdicts[0]}" if verdicts else "Two targets compared"


def _side(name: str, side: ComparedSide, report: str) -> Markup:
    told = (
        f" {side.target}, {plural(side.dialogues, 'dialogue')} from {side.created[:19].replace('T', ' ')}: "
        f"{side.completed} turns completed, {side.invalid} invalid, {side.failed} failed. "
    )
    return tag("p", tag("b", name.upper()), told, tag("a", "its report", href=report))


def _table(compared: Compared) -> Markup:
    titles = ("A", "B", f"B {DASH} A", "95 % interval", "n")
    head = tag("tr", tag("th", "Figure"), tag("th", ""), *(tag("th", title, class_="num") for title in titles))
    rows = [row for one in compared.rows for row in _rows(one)]
    return tag("div", tag("table", tag("thead", head), tag("tbody", *rows), class_="figures"), class_="scroll")


def _rows(row: Row) -> list[Markup]:
    """One for each percentile that can be told; the first one says why where none can."""
    label = words_for(row.metric).label + (" (ms)" if row.unit == "ms" else "")
    label += " *" * bool(row.marks)
    compared = row.comparison
    count = f"{compared.n_a}" if compared.pairing == "paired" else f"{compared.n_a}, {compared.n_b}"
    shown = [one for one in compared.differences if one.difference is not None] or compared.differences[:1]
    return [
        tag("tr", tag("td", "" if place else label), tag("td", one.figure), *_cells(one, "" if place else count))
        for place, one in enumerate(shown)
    ]


def _cells(one: Difference, count: str) -> list[Markup]:
    if one.a is None or one.b is None or one.difference is None:
        return [tag("td", one.reason, class_="num quiet", colspan=4), tag("td", count, class_="num")]
    digits = digits_for(one.a, one.b)
    interval = span(*one.ci95, digits=digits) if one.ci95 else f"{DASH} {one.reason}"
    figures = [*(number(value, digits) for value in (one.a, one.b, one.difference)), interval, count]
    return [tag("td", figure, class_="num") for figure in figures]


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:].removesuffix('.')}."
