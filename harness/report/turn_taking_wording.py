"""Turn-taking in words: the rows of its block on the terminal and on the page, and the sentence of the curve."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from harness.report.wording import DASH, counts, number, plural, reasons, row_digits, span, words_for
from harness.report.wording import TURN_TAKING_WORDS as TURN_TAKING_WORDS  # with the rows that it is for
from metrics.turn_taking.totals import Figure, PausePoint, Rate, TurnTaking

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
    """Rates, then figures. all_of_them: also those that a terminal has no room for, or that have nothing to tell, and
    the points of the curve."""
    for name, rate in told.rates.items():
        if all_of_them or rate.hits or name not in _ONLY_WHERE_ANY:
            yield rate_row(name, rate)
    for point in told.pauses if all_of_them else ():
        yield _pause_row(point)
    for name, figure in told.figures.items():
        if all_of_them or (name not in _ON_PAGE_ONLY and (figure.distribution.maximum or name not in _ONLY_WHERE_ANY)):
            yield figure_row(name, figure)


def rate_row(name: str, rate: Rate) -> Row:
    """A share of turns."""
    words = words_for(name)
    cases, missing = _hits_of(rate), _missing(rate.of, rate.unavailable)
    return Row(name, words.label, words.meaning, share(rate), _interval(rate), cases, missing, words.behind)


def _pause_row(point: PausePoint) -> Row:
    """A share of the pauses of one length."""
    label, meaning = f"in pauses of {_seconds(point)} s", "Pauses of that length that cost the user the turn."
    cut = point.cut
    return Row(f"pause_{point.pause_ms:g}_ms", label, meaning, share(cut), _interval(cut), _hits_of(cut), "", True)


def figure_row(name: str, figure: Figure) -> Row:
    """A distribution over turns, or over sessions."""
    words, spread = words_for(name), figure.distribution
    digits, unit = row_digits(figure.unit, spread), " ms" if figure.unit == "ms" else ""
    middle, between = DASH, DASH
    if spread.p50 is not None and spread.minimum is not None and spread.maximum is not None:
        middle, between = f"{number(spread.p50, digits)}{unit}", f"{span(spread.minimum, spread.maximum, digits)}{unit}"
    missing = _missing(spread.n, figure.unavailable)
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


def _missing(values: int, unavailable: Mapping[str, int]) -> str:
    """Why values are missing; of what has none at all, for one reason, equal reasons read alike."""
    return next(iter(unavailable)) if not values and len(unavailable) == 1 else reasons(dict(unavailable))


def _interval(rate: Rate) -> str:
    return DASH if rate.ci95 is None else f"{_percent(rate.ci95[0])} {DASH} {_percent(rate.ci95[1])} %"


def _hits_of(rate: Rate) -> str:
    return f"{rate.hits} of {rate.of}" if rate.of else "0"


def _percent(value: float) -> str:
    return f"{100 * value:.0f}"


def _seconds(point: PausePoint) -> str:
    return f"{point.pause_ms / 1000:.3f}".rstrip("0").rstrip(".")
