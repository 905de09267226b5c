"""Spans of time as they are given on the command line, and the pauses between the dialogues of one session."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator

from sessions.clock import NS_PER_S
from sessions.errors import SetupError

_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_SPAN = re.compile(r"(\d+(?:\.\d+)?|\.\d+)(ms|s|m|h)")
_LONGEST_S = 31 * 24 * 3600.0


def span_s(text: str, option: str) -> float:
    """Seconds of `90s`, `30m`, `1.5h`, `500ms`. Raises `SetupError` that names the option."""
    found = _SPAN.fullmatch(text.strip())
    if found is None or float(found[1]) * _UNITS_S[found[2]] > _LONGEST_S:
        raise SetupError(f"{option} {text}: not a span of time", f"A number and its unit, as in {option} 30s, 5m or 1h")
    return float(found[1]) * _UNITS_S[found[2]]


def pauses_ns(think: str, seed: int, session: int) -> Iterator[int]:
    """The pauses of one session after its 1st, 2nd … dialogue; the same for the same seed. Without end.

    think: "" (none) · `2s` (always) · `1s-5s` (evenly between) · `exp:3s` (exponential with that mean).
    Raises `SetupError` where it is none of them.
    """
    draw = random.Random(f"{seed}/{session}")
    low, dash, high = think.partition("-")
    if think.startswith("exp:"):
        mean_s = span_s(think.removeprefix("exp:"), "--think")
        if mean_s == 0:
            raise SetupError("--think exp:0s: the mean of the pauses is 0", "Leave --think out for no pause")
        return _endless(lambda: draw.expovariate(1 / mean_s))
    if dash:
        low_s, high_s = span_s(low, "--think"), span_s(high, "--think")
        if low_s > high_s:
            raise SetupError(f"--think {think}: the first span is the longer one", f"--think {high}-{low}")
        return _endless(lambda: draw.uniform(low_s, high_s))
    fixed_s = span_s(think, "--think") if think else 0.0
    return _endless(lambda: fixed_s)


def is_drawn(think: str) -> bool:
    """Whether the pauses depend on the seed."""
    return think.startswith("exp:") or "-" in think


def _endless(draw_s: Callable[[], float]) -> Iterator[int]:
    while True:
        yield round(draw_s() * NS_PER_S)
