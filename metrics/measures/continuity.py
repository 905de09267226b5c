"""Whether the reply's audio keeps up with its own play-out (`metrics.playout`).

underruns_bB = number of underruns behind a buffer of B ms; underrun_bB_ms = their total length.
gapless_prebuffer_ms = the smallest B without an underrun.
real_time_factor = (last − first audio arrival) / audio duration; above 1 the audio comes slower than it is spoken.
reply_duration_ms = samples / rate of all audio that was generated, heard or not.
"""

from __future__ import annotations

from collections.abc import Callable

from metrics.measures.base import Measure, of_audio
from metrics.playout import Playout, duration_ns, gapless_prebuffer_ns, real_time_factor
from metrics.result import Measured, Value
from metrics.view import TurnView
from sessions.clock import NS_PER_MS


def _of_playout(buffer_ms: int, figure: Callable[[Playout], float]) -> Callable[[TurnView], Measured]:
    return of_audio(lambda view: Value(figure(view.heard.playouts[buffer_ms])))


def _count(buffer_ms: int) -> Measure:
    return Measure(
        f"underruns_b{buffer_ms}",
        "1",
        "count",
        "lower",
        f"underruns behind a buffer of {buffer_ms} ms",
        _of_playout(buffer_ms, lambda playout: float(len(playout.underruns))),
    )


def _length(buffer_ms: int) -> Measure:
    return Measure(
        f"underrun_b{buffer_ms}_ms",
        "1",
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
    "gapless_prebuffer_ms", "1", "ms", "lower", "smallest buffer without an underrun", of_audio(_prebuffer)
)
REAL_TIME_FACTOR = Measure(
    "real_time_factor", "1", "ratio", "lower", "(last − first audio arrival) / audio duration", of_audio(_factor)
)
REPLY_DURATION = Measure(
    "reply_duration_ms", "1", "ms", "none", "samples / rate of the whole reply", of_audio(_duration)
)
