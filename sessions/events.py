"""The event log of one dialogue: an immutable, ordered record from which every latency is computed.

One JSON object a line in `events.jsonl`, tagged by `kind`. Instants are `_ns` on the dialogue's monotonic clock.
Inbound messages stand as they came in `received.bin`; `Received` says where.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from sessions.errors import BadFile, SetupError

LOG_VERSION = 1

RateHz = Annotated[int, Meta(ge=200, le=1_000_000)]
"""The gate cuts audio into 200 blocks a second."""
Count = Annotated[int, Meta(ge=0, le=1 << 48)]


class Event(msgspec.Struct, frozen=True, tag_field="kind", forbid_unknown_fields=True):
    """Base of all events."""


class Opened(Event, frozen=True, tag="opened"):
    """First line: what this log is. `wall_time` is for people and is never subtracted."""

    t_ns: int
    wall_time: str
    protocol: str
    protocol_class: str
    """"A" manual end of turn, "B" server VAD, "C" one request a turn, "D" full duplex."""
    rate_hz: RateHz
    """Rate of the audio on the wire, both ways."""
    version: int = LOG_VERSION
    intended_ns: int | None = None
    """Open loop: when this dialogue was to begin, whatever the ones before it did."""


class Connected(Event, frozen=True, tag="connected"):
    """The transport stands. phases: nanoseconds spent in dns, tcp, tls, upgrade (those that happened)."""

    t_ns: int
    phases: dict[str, int]
    proxy: str = ""
    keepalive: str = ""


class Ready(Event, frozen=True, tag="ready"):
    """The session is set up: the user's clock starts."""

    t_ns: int
    lane_start_ns: int | None = None
    """Where silence flows (class B): the instant of the lane's sample 0."""


class TurnStarted(Event, frozen=True, tag="turn"):
    """One utterance was put on the user lane.

    start_ns: instant of its first sample · last_sample: index n of its last speech sample at `rate_hz` ·
    speech_end_ns = start_ns + (n+1)/rate · samples: length of the clip as sent · method: who said where speech ends ·
    turn_kind: what the script wants of it (its format's `kind`, a name that this log gives to its lines) ·
    onset_sample: index of its first audible sample · pauses: (first sample, samples) of each pause inside it ·
    watch_ms: how long after a sound that expects no reply the peer is watched.

    From a microphone the turn is known only after it was heard, and the lane's samples are those of the device's own
    clock: start_ns is then reckoned back from `speech_end_ns`, which `LaneAt` places · lane_sample: index on the lane
    of its first sample, null where a script is performed.
    """

    turn: int
    start_ns: int
    rate_hz: RateHz
    samples: Count
    last_sample: Annotated[int, Meta(ge=-1, le=1 << 48)]
    speech_end_ns: int
    method: str
    turn_kind: str = "speech"
    onset_sample: Count = 0
    pauses: list[tuple[int, int]] = []
    watch_ms: int = 2000
    lane_sample: int | None = None

    @property
    def t_ns(self) -> int:
        return self.start_ns


class Sent(Event, frozen=True, tag="sent", gc=False):
    """One message was written. `t_ns` is the instant at which the write returned.

    what: "audio", "commit", "request", "cancel" or the message's own type · due_ns: when it was due, if it had a time;
    of a microphone's frame: when the device had handed it over, and it was known to be the user's turn (class A) ·
    samples, first_sample: audio in the frame and the index of its first sample in the utterance (class A) or on the
    lane (class B) · turn: the utterance that it belongs to; null for silence between turns · buffered_bytes: what the
    transport still held after the write.
    """

    t_ns: int
    what: str
    bytes: int
    due_ns: int | None = None
    turn: int | None = None
    first_sample: int = 0
    samples: int = 0
    buffered_bytes: int = 0


class Received(Event, frozen=True, tag="received", gc=False):
    """One inbound message: t_ns arrival of its last byte, first_ns of its first, place in `received.bin`."""

    t_ns: int
    first_ns: int
    offset: Count
    length: Count
    binary: bool = False


class Pinged(Event, frozen=True, tag="ping"):
    """A ping of the transport was written. t_ns: just before the write · id: pairs it with its pong.

    tcp_ns, tcp_least_ns: the kernel's own round trip to the next TCP peer at that time, smoothed, and the shortest that
    it saw lately; null where it does not tell.
    """

    t_ns: int
    id: int
    tcp_ns: int | None = None
    tcp_least_ns: int | None = None


