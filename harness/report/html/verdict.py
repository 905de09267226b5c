"""The top of the page: which server, how, and the few figures that answer the question."""

from __future__ import annotations

from collections.abc import Iterable

from harness.report.html.markup import Markup, join, tag
from harness.report.summary import MeasureSummary, Summary
from harness.report.wording import DASH, counts, describe_class, number, plural, reasons, row_digits, span
from sessions.runs import Plan

_BUFFER = "voice_to_voice_b100_ms"


def page_header(plan: Plan, summary: Summary) -> Markup:
    """Target, conditions, the verdict's figures and the same in a sentence."""
    measures = summary.headline.measures
    voice = measures["voice_to_voice_ms"]
    boxes = [
        _box("Voice-to-voice, median", voice, with_more=True),
        _box("First packet, median", measures["first_packet_ms"]),
        _box("Behind a 100 ms buffer", measures[_BUFFER]),
        _turns_box(summary),
    ]
    date = plan.created[:16].replace("T", " ")
    return join(
        [
            tag("div", f"duologue · speech-to-speech latency · {date}", class_="over"),
            tag("h1", plan.target),
            tag("p", f"{describe_class(plan)}.", class_="meta"),
            tag("div", *boxes, class_="verdict"),
            tag("p", _sentence(voice), class_="lead"),
            *_notes(summary),
        ]
    )


def _box(name: str, measure: MeasureSummary, *, with_more: bool = False) -> Markup:
    distribution = measure.distribution
    if distribution.p50 is None or distribution.minimum is None or distribution.maximum is None:
        parts = [
            tag("div", DASH, class_="figure"),
            tag("div", reasons(measure.unavailable) or "none completed", class_="beside"),
        ]
        return tag("div", tag("div", name, class_="name"), *parts)
    digits = row_digits("ms", distribution)
    interval = distribution.ci95.get("p50")
    facts = [f"95 % interval {span(*interval, digits)}"] if interval and with_more else []
    if distribution.p95 is not None:
        facts.append(f"p95 {number(distribution.p95, digits)} ms")
    elif measure.n > 1:
        facts.append(f"{span(distribution.minimum, distribution.maximum, digits)} ms")
    if with_more or not facts:
        facts.append(plural(measure.n, "turn"))
    figure = tag("div", number(distribution.p50, digits), tag("small", "ms"), class_="figure")
    return tag("div", tag("div", name, class_="name"), figure, tag("div", " · ".join(facts), class_="beside"))


def _turns_box(summary: Summary) -> Markup:
    attempts = summary.attempts
    figure = tag("div", str(attempts.completed), tag("small", f"of {attempts.total}"), class_="figure")
    beside = f"{attempts.invalid} invalid, {attempts.failed} failed" if attempts.total else "no attempt"
    return tag("div", tag("div", "Turns completed", class_="name"), figure, tag("div", beside, class_="beside"))


def _sentence(voice: MeasureSummary) -> str:
    distribution = voice.distribution
    if distribution.p50 is None or distribution.maximum is None:
        return "No reply could be heard in a completed turn, so there is no voice-to-voice latency."
    p50 = f"{number(distribution.p50)} ms"
    if distribution.n == 1:
        return f"After the user stopped speaking, the reply was audible {p50} later, in the only turn."
    slow = (
        f"the slowest took {number(distribution.maximum)} ms"
        if distribution.p95 is None
        else f"one in twenty took longer than {number(distribution.p95)} ms"
    )
    return f"After the user stopped speaking, half of the replies were audible within {p50}; {slow}."


def _notes(summary: Summary) -> Iterable[Markup]:
    attempts = summary.attempts
    if attempts.failed:
        outcomes = counts(attempts.outcomes["failed"])
        text = f"{plural(attempts.failed, 'turn')} failed ({outcomes}); failed turns stand in no figure."
        yield tag("p", text, class_="note bad")
    if summary.dialogues.lost:
        lost = plural(attempts.lost, "turn"), plural(summary.dialogues.lost, "dialogue")
        yield tag("p", f"{lost[0]} in {lost[1]} lost: nothing is known of them.", class_="note bad")
    if attempts.invalid:
        limit_ms = summary.conditions.lateness_limit_ms
        text = (
            f"{plural(attempts.invalid, 'turn')} invalid: this machine was more than {limit_ms:g} ms late there, "
            "which says nothing about the server; invalid turns stand in no figure."
        )
        yield tag("p", text, class_="note")
    for warning in summary.clock.warnings if summary.clock is not None else ():
        yield tag("p", warning, class_="note bad")
    for remark in summary.remarks:
        yield tag("p", f"{remark[:1].upper()}{remark[1:]}.", class_="note quiet")
