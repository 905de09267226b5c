"""Premature endpoints: the server took the turn, or began a reply, while the user had not finished.

An ending is the arrival of the server's word that it took the turn ("committed") or of a reply's beginning; in class D
and in audio alone, where nothing else shows it, the first sample of an agent's stretch that is no backchannel. It is
premature at or after the user's onset and before `speech_end`. An ending still owed to the turn before (which had none
between its `speech_end` and this onset, nor an answer that was heard on after its `speech_end`) is that turn's, where
it comes before this turn's first pause.

premature_endpoint = the turn has at least one.

Curve: each pause of a turn is one case. It counts as cut where a premature ending lies at or after its first sample and
before the next pause's (the last pause: before `speech_end`): in the pause, or just after it.
"""

from __future__ import annotations

from metrics.attribution import is_agent_backchannel
from metrics.result import Measured, PauseCase
from metrics.turn_taking.base import TO_BE_ANSWERED, TurnTakingMeasure, yes
from metrics.turn_taking.lanes import Lanes, Sound, Talk
from sessions.clock import NS_PER_MS


def premature_ns(lanes: Lanes, sound: Sound) -> tuple[int, ...]:
    """The turn's premature endings, in order."""
    return tuple(t_ns for t_ns in _endings_ns(lanes, sound) if sound.onset_ns <= t_ns < sound.end_ns)


def pause_cases(lanes: Lanes, sound: Sound) -> list[PauseCase]:
    """One per pause of a turn that expects a reply; none where the client alone ends turns."""
    if lanes.why_client_ends() is not None or not sound.expects_reply:
        return []
    endings = premature_ns(lanes, sound)
    ends = [*(pause.start_ns for pause in sound.pauses[1:]), sound.end_ns]
    return [
        PauseCase(pause.length_ns / NS_PER_MS, any(pause.start_ns <= t_ns < end_ns for t_ns in endings))
        for pause, end_ns in zip(sound.pauses, ends, strict=False)
    ]


def _endings_ns(lanes: Lanes, sound: Sound) -> tuple[int, ...]:
    if lanes.log is None:
        return tuple(
            heard.start_ns for heard in lanes.agent if not is_agent_backchannel(heard, sound.onset_ns, sound.end_ns)
        )
    owed_until_ns = _owed_until_ns(lanes, sound)
    return tuple(t_ns for t_ns in lanes.log.endings_ns if t_ns >= owed_until_ns)


def _owed_until_ns(lanes: Lanes, sound: Sound) -> int:
    """Up to when endings are the turn's before: this onset, or this turn's first pause where that had none yet."""
    before = [other for other in lanes.sounds if other.expects_reply and other.onset_ns < sound.onset_ns]
    if lanes.log is None or not before:
        return sound.onset_ns
    had_one = any(before[-1].end_ns <= t_ns < sound.onset_ns for t_ns in lanes.log.endings_ns)
    answer = lanes.log.answers.get(before[-1].index)
    was_answered = answer is not None and answer.created_ns < sound.onset_ns and _is_heard_after(answer, before[-1])
    if had_one or was_answered or before[-1].end_ns > sound.onset_ns:
        return sound.onset_ns
    return sound.pauses[0].start_ns if sound.pauses else sound.end_ns


def _is_heard_after(answer: Talk, sound: Sound) -> bool:
    return bool(answer.heard) and answer.heard[-1].end_ns > sound.end_ns


def _premature(lanes: Lanes, sound: Sound) -> Measured:
    return yes(bool(premature_ns(lanes, sound)))


PREMATURE = TurnTakingMeasure(
    "premature_endpoint",
    "2",
    "yes",
    "lower",
    "the server took the turn, or began a reply, before speech_end",
    TO_BE_ANSWERED,
    _premature,
    asks_server=True,
)
