"""How many dialogues were held at once, in words."""

from __future__ import annotations

from collections.abc import Iterator

from harness.load.think import is_drawn
from harness.report.wording import number, plural
from metrics.stats import Distribution
from sessions.runs import Load


def load_lines(load: Load, start_delay_ms: Distribution | None) -> Iterator[str]:
    """Nothing for a run of one dialogue after another."""
    if load.rate_per_s:
        seed = f", seed {load.seed}" if load.arrivals == "poisson" else ""
        most = f", at most {load.max_sessions} at once" if load.max_sessions else ""
        yield f"Open loop: {load.rate_per_s:g} dialogues a second ({load.arrivals}{seed}){most}{_lasting(load)}."
        if start_delay_ms is not None:
            yield f"Start delay, from intended start to ready, in no latency above: {_spread(start_delay_ms)}."
    elif load != Load():
        ramp = f", the first ones begun over {load.ramp_s:g} s" if load.ramp_s else ""
        think = f", each session pausing {load.think} between two" if load.think else ""
        seed = f" (seed {load.seed})" if is_drawn(load.think) else ""
        once = f"{plural(load.sessions, 'dialogue')} at once"
        hides = "; it asks a slow server less, which hides queues" if load.sessions > 1 else ""
        yield f"Closed loop: {once}{ramp}{think}{seed}{_lasting(load)}{hides}."


def load_arguments(load: Load) -> list[tuple[str, object, object]]:
    """The options that ask for it: (name, value, default)."""
    default = Load()
    return [
        ("--sessions", load.sessions, default.sessions),
        ("--ramp", load.ramp_s, default.ramp_s),
        ("--rate", load.rate_per_s, default.rate_per_s),
        ("--arrivals", load.arrivals, default.arrivals),
        ("--max-sessions", load.max_sessions, default.max_sessions),
        ("--think", load.think, default.think),
        ("--seed", load.seed, default.seed),
        ("--duration", f"{load.duration_s:g}s" if load.duration_s else "", ""),
    ]


def _lasting(load: Load) -> str:
    return f", begun for {_time(load.duration_s)}" if load.duration_s else ""


def _time(length_s: float) -> str:
    """In the longest unit that needs no fraction: 4 s, 90 s, 5 min, 2 h."""
    for unit_s, unit in ((3600, "h"), (60, "min")):
        if length_s % unit_s == 0:
            return f"{length_s / unit_s:g} {unit}"
    return f"{length_s:g} s"


def _spread(values: Distribution) -> str:
    figures = {"p50": values.p50, "p95": values.p95, "p99": values.p99, "max": values.maximum}
    told = [f"{name} {number(value)} ms" for name, value in figures.items() if value is not None]
    return ", ".join(told) + f" (n {values.n})" if told else "unavailable: no dialogue became ready"
