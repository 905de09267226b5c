"""Where a reply fell silent before its own end.

Heard audio is the play-out at B = 0 up to the instant at which the client dropped the rest (`Reply.flushed_ns`). A
reply that the peer cancelled, and that nobody dropped, is heard up to the server's word that the user speaks, where
that came while it was running, else up to its cancelled end.
"""

from __future__ import annotations

from metrics.conversation import Reply, VadEvent


def cut_ns(reply: Reply, vad: tuple[VadEvent, ...] = ()) -> int | None:
    """The instant, in ns; None where the reply was heard to its end. vad: the server's events of the dialogue."""
    if reply.flushed_ns is not None:
        return reply.flushed_ns
    if reply.status != "cancelled" or reply.done_ns is None:
        return None
    done_ns = reply.done_ns
    stops = (event.t_ns for event in vad if event.what == "started")
    return next((t_ns for t_ns in stops if reply.created_ns < t_ns <= done_ns), done_ns)
