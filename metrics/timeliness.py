"""Whether this side kept time during a turn: how late its frames left, how late its own timer ran.

A turn with either over the limit is invalid: its figures would tell of this machine and not of the peer.
"""

from __future__ import annotations

from metrics.view import TurnView


def send_lateness_ns(view: TurnView) -> int | None:
    """The greatest (write returned − due) of the turn's frames, in ns; None where nothing was sent.

    Window: from the turn's first frame up to `first_audible`, up to `reply_done` where nothing is audible, to the
    turn's last frame where there is neither; a frame counts when it was due by then. Class C: of the request, due at
    `speech_end`.
    """
    turn = view.replies.turn
    if view.conversation.protocol_class == "C":
        return None if turn.requested_ns is None else turn.requested_ns - turn.speech_end_ns
    end_ns = view.instant("first_audible")
    if end_ns is None:
        end_ns = view.instant("reply_done")
    late = [frame.sent_ns - frame.due_ns for frame in turn.frames if end_ns is None or frame.due_ns <= end_ns]
    return max(late, default=None)


def heartbeat_lag_ns(view: TurnView) -> int:
    """The greatest lag of a late heartbeat in the turn, in ns; 0 where none was logged.

    Window: from the turn's first frame being due (class C: the request) to `reply_done`, to the end of the turn where
    there is none. A late beat counts when any part of its lag, from its due instant to its own, lies in the window.
    """
    begin_ns, end_ns = _first_due_ns(view), _end_ns(view)
    lags = (
        stall.lag_ns
        for stall in view.conversation.stalls
        if stall.t_ns >= begin_ns and (end_ns is None or stall.t_ns - stall.lag_ns <= end_ns)
    )
    return max(lags, default=0)


def _first_due_ns(view: TurnView) -> int:
    turn = view.replies.turn
    return turn.frames[0].due_ns if turn.frames else turn.speech_end_ns


def _end_ns(view: TurnView) -> int | None:
    done_ns = view.instant("reply_done")
    if done_ns is not None:
        return done_ns
    index = view.replies.turn.index
    gave_up = [end.t_ns for end in view.conversation.ends if end.turn == index]
    return min(gave_up) if gave_up else view.replies.next_ns
