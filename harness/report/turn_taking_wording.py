"""Turn-taking in words: the rows of its block on the terminal and on the page, and the sentence of the curve."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.report.wording import DASH, Wording, counts, number, plural, reasons, row_digits, span
from metrics.turn_taking.totals import AFTER_INTERRUPTION, Figure, PausePoint, Rate, TurnTaking

TURN_TAKING_WORDS: dict[str, Wording] = {
    "responded": Wording("answered", "Turns that expect a reply and got one that could be heard: the response rate."),
    "missed": Wording("missed", "Turns that expect a reply and got none at all."),
    "late": Wording("answered late", "Answers heard more than 2 s after the user's last speech sample."),
    "talk_over": Wording("talked over", "Answers that began before the user had finished."),
    "spurious_speech": Wording("spoke again unasked", "A further reply was heard after the answer, unasked."),
    "premature_endpoint": Wording(
        "ended the turn too early", "The server took the turn, or began a reply, while the user was not done."
    ),
    "interruption_ignored": Wording(
        "interruptions ignored", "The agent was heard for more than 2 s after the user began to interrupt it."
    ),
    "false_interruption": Wording(
        "stopped by a mere sound", "A backchannel, a cough or a noise cut off the agent that was speaking."
    ),
    "answered_backchannel": Wording("answered a mere sound", "A backchannel, a cough or a noise got a reply."),
    "stayed_quiet": Wording("quiet in a silence", "The user said nothing, and neither did the agent."),
    "barge_in_stop_ms": Wording(
        "barge-in stop",
        "From the interruption's first audible sample to the end of what is heard of the agent; "
        "with manual turns, from the client's cancel to the reply's last packet.",
    ),
    AFTER_INTERRUPTION: Wording(
        "voice-to-voice after it", "Voice-to-voice of the turns that interrupt: from their end to the new answer.", True
    ),
    "interrupted_heard_ms": Wording("heard of the reply", "How much of the interrupted reply was heard.", True),
    "interrupted_generated_ms": Wording("generated of it", "How much of the interrupted reply was generated.", True),
    "reprompt_ms": Wording("asked again after", "From the start of the user's silence to the agent's asking again."),
    "overlap_ms": Wording("overlap", "How long both were heard at once, per turn."),
    "agent_over_user_ms": Wording("the agent over the user", "Overlap that the agent began.", True),
    "user_over_agent_ms": Wording("the user over the agent", "Overlap that the user began.", True),
    "agent_backchannels": Wording("the agent's backchannels", "The agent's own short sounds while the user spoke."),
    "session_underruns": Wording(
        "underruns, per session", "How often the session's stream ran out, played on arrival."
    ),
    "session_underrun_ms": Wording("underrun time, per session", "Silence because the session's stream ran out."),
}
_ONLY_WHERE_ANY = ("missed", "spurious_speech", "talk_over", "late", "agent_over_user_ms", "agent_backchannels")
_ON_PAGE_ONLY = ("interrupted_generated_ms", "overlap_ms", "user_over_agent_ms")


@dataclass(frozen=True, slots=True)
class Row:
    """share: a share in percent, or a p50 with its unit · spread: its 95 % interval, or minimum to maximum · cases:
    "7 of 20", or the number of values · missing: why values are missing, "" where none is."""

    name: str
    label: str
    meaning: str
    share: str
    spread: str
    cases: str
    missing: str
    behind: bool = False


def rows(told: TurnTaking, *, all_of_them: bool = False) -> Iterator[Row]:
    """Rates, then figures. all_of_them: also those that a terminal has no room for, or that have nothing to tell."""
    for name, rate in told.rates.items():
        if all_of_them or rate.hits or name not in _ONLY_WHERE_ANY:
            yield rate_row(name, rate)
    for name, figure in told.figures.items():
        if all_of_them or (name not in _ON_PAGE_ONLY and (figure.distribution.maximum or name not in _ONLY_WHERE_ANY)):
            yield figure_row(name, figure)


def rate_row(name: str, rate: Rate) -> Row:
    words = TURN_TAKING_WORDS[name]
    interval = DASH if rate.ci95 is None else f"{_percent(rate.ci95[0])} {DASH} {_percent(rate.ci95[1])} %"
    cases = f"{rate.hits} of {rate.of}" if rate.of else "0"
    return Row(name, words.label, words.meaning, share(rate), interval, cases, reasons(rate.unavailable))


def figure_row(name: str, figure: Figure) -> Row:
    words, spread = TURN_TAKING_WORDS[name], figure.distribution
    digits, unit = row_digits(figure.unit, spread), " ms" if figure.unit == "ms" else ""
    middle, between = DASH, DASH
    if spread.p50 is not None and spread.minimum is not None and spread.maximum is not None:
        middle, between = f"{number(spread.p50, digits)}{unit}", f"{span(spread.minimum, spread.maximum, digits)}{unit}"
    missing = reasons(figure.unavailable)
    return Row(name, words.label, words.meaning, middle, between, str(spread.n), missing, words.behind)


def share(rate: Rate) -> str:
    """ "35 %", a dash without turns."""
    return DASH if rate.share is None else f"{_percent(rate.share)} %"


def cut_off_sentence(points: list[PausePoint]) -> str:
    """What the curve over pause length comes to: the shortest pause that cost the user the turn. "" without pauses."""
    if not points:
        return ""
    cut = next((point for point in points if point.cut.hits), None)
    if cut is None:
        of = sum(point.cut.of for point in points)
        return f"Never cuts the user off in pauses of up to {_seconds(points[-1])} s (0 of {of})."
    rate = cut.cut
    return f"Cuts the user off after {_seconds(cut)} s pauses in {share(rate)} of cases ({rate.hits} of {rate.of})."


def curve_line(points: list[PausePoint]) -> str:
    """ "Turn ended because of a pause: 0.3 s 0 of 25, 0.7 s 3 of 25." """
    told = ", ".join(f"{_seconds(point)} s {point.cut.hits} of {point.cut.of}" for point in points)
    return f"Turn ended because of a pause: {told}."


def kinds_line(told: TurnTaking) -> str:
    """How many turns of which kind, and which are in no rate."""
    line = f"{plural(told.turns, 'turn')}: {counts(told.kinds)}"
    return f"{line}; in no rate: {counts(told.left_out)}." if told.left_out else f"{line}."


def _percent(value: float) -> str:
    return f"{100 * value:.0f}"


def _seconds(point: PausePoint) -> str:
    return f"{point.pause_ms / 1000:.3f}".rstrip("0").rstrip(".")
