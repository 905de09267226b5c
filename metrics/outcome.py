"""What became of one attempt: its class (completed, invalid, failed) and one named outcome.

Failed beats invalid beats completed. An invalid turn keeps the outcome that its reply had: only its figures are void.
"""

from __future__ import annotations

from dataclasses import dataclass

from metrics.attribution import PATIENCE_NS, began_ns, onset_ns
from metrics.conversation import End, PeerFault, Reply
from metrics.result import TurnClass
from metrics.timeliness import heartbeat_lag_ns, send_lateness_ns
from metrics.view import TurnView
from sessions.clock import NS_PER_MS

ANSWERED = "answered"
INTERRUPTED = "interrupted"
TEXT_ONLY = "text only"
TOOL_CALL = "tool call"
EMPTY = "empty"
QUIET = "quiet as scripted"
COMPLETED = (ANSWERED, INTERRUPTED, TEXT_ONLY, TOOL_CALL, EMPTY, QUIET)

TRANSPORT = "transport"
REFUSED = "refused"
RATE_LIMIT = "rate limit"
SERVER_ERROR = "server error"
INCOMPLETE = "incomplete"
CANCELLED = "cancelled"
NO_END = "no end event"
CLOSED = "closed"
RESET = "reset"
TIME_OUT = "time-out"
DOES_NOT_READ = "peer does not read"
FLOOD = "flood"
FAILED = (
    TRANSPORT,
    REFUSED,
    RATE_LIMIT,
    SERVER_ERROR,
    INCOMPLETE,
    CANCELLED,
    NO_END,
    CLOSED,
    RESET,
    TIME_OUT,
    DOES_NOT_READ,
    FLOOD,
)
"""Kinds of failure. `INCOMPLETE` and `CANCELLED` may carry a known reason: "incomplete: max_output_tokens"."""

REASONS = {
    INCOMPLETE: ("max_output_tokens", "content_filter"),
    CANCELLED: ("turn_detected", "client_cancelled"),
}
"""The reasons that name an outcome of their own; any other stands in the detail, so that names stay few."""

RATE_LIMIT_CODES = frozenset(
    {"rate_limit", "rate_limit_exceeded", "rate_limit_error", "too_many_requests", "insufficient_quota", "429"}
)
_ALWAYS_FAIL = (DOES_NOT_READ, FLOOD)
"""Faults of the whole session: they fail the turn that they are booked on even after its reply was done."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """outcome: one of `COMPLETED`, one of `FAILED`, or "kind: reason" · detail: the peer's words, or ours."""

    turn_class: TurnClass
    outcome: str
    detail: str = ""


def kind_of(outcome: str) -> str:
    """The kind that an outcome counts under: "incomplete: content_filter" → "incomplete"."""
    return outcome.partition(":")[0]


def judge(view: TurnView, limit_lateness_ms: float) -> Verdict | None:
    """Class and outcome of one turn. None where the user stopped the dialogue in its midst: that is no attempt."""
    verdict = _reply_verdict(view)
    if verdict is None or verdict.turn_class == "failed":
        return verdict
    late = _late(view, limit_lateness_ms)
    if not late:
        return verdict
    return Verdict("invalid", verdict.outcome, "; ".join(filter(None, (late, verdict.detail))))


def failure_without_turn(end: End) -> Verdict:
    """The verdict on a turn that never began."""
    return Verdict("failed", end.outcome if kind_of(end.outcome) in FAILED else TRANSPORT, end.detail)


def faults_of(view: TurnView) -> list[PeerFault]:
    """The peer's breaches of protocol during this turn."""
    return [fault for fault in view.conversation.faults if view.replies.holds(fault.t_ns)]


