"""Turns added up: rates with their intervals, the curve over pause length, distributions.

Rates: numerator = turns whose value is 1, denominator = turns that have a value; `wilson/95` interval. In them are
completed turns, and those that failed for what the agent said or did not say; the ones that failed with the connection
or before anything could be answered, and invalid ones, are left out and counted. Distributions in ms: completed turns.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from metrics.comparison import wilson
from metrics.outcome import CANCELLED, INCOMPLETE, NO_END, SERVER_ERROR, TIME_OUT, kind_of
from metrics.result import Failed, Measured, PauseCase, TurnResult, Unavailable, Value
from metrics.stats import Distribution, summarise
from metrics.turn_taking.session import SESSION_MEASURES
from metrics.turn_taking.table import TURN_TAKING, turn_taking

AFTER_INTERRUPTION = "voice_to_voice_after_interruption_ms"
"""The usual voice-to-voice of turns that interrupt: from the interruption's end to the new answer."""
Take = Callable[[TurnResult], Measured | None]
_AGENTS_FAILURES = frozenset({TIME_OUT, NO_END, CANCELLED, INCOMPLETE, SERVER_ERROR})


class Rate(msgspec.Struct, frozen=True):
    """hits of `of` turns. ci95: None without turns · unavailable: reason → turns that are in neither."""

    hits: int
    of: int
    ci95: tuple[float, float] | None = None
    unavailable: dict[str, int] = {}

    @property
    def share(self) -> float | None:
        return self.hits / self.of if self.of else None


class PausePoint(msgspec.Struct, frozen=True):
    """How often the server ended the turn because of a pause of that length."""

    pause_ms: float
    cut: Rate


class Figure(msgspec.Struct, frozen=True):
    """unavailable: reason → turns that have no value because of it."""

    unit: str
    distribution: Distribution
    unavailable: dict[str, int] = {}


class TurnTaking(msgspec.Struct, frozen=True):
    """Some turns: of a run, a script or a dialogue.

    kinds: kind → turns · left_out: outcome → turns that are in no figure here · rates, figures: by the measure's name ·
    pauses: by length, the shortest first.
    """

    turns: int
    kinds: dict[str, int]
    left_out: dict[str, int]
    rates: dict[str, Rate]
    figures: dict[str, Figure]
    pauses: list[PausePoint]

    @property
    def is_duplex(self) -> bool:
        """Whether the turns did more than wait for each other."""
        return bool(self.pauses) or any(kind != "speech" for kind in self.kinds)


def rate_of(hits: int, of: int, unavailable: Mapping[str, int] | None = None) -> Rate:
    """A rate with its Wilson 95 % interval."""
    return Rate(hits, of, wilson(hits, of) if of else None, dict(unavailable or {}))


def pause_curve(cases: Iterable[PauseCase], *, step_ms: float = 1.0) -> list[PausePoint]:
    """The share of pauses that were cut, by length. step_ms: lengths are told apart by multiples of it."""
    of: Counter[float] = Counter()
    hits: Counter[float] = Counter()
    for case in cases:
        length_ms = round(case.pause_ms / step_ms) * step_ms
        of[length_ms] += 1
        hits[length_ms] += case.was_cut
    return [PausePoint(length_ms, rate_of(hits[length_ms], of[length_ms])) for length_ms in sorted(of)]


def totals(turns_by_dialogue: Mapping[str, Sequence[TurnResult]], *, step_ms: float = 1.0) -> TurnTaking:
    """Add turns up. turns_by_dialogue: dialogue id → its attempts · step_ms: as in `pause_curve`."""
    turns = [turn for group in turns_by_dialogue.values() for turn in group]
    counted = [turn for turn in turns if is_counted(turn)]
    rates: dict[str, Rate] = {}
    figures: dict[str, Figure] = {}
    for name in TURN_TAKING:
        unit = turn_taking(name).unit
        if not any(name in turn.turn_taking for turn in turns):
            continue
        if unit == "yes":
            rates[name] = _rate(name, counted)
        else:
            figures[name] = _figure(unit, turns_by_dialogue, _taken(name))
    if any(turn.kind == "interruption" for turn in turns):
        figures[AFTER_INTERRUPTION] = _figure("ms", turns_by_dialogue, _after_interruption)
    return TurnTaking(
        turns=len(turns),
        kinds=dict(Counter(turn.kind for turn in turns if turn.instants_ns)),
        left_out=dict(Counter(_why_left_out(turn) for turn in turns if not is_counted(turn))),
        rates=rates,
        figures=figures,
        pauses=pause_curve((case for turn in counted for case in turn.pauses), step_ms=step_ms),
    )


def session_figures(by_dialogue: Mapping[str, Mapping[str, Measured]]) -> dict[str, Figure]:
    """The figures of whole sessions (`metrics.turn_taking.session`), one value per dialogue."""
    made = {}
    for name in dict.fromkeys(name for measures in by_dialogue.values() for name in measures):
        unavailable: Counter[str] = Counter()
        values: dict[str, list[float]] = {}
        for dialogue, measures in by_dialogue.items():
            match measures.get(name):
                case Value(value):
                    values[dialogue] = [value]
                case missing:
                    _count_missing(unavailable, missing)
        made[name] = Figure(SESSION_MEASURES.get(name, ""), summarise(values), dict(unavailable))
    return made


def is_counted(turn: TurnResult) -> bool:
    """Whether a turn is in the rates. One that never began has no kind and no instants."""
    if not turn.instants_ns:
        return False
    if turn.turn_class == "failed":
        return kind_of(turn.outcome) in _AGENTS_FAILURES
    return turn.turn_class == "completed"


def _why_left_out(turn: TurnResult) -> str:
    if not turn.instants_ns:
        return "never began"
    return "invalid" if turn.turn_class == "invalid" else turn.outcome


def _rate(name: str, turns: Iterable[TurnResult]) -> Rate:
    hits = of = 0
    unavailable: Counter[str] = Counter()
    for turn in turns:
        match turn.turn_taking.get(name):
            case Value(value):
                hits, of = hits + round(value), of + 1
            case missing:
                _count_missing(unavailable, missing)
    return rate_of(hits, of, unavailable)


def _taken(name: str) -> Take:
    return lambda turn: turn.turn_taking.get(name)


def _after_interruption(turn: TurnResult) -> Measured | None:
    return turn.measures.get("voice_to_voice_ms") if turn.kind == "interruption" else None


def _figure(unit: str, turns_by_dialogue: Mapping[str, Sequence[TurnResult]], take: Take) -> Figure:
    values: dict[str, list[float]] = {}
    unavailable: Counter[str] = Counter()
    for dialogue, turns in turns_by_dialogue.items():
        for turn in turns:
            match take(turn) if turn.turn_class == "completed" else None:
                case Value(value):
                    values.setdefault(dialogue, []).append(value)
                case missing:
                    _count_missing(unavailable, missing)
    return Figure(unit, summarise(values), dict(unavailable.most_common()))


def _count_missing(unavailable: Counter[str], measured: Measured | None) -> None:
    """None: the turn has no such measure, which needs no reason."""
    match measured:
        case Unavailable(because):
            unavailable[because] += 1
        case Failed(error):
            unavailable[f"error: {error}"] += 1
