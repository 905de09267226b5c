"""Class D: how the session's one stream played, B = 0: no audio message begins a reply there, so underruns are its."""

from __future__ import annotations

from metrics.conversation import Conversation
from metrics.result import Measured, Unavailable, Value
from metrics.view import stream_of
from sessions.clock import NS_PER_MS

SESSION_MEASURES = {"session_underruns": "count", "session_underrun_ms": "ms"}


def session_continuity(conversation: Conversation) -> dict[str, Measured]:
    """Number and total length of the session's underruns; nothing in the other classes, where replies have theirs."""
    stream = stream_of(conversation)
    if stream is None:
        return {}
    if stream.playout is None:
        return dict.fromkeys(SESSION_MEASURES, Unavailable("the session has no audio"))
    underruns = stream.playout.underruns
    return {
        "session_underruns": Value(float(len(underruns))),
        "session_underrun_ms": Value(float(stream.playout.underrun_ns / NS_PER_MS)),
    }