def _reply_verdict(view: TurnView) -> Verdict | None:
    """The verdict but for lateness."""
    reply, end = view.replies.reply, _end_of(view)
    if end is not None and end.outcome in _ALWAYS_FAIL:
        return Verdict("failed", end.outcome, end.detail)
    if view.conversation.protocol_class == "D" and _was_heard_before(view, end):
        return Verdict("completed", ANSWERED)
    # What came after the reply's own end did not end it; a reply that ended after we gave up came too late.
    if reply is not None and reply.done_ns is not None and (end is None or reply.done_ns <= end.t_ns):
        return _done_verdict(view, reply)
    fatal = next((fault for fault in faults_of(view) if fault.fatal), None)
    if fatal is not None:
        outcome = RATE_LIMIT if _is_rate_limit(fatal.code) else REFUSED
        return Verdict("failed", outcome, _joined(fatal.code, fatal.detail or fatal.kind))
    if end is None:
        return _abandoned(view)
    if end.outcome == "":
        return None
    if end.outcome == TIME_OUT:
        return _nothing_came(view, end.detail, end.t_ns)
    return failure_without_turn(end)


def _abandoned(view: TurnView) -> Verdict:
    """The dialogue went on, or was over, without an end of this turn's reply."""
    reply = view.replies.reply
    if not view.replies.turn.expects_reply:  # nobody waited for a reply, nor for its end
        return Verdict("completed", QUIET) if reply is None else _content_verdict(view, reply)
    if reply is not None and (view.replies.turn.cancelled_ns is not None or _was_cut_by_script(view, reply)):
        return Verdict("completed", INTERRUPTED, "the peer did not confirm the cancel")
    if reply is None and _user_went_on(view):
        return Verdict("completed", INTERRUPTED, "the script's next turn began before a reply did")
    return _nothing_came(view, "the dialogue went on without an end of the reply")


def _nothing_came(view: TurnView, detail: str, until_ns: int | None = None) -> Verdict:
    """We waited in vain for the reply, or for its end. until_ns: when we gave up; what came after it is no news."""
    reply, faults = view.replies.reply, faults_of(view)
    if reply is None and not view.replies.turn.expects_reply:
        return Verdict("completed", QUIET, detail)
    came_ns = [arrival.t_ns for arrival in view.heard.arrivals]
    came_ns += [piece.t_ns for piece in reply.texts if piece.text] if reply is not None else []
    if came_ns and (until_ns is None or min(came_ns) <= until_ns):
        return Verdict("failed", NO_END, detail)
    if faults:
        return Verdict("failed", SERVER_ERROR, _joined(_undecodable(faults), detail))
    return Verdict("failed", TIME_OUT, _joined(_silence(view), detail))


def _done_verdict(view: TurnView, reply: Reply) -> Verdict:
    """A reply that the peer ended itself."""
    said = _joined(reply.error_code, reply.reason, reply.message)
    if _was_cut_by_script(view, reply) and reply.status in ("completed", "cancelled", ""):
        return Verdict("completed", INTERRUPTED, _joined(_by_what(view, reply.flushed_ns), said))
    if reply.status in ("completed", ""):
        return _content_verdict(view, reply)
    if reply.status == "cancelled":
        if _was_interrupted(view, reply):
            return Verdict("completed", INTERRUPTED, _joined(_by_what(view, reply.done_ns), said))
        return Verdict("failed", _with_reason(CANCELLED, reply.reason), said)
    if reply.status == "incomplete":
        return Verdict("failed", _with_reason(INCOMPLETE, reply.reason), said)
    if _is_rate_limit(reply.error_code) or _is_rate_limit(reply.reason):
        return Verdict("failed", RATE_LIMIT, said)
    if reply.status == "failed":
        return Verdict("failed", SERVER_ERROR, said)
    return Verdict("failed", SERVER_ERROR, _joined(f"unknown status {reply.status!r}", said))


def _content_verdict(view: TurnView, reply: Reply) -> Verdict:
    """A reply that ended well is named by what a listener or reader got from it."""
    if view.heard.onset.index is not None:
        return Verdict("completed", ANSWERED)
    silent = "its audio is below the gate" if view.heard.arrivals else ""
    if reply.has_tool_call:
        return Verdict("completed", TOOL_CALL, silent)
    if any(piece.text.strip() for piece in reply.texts):
        return Verdict("completed", TEXT_ONLY, silent)
    faults = faults_of(view)
    if faults and not view.heard.arrivals:
        return Verdict("failed", SERVER_ERROR, _undecodable(faults))
    return Verdict("completed", EMPTY, silent)


