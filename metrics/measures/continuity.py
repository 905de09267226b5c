"""Whether the reply's audio keeps up with its own play-out (`metrics.playout`).

underruns_bB = number of underruns behind a buffer of B ms; underrun_bB_ms = their total length.
gapless_prebuffer_ms = the smallest B without an underrun.
real_time_factor = (last − first audio arrival) / audio duration; above 1 the audio comes slower than it is spoken.
reply_duration_ms = samples / rate of all audio that was generated, heard or not.
All rest on the audio's length: where that is in doubt (`metrics.length`) they are unavailable, for it is then too long
or too short by nobody knows how much.
"""

from __future__ import annotations

from collections.abc import Callable

from metrics.length import doubt_of
from metrics.measures.base import Measure, of_audio
from metrics.playout import Playout, duration_ns, gapless_prebuffer_ns, real_time_factor
from metrics.result import Measured, Unavailable, Value
from metrics.view import TurnView
from sessions.clock import NS_PER_MS

_VERSION = "2"


def _of_length(figure: Callable[[TurnView], Measured]) -> Callable[[TurnView], Measured]:
    def measure(view: TurnView) -> Measured:
        doubt = doubt_of(view)
        return Unavailable(doubt) if doubt else figure(view)

    return of_audio(measure)


def _of_playout(buffer_ms: int, figure: Callable[[Playout], float]) -> Callable[[TurnView], Measured]:
    return _of_length(lambda view: Value(figure(view.heard.playouts[buffer_ms])))


def _count(buffer_ms: int) -> Measure:
    return Measure(
        f"underruns_b{buffer_ms}",
        _VERSION,
        "count",
        "lower",
        f"underruns behind a buffer of {buffer_ms} ms",
        _of_playout(buffer_ms, lambda playout: float(len(playout.underruns))),
    )


def _length(buffer_ms: int) -> Measure:
    return Measure(
        f"underrun_b{buffer_ms}_ms",
        _VERSION,
        "ms",
        "lower",
        f"total length of the underruns behind a buffer of {buffer_ms} ms",
        _of_playout(buffer_ms, lambda playout: float(playout.underrun_ns / NS_PER_MS)),
    )


def _prebuffer(view: TurnView) -> Measured:
    return Value(float(gapless_prebuffer_ns(view.heard.arrivals, view.conversation.rate_hz) / NS_PER_MS))


def _factor(view: TurnView) -> Measured:
    return Value(float(real_time_factor(view.heard.arrivals, view.conversation.rate_hz)))


def _duration(view: TurnView) -> Measured:
    samples = sum(arrival.samples for arrival in view.heard.arrivals)
    return Value(float(duration_ns(samples, view.conversation.rate_hz) / NS_PER_MS))


UNDERRUNS_B0, UNDERRUN_B0_MS = _count(0), _length(0)
UNDERRUNS_B20, UNDERRUN_B20_MS = _count(20), _length(20)
UNDERRUNS_B60, UNDERRUN_B60_MS = _count(60), _length(60)
UNDERRUNS_B100, UNDERRUN_B100_MS = _count(100), _length(100)
UNDERRUNS_B200, UNDERRUN_B200_MS = _count(200), _length(200)

GAPLESS_PREBUFFER = Measure(
    "gapless_prebuffer_ms", _VERSION, "ms", "lower", "smallest buffer without an underrun", _of_length(_prebuffer)
)
REAL_TIME_FACTOR = Measure(
    "real_time_factor", _VERSION, "ratio", "lower", "(last − first audio arrival) / audio duration", _of_length(_factor)
)
REPLY_DURATION = Measure(
    "reply_duration_ms", _VERSION, "ms", "none", "samples / rate of the whole reply", _of_length(_duration)
)
