"""From one conversation to one result per turn: attribution, instants, measures, outcome, remarks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec

from metrics.attribution import TurnReplies, attribute, false_start_heard_ms, has_audio_after_done
from metrics.conversation import Conversation, End, PeerFault
from metrics.length import length_flags
from metrics.outcome import ANSWERED, failure_without_turn, faults_of, judge
from metrics.result import Failed, Measured, TurnResult, Unavailable
from metrics.table import METRICS, metric
from metrics.turn_taking.endpoints import pause_cases
from metrics.turn_taking.from_log import lanes_of
from metrics.turn_taking.table import take_all
from metrics.view import TurnView, stream_of, view_of
from sessions.clock import NS_PER_MS
from sessions.errors import MetricUnavailable

LIMIT_LATENESS_MS = 20.0
OWN_TIME = frozenset({"send_lateness_max_ms", "heartbeat_lag_max_ms"})
"""The measures that do not speak of a reply."""
PROTOCOL_FAULT = "protocol fault"
"""How a remark on a breach of protocol begins; the fault's own name follows."""
NEVER_BEGAN = "the turn never began"


def measure_conversation(
    conversation: Conversation, *, limit_lateness_ms: float = LIMIT_LATENESS_MS, names: Sequence[str] = tuple(METRICS)
) -> list[TurnResult]:
    """One result per attempt, in the order of the turns.

    limit_lateness_ms: frames or heartbeats later than this make a turn invalid · names: the measures to take.
    A turn in whose midst the user stopped the dialogue is no attempt and gives none; a turn that failed before its
    first frame gives one. Raises `SetupError` for an unknown measure.
    """
    results = []
    attributed, stream = attribute(conversation), stream_of(conversation)
    lanes = lanes_of(conversation, attributed, stream)
    sounds = {sound.index: sound for sound in lanes.sounds}
    for replies in attributed:
        result = _measure_turn(view_of(conversation, replies, stream), limit_lateness_ms, names)
        if result is not None:
            sound = sounds[replies.turn.index]
            taken, pauses = take_all(lanes, sound), pause_cases(lanes, sound)
            results.append(msgspec.structs.replace(result, turn_taking=taken, pauses=pauses))
    begun = {turn.index for turn in conversation.turns}
    unbegun: dict[int, End] = {}
    for end in sorted(conversation.ends, key=lambda end: end.t_ns):
        if end.turn not in begun and end.outcome:
            unbegun.setdefault(end.turn, end)
    results += [_never_began(end, names) for end in unbegun.values()]
    return sorted(results, key=lambda result: result.turn)


def _measure_turn(view: TurnView, limit_lateness_ms: float, names: Sequence[str]) -> TurnResult | None:
    verdict = judge(view, limit_lateness_ms)
    if verdict is None:
        return None
    replies = view.replies
    texts = replies.reply.texts if replies.reply is not None else ()
    return TurnResult(
        turn=replies.turn.index,
        turn_class=verdict.turn_class,
        outcome=verdict.outcome,
        detail=verdict.detail,
        method=replies.turn.method,
        instants_ns=dict(view.instants.at_ns),
        played_ns={str(buffer_ms): t_ns for buffer_ms, t_ns in view.instants.played_ns.items()},
        measures={name: _take(name, view) for name in names},
        kind=replies.turn.kind,
        expects_reply=replies.turn.expects_reply,
        reply_ids=[reply.id for reply in replies.all],
        false_starts=len(replies.false_starts),
        false_start_heard_ms=false_start_heard_ms(replies, view.conversation.rate_hz, view.conversation.vad),
        heard_text="".join(piece.text for piece in texts),
        flags=_flags(view, replies, verdict.outcome),
    )


def _take(name: str, view: TurnView) -> Measured:
    """One measure, whose own failure is its answer and not the end of the others."""
    turn = view.replies.turn
    if not turn.expects_reply and name not in OWN_TIME:
        metric(name)  # an unknown name is a mistake whatever the turn
        return Unavailable(f"a turn of kind {turn.kind} expects no reply")
    try:
        return metric(name).measure(view)
    except MetricUnavailable as why:
        return Unavailable(str(why))
    except (ArithmeticError, LookupError, ValueError, TypeError) as error:
        return Failed(f"{type(error).__name__}: {error}")


def _flags(view: TurnView, replies: TurnReplies, outcome: str) -> list[str]:
    """Remarks for people, each at most once."""
    flags = [f"{PROTOCOL_FAULT}: {fault}" for fault in counted_faults(faults_of(view))]
    flags += length_flags(view)
    if any(has_audio_after_done(reply) for reply in replies.all):
        flags.append("audio after done")
    if view.heard.arrivals and view.heard.onset.index is None:
        flags.append("no audible sample")
    if view.heard.onset.ignored:
        flags.append(_short_sounds(view))
    reply = replies.reply
    if reply is not None and reply.flushed_ns is not None and outcome == ANSWERED:
        flags.append("cut off though no turn of the script had begun: the server heard the user speak")
    if replies.backchannels:
        flags.append(f"the agent's backchannels: {len(replies.backchannels)}")
    if replies.others:
        flags.append(f"more replies after the one that was measured: {len(replies.others)}")
    if replies.unasked:
        flags.append("the peer spoke before the first turn")
    for end in view.conversation.ends:
        is_ours = end.turn == replies.turn.index and end.outcome != ""
        if is_ours and reply is not None and reply.done_ns is not None and end.t_ns >= reply.done_ns:
            flags.append(f"{end.outcome} {(end.t_ns - reply.done_ns) / NS_PER_MS:.0f} ms after the reply's end")
    return list(dict.fromkeys(flags))


def counted_faults(faults: Iterable[PeerFault]) -> list[str]:
    """Each fault once, with how often it came."""
    told = Counter(f"{fault.kind}: {fault.detail}" if fault.detail else fault.kind for fault in faults)
    return [fault if times == 1 else f"{fault} ({times} times)" for fault, times in told.items()]


def _short_sounds(view: TurnView) -> str:
    """A click is not speech, but people should know of it."""
    ignored, rate_hz = view.heard.onset.ignored, view.conversation.rate_hz
    first_sample, samples = ignored[0]
    others = f", and {len(ignored) - 1} more" if len(ignored) > 1 else ""
    return (
        f"sound too short for speech: {samples * 1000 / rate_hz:.0f} ms or less"
        f" at {first_sample * 1000 / rate_hz:.0f} ms into the reply{others}"
    )


def _never_began(end: End, names: Sequence[str]) -> TurnResult:
    verdict = failure_without_turn(end)
    return TurnResult(
        turn=end.turn,
        turn_class=verdict.turn_class,
        outcome=verdict.outcome,
        detail=verdict.detail,
        method="",
        instants_ns={},
        played_ns={},
        measures={name: Unavailable(NEVER_BEGAN) for name in names},
        reply_ids=[],
        false_starts=0,
        false_start_heard_ms=0.0,
        heard_text="",
        flags=[],
    )
