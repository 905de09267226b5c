"""What the metrics look at: one dialogue, as it was sent and as it arrived, already decoded.

`harness/results/derive.py` builds it from an event log and the raw bytes; nothing here knows a protocol.
All instants are on one monotonic clock, in nanoseconds. Audio is int16 (samples,) mono at `rate_hz`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sessions.clock import NS_PER_MS

Pcm = NDArray[np.int16]


@dataclass(frozen=True, slots=True)
class Packet:
    """One inbound message that belongs to a reply's audio.

    t_ns: arrival of the message's last byte · pcm: the whole samples that became complete with it (may be empty: a
    header, half a sample, or audio that could not be decoded).
    """

    t_ns: int
    pcm: Pcm


@dataclass(frozen=True, slots=True)
class TextPiece:
    """Reply words and when they arrived."""

    t_ns: int
    text: str


@dataclass(frozen=True, slots=True)
class StatedFormat:
    """What a header inside a reply's audio says of it, against what the session said."""

    rate_hz: int
    channels: int
    bits: int


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer of the peer.

    created_ns: when the peer said that it began (else its first content) · done_ns: the protocol's end of reply, None
    where it never came · status: "completed", "cancelled", "failed", "incomplete", or "" without an end ·
    reason, error_code, message: as the peer gave them · has_tool_call: the output holds a tool call.
    flushed_ns: the client dropped what was not yet heard of it then; None where it never did ·
    cancelled_ns: the client's own cancel of it was written, None where it wrote none ·
    formats: what headers in its audio say against the session; the samples are as the session has it.
    Packets after `done_ns` are kept here too.
    """

    id: str
    created_ns: int
    packets: tuple[Packet, ...] = ()
    texts: tuple[TextPiece, ...] = ()
    done_ns: int | None = None
    status: str = ""
    reason: str = ""
    error_code: str = ""
    message: str = ""
    has_tool_call: bool = False
    flushed_ns: int | None = None
    cancelled_ns: int | None = None
    formats: tuple[StatedFormat, ...] = ()


@dataclass(frozen=True, slots=True)
class SentFrame:
    """One paced write. due_ns: its last sample's instant · sent_ns: the write returned."""

    due_ns: int
    sent_ns: int
    first_sample: int
    samples: int


@dataclass(frozen=True, slots=True)
class UserTurn:
    """One utterance as performed.

    start_ns: instant of its first sample · last_sample: n, the last speech sample, index in the utterance ·
    frames: every frame from the one that holds the utterance's first sample up to the next turn's first (class B: the
    silence after it too), first_sample counted from the utterance's first (negative where the frame began before it) ·
    committed_ns: the end-of-turn message was written, None where the protocol has none ·
    requested_ns: the request for a reply was written (class C: the whole request body; its `frames` are empty) ·
    cancelled_ns: the client's own cancel of this turn's reply was written (an interruption that the script asked for) ·
    expects_reply: False where the script wants the peer to stay quiet (a cough, a backchannel, noise) ·
    kind: what it is, as in the script: speech, interruption, overlap, backchannel, noise, silence ·
    onset_ns: instant of its first audible sample, None where that is not known ·
    pauses_ns: (start, length) of each pause inside it ·
    watch_ns: how long after a sound that expects no reply the peer is watched.
    """

    index: int
    start_ns: int
    rate_hz: int
    samples: int
    last_sample: int
    speech_end_ns: int
    method: str
    frames: tuple[SentFrame, ...] = ()
    committed_ns: int | None = None
    requested_ns: int | None = None
    cancelled_ns: int | None = None
    expects_reply: bool = True
    kind: str = "speech"
    onset_ns: int | None = None
    pauses_ns: tuple[tuple[int, int], ...] = ()
    watch_ns: int = 2000 * NS_PER_MS


@dataclass(frozen=True, slots=True)
class PeerFault:
    """The peer broke its protocol, without ending the turn: bad base64, half a sample, an error event …

    kind: short name · fatal: it answered what this turn needed (a refused commit or request), so no reply will come.
    """

    t_ns: int
    kind: str
    detail: str
    code: str = ""
    fatal: bool = False


@dataclass(frozen=True, slots=True)
class VadEvent:
    """The server said that it heard speech start ("started") or stop ("stopped"), or took the turn ("committed")."""

    t_ns: int
    what: str


@dataclass(frozen=True, slots=True)
class End:
    """Why no more came for a turn: the client gave up, or the connection ended.

    outcome: a failed outcome's name (`metrics.outcome.FAILED`), or "" when the dialogue was stopped by the user.
    turn: its index; a turn that never began (no connection) counts as a failed attempt too.
    """

    t_ns: int
    turn: int
    outcome: str
    detail: str


@dataclass(frozen=True, slots=True)
class Stall:
    """A 5 ms heartbeat of a timed process ran at t_ns, lag_ns after it was due."""

    t_ns: int
    lag_ns: int


@dataclass(frozen=True, slots=True)
class Conversation:
    """One dialogue. protocol_class: "A", "B", "C" or "D" · rate_hz: of the reply audio."""

    protocol_class: str
    rate_hz: int
    ready_ns: int | None
    turns: tuple[UserTurn, ...]
    replies: tuple[Reply, ...]
    faults: tuple[PeerFault, ...] = ()
    vad: tuple[VadEvent, ...] = ()
    ends: tuple[End, ...] = ()
    stalls: tuple[Stall, ...] = ()
    ended_ns: int | None = None
    phases_ns: dict[str, int] | None = None
