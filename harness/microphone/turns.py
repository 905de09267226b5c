"""What a person said, as turns of a script: known when the conversation is over.

`microphone_turns/1`: an utterance of the detector is a turn. It is an interruption where the agent is being heard when
it begins, and a noise, which wants no answer, where less than 200 ms of it are heard; nobody can tell from the sound
alone whether a word in between was meant to stop the agent. Its clip begins 200 ms before what is heard of it and ends
200 ms after (class A: where the client ended the turn), never within another turn's. Where speech ends in it is said by
`speech_end/floor-1` or, where it was asked for and hears any, by another method.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from harness.microphone.conversing import SpokenTurn
from harness.microphone.device import Pcm
from sessions import audio
from sessions.audio import Clip
from sessions.clock import NS_PER_MS, samples_to_ns
from sessions.errors import BadAudio
from sessions.events import TurnStarted
from sessions.lane import LaneTimes
from sessions.runs import PlannedScript, PlannedTurn
from sessions.scripts import RATE_HZ
from sessions.speech_end import FLOOR_1, FindEnd

NAME: Final = "microphone"
TAIL_MS: Final = 200


@dataclass(frozen=True, slots=True)
class Said:
    """A turn for the log and for the plan. clip: at the plan's 24 kHz."""

    started: TurnStarted
    planned: PlannedTurn
    clip: Clip


@dataclass(frozen=True, slots=True)
class Lane:
    """What the microphone heard, int16 (samples,) at times.rate_hz, and when. manual: the client ended the turns."""

    pcm: Pcm
    times: LaneTimes
    manual: bool


def said(lane: Lane, turns: Sequence[SpokenTurn], find_end: FindEnd | None) -> list[Said]:
    """find_end: says where speech ends, None for `speech_end/floor-1`."""
    following = [*(turn.first for turn in turns[1:]), len(lane.pcm)][: len(turns)]
    return [_said(lane, turn, until, find_end) for turn, until in zip(turns, following, strict=True)]


def script_of(turns: Sequence[Said], planned: PlannedScript) -> PlannedScript:
    """The plan's script with what was said."""
    names = "\n".join(turn.planned.audio for turn in turns)
    sha256 = hashlib.sha256(f"{NAME}\n{names}".encode()).hexdigest()
    return PlannedScript(
        name=planned.name,
        sha256=sha256,
        language=planned.language,
        instructions=planned.instructions,
        turns=[turn.planned for turn in turns],
    )


def _said(lane: Lane, turn: SpokenTurn, until: int, find_end: FindEnd | None) -> Said:
    rate_hz, utterance = lane.times.rate_hz, turn.utterance
    stop = turn.first + turn.sent if lane.manual else min(until, utterance.stop + TAIL_MS * rate_hz // 1000)
    pcm = lane.pcm[turn.first : stop]
    last, method = _speech_end(pcm, turn, rate_hz, None if turn.is_noise else find_end)
    end_ns = lane.times.end_ns(turn.first + last)
    pauses = [(first - turn.first, samples) for first, samples in utterance.pauses]
    kind = "noise" if turn.is_noise else turn.kind
    started = TurnStarted(
        turn=turn.index,
        start_ns=end_ns - samples_to_ns(last + 1, rate_hz),
        rate_hz=rate_hz,
        samples=len(pcm),
        last_sample=last,
        speech_end_ns=end_ns,
        method=method,
        turn_kind=kind,
        onset_sample=min(utterance.first - turn.first, last),
        pauses=[one for one in pauses if sum(one) <= last],
        lane_sample=turn.first,
    )
    clip = Clip(audio.resample(pcm, rate_hz, RATE_HZ), RATE_HZ)
    return Said(started, _planned(started, clip, turn), clip)


def _speech_end(pcm: Pcm, turn: SpokenTurn, rate_hz: int, find_end: FindEnd | None) -> tuple[int, str]:
    if find_end is not None:
        try:
            found = find_end(pcm, rate_hz, name=f"turn {turn.index + 1}")
        except BadAudio:  # to this method nothing in it is speech
            pass
        else:
            return found.index_samples, found.method
    return turn.utterance.stop - turn.first - 1, FLOOR_1


def _planned(started: TurnStarted, clip: Clip, turn: SpokenTurn) -> PlannedTurn:
    def ours(sample: int) -> int:
        return audio.source_index_to_out(sample, started.rate_hz, RATE_HZ)

    return PlannedTurn(
        audio=audio.sha256(clip),
        samples=len(clip.pcm),
        last_sample=min(ours(started.last_sample), len(clip.pcm) - 1),
        method=started.method,
        start_after=turn.after,
        gap_ms=round(turn.gap_ns / NS_PER_MS),
        kind=started.turn_kind,
        onset_sample=started.onset_sample * RATE_HZ // started.rate_hz,
        pauses=[(first * RATE_HZ // started.rate_hz, ours(samples - 1) + 1) for first, samples in started.pauses],
        watch_ms=started.watch_ms,
    )
