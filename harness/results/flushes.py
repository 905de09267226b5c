"""What the client dropped or cancelled of each reply: from its log, else from what its protocol's class makes it do."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from metrics.conversation import Reply, VadEvent
from metrics.playout import Playout, arrivals_of, play
from sessions import events as log


def with_cuts(
    replies: Iterable[Reply], events: Sequence[log.AnyEvent], vad: Sequence[VadEvent], protocol_class: str, rate_hz: int
) -> tuple[Reply, ...]:
    """The replies with `flushed_ns` and `cancelled_ns`.

    A log that holds any `Flushed` says all of it. Without one, what was not yet heard of a reply was dropped: in B and
    D when the server first said that it heard the user speak, in A when the client's own cancel was written, each if
    audio of the reply was still to be heard then.
    """
    known = sorted(replies, key=lambda reply: reply.created_ns)
    flushes = [event for event in events if isinstance(event, log.Flushed)]
    cancels_ns = [event.t_ns for event in events if isinstance(event, log.Sent) and event.what == "cancel"]
    cancels = _logged_cancels(known, flushes, cancels_ns) if flushes else _cancelled(known, cancels_ns)
    logged: dict[str, int] = {}
    for flush in flushes:
        logged.setdefault(flush.reply, flush.t_ns)
    starts = [event.t_ns for event in vad if event.what == "started"] if protocol_class in ("B", "D") else []
    made = []
    for reply in known:
        cancelled_ns = cancels.get(reply.id)
        flushed_ns = logged.get(reply.id)
        if not logged:
            stops = starts if cancelled_ns is None else sorted((*starts, cancelled_ns))
            flushed_ns = _dropped_ns(reply, stops, rate_hz)
        made.append(replace(reply, flushed_ns=flushed_ns, cancelled_ns=cancelled_ns))
    return tuple(made)


def _logged_cancels(
    replies: Sequence[Reply], flushes: Sequence[log.Flushed], cancels_ns: Sequence[int]
) -> dict[str, int]:
    """By reply: each that was dropped by our own will while it was running has the next cancel that no other has."""
    done = {reply.id: reply.done_ns for reply in replies}
    left, made = list(cancels_ns), dict[str, int]()
    for flush in flushes:
        done_ns = done.get(flush.reply)
        following = next((t_ns for t_ns in left if t_ns >= flush.t_ns), None)
        if flush.why == "cancel" and (done_ns is None or done_ns > flush.t_ns) and following is not None:
            left.remove(following)
            made.setdefault(flush.reply, following)
    return made


def _cancelled(replies: Sequence[Reply], cancels_ns: Sequence[int]) -> dict[str, int]:
    """By reply, its first cancel: the last reply that was running then, else the last one before."""
    made: dict[str, int] = {}
    for t_ns in cancels_ns:
        begun = [reply for reply in replies if reply.created_ns <= t_ns]
        running = [reply for reply in begun if reply.done_ns is None or reply.done_ns > t_ns]
        for reply in (running or begun)[-1:]:
            made.setdefault(reply.id, t_ns)
    return made


def _dropped_ns(reply: Reply, stops_ns: Sequence[int], rate_hz: int) -> int | None:
    after = [t_ns for t_ns in stops_ns if t_ns > reply.created_ns]
    playout = play(arrivals_of(reply.packets), rate_hz) if after else None
    if playout is None:
        return None
    return next((t_ns for t_ns in after if _is_to_be_heard(playout, t_ns)), None)


def _is_to_be_heard(playout: Playout, t_ns: int) -> bool:
    return playout.heard_samples(t_ns) < playout.samples
