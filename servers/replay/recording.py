"""From the event log of a dialogue to what a server has to do to give the same dialogue again. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from clients.events import Interpreter, ReplyAudio, ReplyEnded
from sessions import events as log
from sessions.clock import NS_PER_S
from sessions.errors import SetupError

Pcm = NDArray[np.int16]

OPEN, START, END = "open", "start", "end"
DECISIVE = frozenset({"commit", "request", START, END})
"""Stimuli that a client must give in the recorded order. It may leave others out, or add to them: what it cancels, for
one, hangs on how much it has heard."""
_LANE_CLASSES = ("B", "D")
_MEND = "`duologue check RUN` names all that is wrong with it"


@dataclass(frozen=True, slots=True)
class Utterance:
    """What the user said in a turn.

    pcm: int16 (samples,), the whole clip · last_sample: n · first_loud: the first sample that is not 0.
    """

    turn: int
    pcm: Pcm
    last_sample: int
    first_loud: int

    @property
    def spoken(self) -> Pcm:
        """Up to n: what is sent where the client ends the turn."""
        return self.pcm[: self.last_sample + 1]


@dataclass(frozen=True, slots=True)
class Stimulus:
    """Something that the client did. what: as in the package's docstring · turn: whose, where it is one turn's.

    after_ns: how long after the one before it · cuts: the server broke a reply off because of it; where it comes
    earlier than recorded, the rest of the reply's sound is not sent.
    """

    what: str
    turn: int | None = None
    after_ns: int = 0
    cuts: bool = False


@dataclass(frozen=True, slots=True)
class HangUp:
    """The server ended the connection. how: "close", "eof" or "reset"."""

    how: str
    code: int
    reason: str


@dataclass(frozen=True, slots=True)
class Answer:
    """One message of the server's, or its end of the connection. offset_ns: from the stimulus with that index.

    is_sound: it brought reply audio.
    """

    stimulus: int
    offset_ns: int
    data: bytes = b""
    binary: bool = False
    is_sound: bool = False
    hang_up: HangUp | None = None


@dataclass(frozen=True, slots=True)
class Recording:
    """A dialogue that can be given again. utterances: those with sound in them, in order."""

    name: str
    protocol: str
    protocol_class: str
    rate_hz: int
    stimuli: tuple[Stimulus, ...]
    answers: tuple[Answer, ...]
    utterances: tuple[Utterance, ...]

    @property
    def on_a_lane(self) -> bool:
        """The client's audio flows, and nothing but the audio ends a turn."""
        return self.protocol_class in _LANE_CLASSES

    def utterance(self, turn: int | None) -> Utterance | None:
        return next((one for one in self.utterances if one.turn == turn), None)


@dataclass(frozen=True, slots=True)
class _Found:
    """A stimulus in the log. line: of the message with which the server could know of it · at_ns: offsets start there.

    Lines, not instants, say what came first: an answer may come within the nanosecond of the question.
    """

    stimulus: Stimulus
    line: int
    at_ns: int


def recording_of(
    name: str,
    events: Sequence[log.AnyEvent],
    received: bytes,
    clips: Mapping[int, Pcm],
    interpreter: Interpreter,
) -> Recording:
    """The dialogue of a log, ready to be given again.

    events: in order · received: as the log's `Received` place it · clips: by turn, int16 (samples,) at the wire's
    rate · interpreter: tells which messages bring sound and which end a reply. Raises `SetupError` where there was no
    connection, or the record is damaged.
    """
    opened = next((event for event in events if isinstance(event, log.Opened)), None)
    if opened is None:
        raise SetupError(f"the log of {name} has no beginning", _MEND)
    log.must_be_readable(name, opened)
    if not any(isinstance(event, log.Connected) for event in events):
        why = next((event.detail for event in events if isinstance(event, log.GaveUp)), "no connection was made")
        raise SetupError(f"{name} has nothing to replay: {why}", "Choose a dialogue that was connected")
    utterances = _utterances(name, events, clips)
    found = _stimuli(events, utterances, opened)
    answers, cutting = _answers(name, events, received, found, interpreter)
    stimuli = [
        replace(
            one.stimulus,
            after_ns=one.at_ns - found[max(0, index - 1)].at_ns,
            cuts=one.stimulus.what == "cancel" or index in cutting,
        )
        for index, one in enumerate(found)
    ]
    return Recording(
        name=name,
        protocol=opened.protocol,
        protocol_class=opened.protocol_class,
        rate_hz=opened.rate_hz,
        stimuli=tuple(stimuli),
        answers=tuple(answers),
        utterances=tuple(utterances),
    )


