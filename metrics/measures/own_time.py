"""How well this side kept time during the turn; the windows stand in `metrics.timeliness`.

send_lateness_max_ms = maximum of (write returned − due) over the turn's frames up to first_audible.
heartbeat_lag_max_ms = maximum lag of the 5 ms heartbeats of the timed processes up to reply_done; beats less than one
period late are not logged and count as 0.
"""

from __future__ import annotations

from metrics.measures.base import Measure
from metrics.result import Measured, Unavailable, Value
from metrics.timeliness import heartbeat_lag_ns, send_lateness_ns
from metrics.view import TurnView
from sessions.clock import NS_PER_MS


def _send_lateness(view: TurnView) -> Measured:
    late_ns = send_lateness_ns(view)
    return Unavailable("no frame was sent") if late_ns is None else Value(late_ns / NS_PER_MS)


def _heartbeat_lag(view: TurnView) -> Measured:
    return Value(heartbeat_lag_ns(view) / NS_PER_MS)


SEND_LATENESS = Measure(
    "send_lateness_max_ms", "1", "ms", "lower", "maximum of (write returned − due) up to first_audible", _send_lateness
)
HEARTBEAT_LAG = Measure(
    "heartbeat_lag_max_ms", "1", "ms", "lower", "maximum lag of a heartbeat up to reply_done", _heartbeat_lag
)
