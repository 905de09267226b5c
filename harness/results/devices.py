"""What the sound devices of a conversation did with time: how sure its instants are, and what they add to it.

Latencies count from the microphone and to the arrival's play-out with B = 0, as for every client. What the loudspeaker
adds to that is this machine's own, and told apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import msgspec

from metrics.conversation import Conversation
from metrics.playout import arrivals_of
from sessions.clock import NS_PER_MS
from sessions.events import AnyEvent, Echo, LaneAt, Played, Xrun
from sessions.lane import LaneTimes


class Devices(msgspec.Struct, frozen=True):
    """drift_ppm: how much slower the microphone's clock is than ours, in millionths; null for less than 5 s ·
    stamps_agree_ms, stamps_worst_ms: spread of a second's stamps, median and greatest · stamps_moved_ms: how much
    earlier than its stamps say all of the lane was (`sessions.lane`) · handed_ms: from a frame's last sample to its
    hand-over, at the least · output_ms: from a reply's first packet to its first sample leaving the loudspeaker, median
    · output_max_ms: the worst · replies: those that were played · overflows: the microphone lost samples · underflows:
    gaps of the loudspeaker that are not the server's · echoes: how often the agent was found in the microphone ·
    echo_delay_ms, echo_correlation: of the clearest one.
    """

    drift_ppm: float | None
    stamps_agree_ms: float
    stamps_worst_ms: float
    stamps_moved_ms: float
    handed_ms: float
    output_ms: float | None
    output_max_ms: float | None
    replies: int
    overflows: int
    underflows: int
    echoes: int
    echo_delay_ms: float | None = None
    echo_correlation: float | None = None


def devices_of(events: Sequence[AnyEvent], conversation: Conversation) -> Devices | None:
    """None where no microphone was used."""
    times = LaneTimes.of(events, conversation.rate_hz)
    if times is None:
        return None
    anchors = [event for event in events if isinstance(event, LaneAt)]
    xruns = [event.what for event in events if isinstance(event, Xrun)]
    echoes = [event for event in events if isinstance(event, Echo)]
    clearest = max(echoes, key=lambda echo: echo.correlation, default=None)
    delays_ms = _output_ms(events, conversation)
    drift_ppm = times.drift_ppm
    return Devices(
        drift_ppm=None if drift_ppm is None else round(drift_ppm, 1),
        stamps_agree_ms=median(anchor.spread_ns for anchor in anchors) / NS_PER_MS,
        stamps_worst_ms=max(anchor.spread_ns for anchor in anchors) / NS_PER_MS,
        stamps_moved_ms=times.early_ns / NS_PER_MS,
        handed_ms=max(0.0, median(anchor.waited_ns for anchor in anchors) + times.early_ns) / NS_PER_MS,
        output_ms=median(delays_ms) if delays_ms else None,
        output_max_ms=max(delays_ms, default=None),
        replies=len(delays_ms),
        overflows=xruns.count("input overflow"),
        underflows=xruns.count("output underflow"),
        echoes=len(echoes),
        echo_delay_ms=None if clearest is None else clearest.delay_ns / NS_PER_MS,
        echo_correlation=None if clearest is None else clearest.correlation,
    )


def _output_ms(events: Sequence[AnyEvent], conversation: Conversation) -> list[float]:
    """By reply that was played."""
    arrivals = {reply.id: arrivals_of(reply.packets) for reply in conversation.replies}
    begun = {event.reply: event.t_ns for event in events if isinstance(event, Played) and event.first_sample == 0}
    return [(t_ns - arrivals[reply][0].t_ns) / NS_PER_MS for reply, t_ns in begun.items() if arrivals.get(reply)]