def _utterances(name: str, events: Sequence[log.AnyEvent], clips: Mapping[int, Pcm]) -> list[Utterance]:
    found = []
    for event in events:
        if not isinstance(event, log.TurnStarted):
            continue
        pcm = clips.get(event.turn)
        if pcm is None or len(pcm) != event.samples:
            raise SetupError(f"the audio of turn {event.turn + 1} of {name} is not the one of its log", _MEND)
        loud = np.flatnonzero(pcm[: event.last_sample + 1])
        if len(loud):  # else a silence: nothing in it can be noticed
            found.append(Utterance(event.turn, pcm, event.last_sample, int(loud[0])))
    return found


def _stimuli(events: Sequence[log.AnyEvent], utterances: Sequence[Utterance], opened: log.Opened) -> list[_Found]:
    found = []
    for line, event in enumerate(events):
        if isinstance(event, log.Connected):
            found.append(_Found(Stimulus(OPEN), line, event.t_ns))
        elif isinstance(event, log.Sent) and event.what != "audio":
            found.append(_Found(Stimulus(event.what, event.turn), line, event.t_ns))
    if opened.protocol_class in _LANE_CLASSES:
        found += _on_the_lane(events, utterances)
    return sorted(found, key=lambda one: one.line)


def _on_the_lane(events: Sequence[log.AnyEvent], utterances: Sequence[Utterance]) -> list[_Found]:
    ready = next((event for event in events if isinstance(event, log.Ready)), None)
    if ready is None or ready.lane_start_ns is None:
        return []
    starts = {event.turn: event for event in events if isinstance(event, log.TurnStarted)}
    frames = [(line, event) for line, event in enumerate(events) if isinstance(event, log.Sent) and event.samples]
    found = []
    for one in utterances:
        turn = starts[one.turn]
        first = turn.lane_sample
        if first is None:
            first = ((turn.start_ns - ready.lane_start_ns) * turn.rate_hz + NS_PER_S // 2) // NS_PER_S
        for what, sample, at_ns in ((START, one.first_loud, turn.start_ns), (END, one.last_sample, turn.speech_end_ns)):
            line = _line_with(frames, first + sample)
            if line is not None:
                found.append(_Found(Stimulus(what, one.turn), line, at_ns))
    return found


def _line_with(frames: Sequence[tuple[int, log.Sent]], lane_sample: int) -> int | None:
    """The line of the frame that holds a sample of the lane."""
    for line, frame in frames:
        if frame.first_sample <= lane_sample < frame.first_sample + frame.samples:
            return line
    return None


def _answers(
    name: str, events: Sequence[log.AnyEvent], received: bytes, found: Sequence[_Found], interpreter: Interpreter
) -> tuple[list[Answer], set[int]]:
    """All that the server did, and which stimuli broke a reply off."""
    answers = []
    cutting = set()
    last = 0
    for line, event in enumerate(events):
        if not isinstance(event, log.Received | log.Closed):
            continue
        while last + 1 < len(found) and found[last + 1].line < line:
            last += 1
        offset_ns = max(0, event.t_ns - found[last].at_ns)
        if isinstance(event, log.Closed):
            if event.by == "peer":
                end = HangUp(event.how, event.code, event.reason)
                answers.append(Answer(last, offset_ns, hang_up=end))
            continue
        data = received[event.offset : event.offset + event.length]
        if len(data) != event.length:
            raise SetupError(f"received.bin of {name} is shorter than its log says", _MEND)
        meanings = interpreter.feed(data)
        if any(isinstance(meaning, ReplyEnded) and meaning.status == "cancelled" for meaning in meanings):
            # Where the server hears the user break in, that did it, whatever the client said after it.
            cutting |= {last, next((i for i in range(last, -1, -1) if found[i].stimulus.what == START), last)}
        is_sound = any(isinstance(meaning, ReplyAudio) for meaning in meanings)
        answers.append(Answer(last, offset_ns, data, event.binary, is_sound))
    return answers, cutting
