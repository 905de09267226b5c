"""Conversations made by hand for the measures of turn-taking: who sounded when, on a clock of milliseconds."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from metrics.conversation import Conversation, Packet, Pcm, Reply, SentFrame, UserTurn, VadEvent
from metrics.result import Failed, Measured, TurnResult, Unavailable, Value
from metrics.turns import measure_conversation

MS = 1_000_000
RATE_HZ = 24_000


def sound(ms: int) -> Pcm:
    """A square wave that is above the gate from its first sample to its last."""
    return np.tile(np.array([4000, -4000], dtype=np.int16), ms * RATE_HZ // 2000)


def quiet(ms: int) -> Pcm:
    return np.zeros(ms * RATE_HZ // 1000, dtype=np.int16)


def user(
    index: int,
    start_ms: int,
    length_ms: int,
    kind: str = "speech",
    *,
    onset_ms: int = 0,
    pauses_ms: Sequence[tuple[int, int]] = (),
    watch_ms: int = 2000,
    committed_ms: int | None = None,
) -> UserTurn:
    """A turn whose sound begins `onset_ms` into it and ends with it. pauses_ms: (start in the turn, length)."""
    start_ns, samples = start_ms * MS, length_ms * RATE_HZ // 1000
    silent = kind == "silence"
    frame = SentFrame(start_ns + 20 * MS, start_ns, 0, samples)
    return UserTurn(
        index=index,
        start_ns=start_ns,
        rate_hz=RATE_HZ,
        samples=samples,
        last_sample=-1 if silent else samples - 1,
        speech_end_ns=start_ns if silent else start_ns + length_ms * MS,
        method="annotation",
        frames=(frame,),
        committed_ns=None if committed_ms is None else committed_ms * MS,
        expects_reply=kind in ("speech", "interruption", "overlap"),
        kind=kind,
        onset_ns=start_ns + onset_ms * MS,
        pauses_ns=tuple((start_ns + at * MS, length * MS) for at, length in pauses_ms),
        watch_ns=watch_ms * MS,
    )


def reply(
    name: str,
    created_ms: int,
    *packets: tuple[int, Pcm],
    done_ms: int | None = None,
    status: str = "completed",
    flushed_ms: int | None = None,
    cancelled_ms: int | None = None,
) -> Reply:
    """packets: (arrival in ms, pcm) · done: with the last packet, unless it is said."""
    made = tuple(Packet(at * MS, pcm) for at, pcm in packets)
    last_ms = done_ms if done_ms is not None else max([created_ms, *(at for at, _ in packets)])
    return Reply(
        id=name,
        created_ns=created_ms * MS,
        packets=made,
        done_ns=last_ms * MS,
        status=status,
        flushed_ns=None if flushed_ms is None else flushed_ms * MS,
        cancelled_ns=None if cancelled_ms is None else cancelled_ms * MS,
    )


def vad(what: str, *at_ms: int) -> list[VadEvent]:
    return [VadEvent(t_ms * MS, what) for t_ms in at_ms]


def talk(
    turns: Sequence[UserTurn], replies: Sequence[Reply], events: Sequence[VadEvent] = (), protocol_class: str = "B"
) -> list[TurnResult]:
    """Measure the conversation."""
    conversation = Conversation(protocol_class, RATE_HZ, 0, tuple(turns), tuple(replies), vad=tuple(events))
    return measure_conversation(conversation)


def number(measured: Measured) -> float:
    assert isinstance(measured, Value), measured
    return measured.value


def reason(measured: Measured) -> str:
    assert isinstance(measured, Unavailable | Failed), measured
    return measured.because if isinstance(measured, Unavailable) else measured.error
