"""One recording measured: who spoke when, what each of the user's turns came to, how the time was shared.

What the recording's end cuts off is not known: a turn without an answer, less than 2 s before the end, was not missed;
an agent that speaks into the end did not stop.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from harness.analyze.hearing import Heard
from harness.analyze.labels import SHORT, Label
from harness.analyze.result import AudioTurn, LaneResult, SampleResult, Shares
from harness.analyze.turns import Turn, turns_of
from metrics.result import Measured, PauseCase, TurnResult, Unavailable, Value
from metrics.spans import Span, common_ns, joined
from metrics.turn_taking.base import TO_BE_ANSWERED
from metrics.turn_taking.endpoints import pause_cases
from metrics.turn_taking.false_interruptions import ANSWERED, FALSE_INTERRUPTION
from metrics.turn_taking.lanes import Lanes, Sound
from metrics.turn_taking.responses import LATE_NS, NO_ANSWER
from metrics.turn_taking.table import take_all
from sessions.clock import NS_PER_MS

VOICE_TO_VOICE: Final = "voice_to_voice_ms"
STOPPED: Final = "agent_stopped"
FOLLOWED: Final = "agent_followed"
LANE_SHARES: Final = "lane_shares/1"
ENDS_FIRST: Final = f"the recording ends within {LATE_NS // NS_PER_MS} ms of it"
ENDS_IN_SPEECH: Final = "the recording ends while the agent speaks"
_NO_ANSWER_YET: Final = ("responded", "missed")
_STOPS: Final = {"barge_in_stop_ms": None, "interruption_ignored": 0.0, "false_interruption": 1.0, STOPPED: 1.0}
"""Measure → the value that says that the agent stopped, None for any."""
_QUIETS: Final = ("answered_backchannel", "stayed_quiet", "reprompt_ms", FOLLOWED)
_GRAIN_NS: Final = 40 * NS_PER_MS
"""What ends less than a detector's frame before the recording ends with it."""
_SHORTER_NS: Final = 100 * NS_PER_MS


@dataclass(frozen=True, slots=True)
class MeasuredSample:
    """result: for the file · turns: for the totals, short sounds left out."""

    result: SampleResult
    turns: tuple[TurnResult, ...]


def measure_sample(
    name: str, user: Heard, agent: Heard, labels: Sequence[Label], *, pause_ns: int, uncertain_ns: int
) -> MeasuredSample:
    """Measure one recording. uncertain_ns: overlaps shorter than this are within the detector's own error."""
    spoken = joined(agent.stretches)
    turns = turns_of(user.stretches, spoken, labels, pause_ns=pause_ns)
    lanes = Lanes("", tuple(turn.sound for turn in turns), spoken)
    duration_ns = max(user.duration_ns, agent.duration_ns)
    audio_turns = [_turn(lanes, turn, duration_ns, uncertain_ns) for turn in turns]
    result = SampleResult(
        name=name,
        duration_ms=duration_ns / NS_PER_MS,
        user=_lane(user),
        agent=_lane(agent),
        shares=shares(user.stretches, spoken, duration_ns),
        turns=audio_turns,
        notes=[*user.notes(), *agent.notes(), *_notes(user, agent, labels)],
    )
    pairs = zip(turns, audio_turns, strict=True)
    return MeasuredSample(
        result, tuple(_for_totals(lanes, turn, found) for turn, found in pairs if found.kind != SHORT)
    )


def shares(user: Sequence[Span], agent: Sequence[Span], duration_ns: int) -> Shares:
    """`lane_shares/1`. user, agent: stretches within the recording, those of one lane apart from each other."""
    of_user, of_agent = (sum(one.length_ns for one in lane) for lane in (user, agent))
    both = common_ns(user, agent)
    together = joined([*user, *agent], quiet_ns=0)
    gaps = [after.start_ns - one.end_ns for one, after in pairwise(together)]
    figures = (of_user - both, of_agent - both, both, duration_ns - of_user - of_agent + both, max(gaps, default=0))
    return Shares(*(figure / NS_PER_MS for figure in figures))


def _turn(lanes: Lanes, turn: Turn, duration_ns: int, uncertain_ns: int) -> AudioTurn:
    sound = turn.sound
    answer_ns = lanes.answer_ns(sound) if sound.expects_reply else None
    measures = _measures(lanes, sound, answer_ns) | _cut_off(lanes, sound, answer_ns, duration_ns)
    return AudioTurn(
        turn=sound.index,
        kind=sound.kind,
        kind_by="label" if turn.labelled else "audio",
        is_heard=turn.is_heard,
        onset_ns=sound.onset_ns,
        end_ns=sound.end_ns,
        pauses_ns=[(pause.start_ns, pause.end_ns) for pause in sound.pauses],
        answer_ns=answer_ns,
        measures=measures,
        flags=_flags(lanes, turn, uncertain_ns),
    )