def _end_of(view: TurnView) -> End | None:
    """The first thing that ended this turn from outside."""
    ends = [end for end in view.conversation.ends if end.turn == view.replies.turn.index]
    return min(ends, key=lambda end: end.t_ns, default=None)


def _was_interrupted(view: TurnView, reply: Reply) -> bool:
    """By the script: its own cancel, or its next turn begun before the reply's end."""
    done_ns = reply.done_ns or 0
    cancelled_ns, next_ns = view.replies.turn.cancelled_ns, view.replies.next_ns
    return (cancelled_ns is not None and cancelled_ns <= done_ns) or (next_ns is not None and next_ns <= done_ns)


def _was_cut_by_script(view: TurnView, reply: Reply) -> bool:
    """What was not yet heard of it was dropped: by our own cancel, or after the script's next turn had begun."""
    cut_ns, next_ns = reply.flushed_ns, view.replies.next_ns
    if cut_ns is None:
        return False
    playout = view.heard.playouts.get(0)
    if reply.status != "cancelled" and playout is not None and playout.heard_samples(cut_ns) == playout.samples:
        return False  # nothing was left to drop
    return view.conversation.protocol_class in ("A", "C") or (next_ns is not None and next_ns <= cut_ns)


def _user_went_on(view: TurnView) -> bool:
    """A script that does not wait: its next turn that expects a reply began before there was time for one."""
    this = view.replies.turn
    later = [onset_ns(one) for one in view.conversation.turns if one.expects_reply and one.index != this.index]
    return any(onset_ns(this) < t_ns < this.speech_end_ns + PATIENCE_NS for t_ns in later)


def _by_what(view: TurnView, at_ns: int | None) -> str:
    """Names the sound, where it was none that should stop anybody."""
    begun = [turn for turn in view.conversation.turns if at_ns is not None and began_ns(turn) <= at_ns]
    last = max(begun, key=began_ns, default=view.replies.turn)
    return "" if last.expects_reply or last is view.replies.turn else f"by a {last.kind}"


def _was_heard_before(view: TurnView, end: End | None) -> bool:
    heard_ns = view.instant("first_audible")
    return heard_ns is not None and (end is None or heard_ns <= end.t_ns)


def _silence(view: TurnView) -> str:
    """Why a class-B peer may have kept silent: it never said that the user had stopped."""
    if view.conversation.protocol_class != "B" or view.replies.reply is not None:
        return ""
    heard = {event.what for event in view.conversation.vad if view.replies.holds(event.t_ns)}
    if heard & {"stopped", "committed"}:
        return ""
    return "no end of turn signalled: the server did not hear the speech end (does silence flow after the turn?)"


def _late(view: TurnView, limit_lateness_ms: float) -> str:
    """Which of the two was over the limit; "" where neither was."""
    sent_ns, lag_ns = send_lateness_ns(view), heartbeat_lag_ns(view)
    limit_ns = limit_lateness_ms * NS_PER_MS
    remarks = []
    if sent_ns is not None and sent_ns > limit_ns:
        remarks.append(f"a frame left {sent_ns / NS_PER_MS:.1f} ms late (limit {limit_lateness_ms:g} ms)")
    if lag_ns > limit_ns:
        remarks.append(f"the heartbeat was {lag_ns / NS_PER_MS:.1f} ms late (limit {limit_lateness_ms:g} ms)")
    return "; ".join(remarks)


def _undecodable(faults: list[PeerFault]) -> str:
    return f"nothing of a reply could be decoded: {_joined(faults[0].kind, faults[0].detail)}"


def _with_reason(kind: str, reason: str) -> str:
    return f"{kind}: {reason}" if reason in REASONS[kind] else kind


def _is_rate_limit(code: str) -> bool:
    return code.lower() in RATE_LIMIT_CODES


def _joined(*parts: str) -> str:
    return ": ".join(part for part in parts if part)