class Ponged(Event, frozen=True, tag="pong"):
    """The peer's answer to a ping arrived, stamped before any parsing as messages are."""

    t_ns: int
    id: int


class Flushed(Event, frozen=True, tag="flushed"):
    """The client dropped what was not yet heard of `reply` (the peer's id of it).

    turn: the one whose sound caused it · why: "cancel": our own cancel or interruption (class A) · "server": the
    server said that it heard the user speak (B, D).
    """

    t_ns: int
    reply: str
    turn: int
    why: str


class GaveUp(Event, frozen=True, tag="gave_up"):
    """The client stopped waiting for this turn's reply. outcome: one of metrics.outcome's names for failed turns; ""
    where the person at the microphone ended the conversation meanwhile."""

    t_ns: int
    turn: int
    outcome: str
    detail: str


class Stall(Event, frozen=True, tag="stall"):
    """This process's own heartbeat was late by `lag_ns` at `t_ns`."""

    t_ns: int
    lag_ns: int


class LaneAt(Event, frozen=True, tag="lane"):
    """Microphone: where a sample of the user's lane lies in time, by the device's own stamps of many frames.

    at_ns: the sample was at the microphone then, median · t_ns: when that was known · spread_ns: from the earliest to
    the latest of the stamps · waited_ns: the least that any frame's last sample waited for its hand-over, by its stamp;
    below 0 the stamps cannot be right (`sessions.lane`) · starts: the first one, or the first after samples were lost:
    time before it is not counted on from here.
    """

    t_ns: int
    sample: int
    at_ns: int
    spread_ns: int
    waited_ns: int
    starts: bool = False


class Played(Event, frozen=True, tag="played"):
    """Loudspeaker: sample `first_sample` of `reply` left the device at t_ns by its own stamp, and what follows it
    without a gap. Logged for each such stretch."""

    t_ns: int
    reply: str
    first_sample: int


class Xrun(Event, frozen=True, tag="xrun"):
    """A sound device was not served in time. what: "input overflow": samples of the microphone were lost · "output
    underflow": the loudspeaker had a gap that is not the server's."""

    t_ns: int
    what: str


class Echo(Event, frozen=True, tag="echo"):
    """The agent's own voice was found in the microphone. correlation: 0 to 1 · delay_ns: loudspeaker to microphone."""

    t_ns: int
    correlation: float
    delay_ns: int


class Closed(Event, frozen=True, tag="closed"):
    """The connection's end. by: "us" or "peer" · how: "close" (with a close frame), "reset", "eof", "flood"."""

    t_ns: int
    by: str
    how: str
    code: int = 0
    reason: str = ""


class Ended(Event, frozen=True, tag="ended"):
    """Last line: the dialogue is over for the client (not before the last arrival that it waited for)."""

    t_ns: int
    completed: bool
    """False when the user stopped the run in the middle."""


AnyEvent = (
    Opened
    | Connected
    | Ready
    | TurnStarted
    | Sent
    | Received
    | Pinged
    | Ponged
    | Flushed
    | GaveUp
    | Stall
    | LaneAt
    | Played
    | Xrun
    | Echo
    | Closed
    | Ended
)

_encoder = msgspec.json.Encoder()
_decoder = msgspec.json.Decoder(AnyEvent)


def encode_log(events: Iterable[AnyEvent]) -> bytes:
    """The log as JSON lines."""
    return b"".join(_encoder.encode(event) + b"\n" for event in events)


def must_be_readable(name: str, opened: Opened) -> None:
    """Raise `SetupError` where the log of the dialogue `name` is of another version than this program reads."""
    if opened.version != LOG_VERSION:
        what = f"the log of {name} has version {opened.version}; this program reads {LOG_VERSION}"
        raise SetupError(what, "Replay it with the program that recorded it")


def read_log(path: Path) -> list[AnyEvent]:
    """All events of `events.jsonl`. Raises `BadFile` with the line that does not fit."""
    events: list[AnyEvent] = []
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        try:
            events.append(_decoder.decode(line))
        except (msgspec.DecodeError, msgspec.ValidationError, RecursionError) as error:
            raise BadFile(str(path), str(error), line=number) from error
    return events