def _measures(lanes: Lanes, sound: Sound, answer_ns: int | None) -> dict[str, Measured]:
    if sound.kind == SHORT:
        held = lanes.is_agent_audible_at(sound.onset_ns)
        return {STOPPED: FALSE_INTERRUPTION.figure(lanes, sound)} if held else {FOLLOWED: ANSWERED.figure(lanes, sound)}
    found: dict[str, Measured] = {}
    if sound.expects_reply:
        found[VOICE_TO_VOICE] = (
            Unavailable(NO_ANSWER) if answer_ns is None else Value((answer_ns - sound.end_ns) / NS_PER_MS)
        )
    return found | take_all(lanes, sound)


def _cut_off(lanes: Lanes, sound: Sound, answer_ns: int | None, duration_ns: int) -> dict[str, Measured]:
    """What the recording's end keeps from being known, instead of what was measured."""
    why: dict[str, str] = {}
    is_last = sound.expects_reply and answer_ns is None and lanes.until_ns(sound) is None
    if is_last and duration_ns - sound.end_ns < LATE_NS:
        why |= dict.fromkeys(_NO_ANSWER_YET, ENDS_FIRST)
    held = next((stretch for stretch in lanes.agent if stretch.holds(sound.onset_ns)), None)
    has = _measures(lanes, sound, answer_ns)
    if held is not None and duration_ns - held.end_ns < _GRAIN_NS:
        values = {name: measured.value for name in _STOPS if isinstance(measured := has.get(name), Value)}
        stopped = [name for name, value in values.items() if _STOPS[name] in (None, value)]
        why |= dict.fromkeys(stopped, ENDS_IN_SPEECH)
    spoke = any(sound.start_ns <= stretch.start_ns < lanes.watched_until_ns(sound) for stretch in lanes.agent)
    if not sound.expects_reply and not spoke and lanes.watched_until_ns(sound) > duration_ns:
        why |= dict.fromkeys(_QUIETS, ENDS_FIRST)
    return {name: Unavailable(reason) for name, reason in why.items() if isinstance(has.get(name), Value)}


def _flags(lanes: Lanes, turn: Turn, uncertain_ns: int) -> list[str]:
    sound, flags = turn.sound, []
    if not turn.is_heard and sound.kind != "silence":
        flags.append("the detector finds no speech there: its instants are the label's")
    held = next((stretch for stretch in lanes.agent if stretch.holds(sound.onset_ns)), None)
    if held is None:
        return flags
    if held.end_ns - sound.onset_ns < uncertain_ns:
        flags.append("began over the agent by less than the detector's own error")
    if any(held.end_ns < stretch.start_ns < sound.end_ns for stretch in lanes.agent):
        flags.append("the agent stopped, and spoke again before the user had finished")
    return flags


def _notes(user: Heard, agent: Heard, labels: Sequence[Label]) -> list[str]:
    notes = []
    shorter, longer = sorted((user, agent), key=lambda heard: heard.duration_ns)
    if longer.duration_ns - shorter.duration_ns > _SHORTER_NS:
        by_s = (longer.duration_ns - shorter.duration_ns) / (1000 * NS_PER_MS)
        notes.append(f"the {shorter.lane.side}'s lane is {by_s:.1f} s shorter; what it lacks counts as quiet")
    noted = [label.span for label in labels if label.kind in TO_BE_ANSWERED]
    if common_ns(noted, agent.stretches) > common_ns(noted, user.stretches):
        notes.append("where the labels say that the user speaks, the agent's lane does: the lanes may be swapped")
    return notes


def _lane(heard: Heard) -> LaneResult:
    call = heard.lane.call
    return LaneResult(
        file=str(call.path),
        channel=heard.lane.number,
        rate_hz=call.rate_hz,
        samples=call.samples,
        speech_ms=heard.speech_ns / NS_PER_MS,
        clipped=heard.clipped,
        stretches_ns=[(stretch.start_ns, stretch.end_ns) for stretch in heard.stretches],
    )


def _for_totals(lanes: Lanes, turn: Turn, found: AudioTurn) -> TurnResult:
    """The same turn as a run's, without what only a run has."""
    latencies = {name: value for name, value in found.measures.items() if name == VOICE_TO_VOICE}
    pauses: list[PauseCase] = pause_cases(lanes, turn.sound)
    return TurnResult(
        turn=found.turn,
        turn_class="completed",
        outcome="answered" if found.answer_ns is not None else "not answered",
        detail="",
        method="",
        instants_ns={"speech_end": found.end_ns},
        played_ns={},
        measures=latencies,
        reply_ids=[],
        false_starts=0,
        false_start_heard_ms=0.0,
        heard_text="",
        flags=[],
        kind=found.kind,
        expects_reply=turn.sound.expects_reply,
        turn_taking={name: value for name, value in found.measures.items() if name not in latencies},
        pauses=pauses,
    )
