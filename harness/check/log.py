"""One dialogue's event log against itself and its received bytes: order, causes before effects, nothing missing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import msgspec

from clients.events import Interpreter, ReplyBegan
from harness.results.raw_record import is_far_off
from sessions import events as log
from sessions.clock import NS_PER_MS, NS_PER_S, samples_to_ns
from sessions.errors import DuologueError
from sessions.lane import LaneTimes
from sessions.runs import PlannedTurn
from sessions.scripts import RATE_HZ

Line = tuple[int, log.AnyEvent]
"""A line's number, from 1, and what it says."""
Found = tuple[int | None, str]
"""A problem: the line of events.jsonl, None for the log as a whole, and what is wrong."""

HANDED_EARLY_NS = 5 * NS_PER_MS
"""By so much more than they disagree may a device's own stamps be wrong: it cannot hand over what it has not heard."""
_decoder = msgspec.json.Decoder(log.AnyEvent)


def read_lines(data: bytes) -> tuple[list[Line], list[Found]]:
    """The lines that can be read, and what is wrong with the others."""
    lines: list[Line] = []
    problems: list[Found] = []
    for number, text in enumerate(data.splitlines(), 1):
        try:
            lines.append((number, _decoder.decode(text)))
        except (msgspec.DecodeError, msgspec.ValidationError, RecursionError) as error:
            problems.append((number, f"not an event: {error}"))
    if data and not data.endswith(b"\n"):
        problems.append((data.count(b"\n") + 1, "the line has no end: the log was cut off"))
    return lines, problems


def check_log(lines: Sequence[Line], received_bytes: int, planned: Sequence[PlannedTurn]) -> Iterator[Found]:
    """All that is wrong with a log by itself. received_bytes: length of received.bin · planned: the script's turns."""
    yield from _frame_of(lines)
    yield from _order(lines)
    yield from _connection(lines)
    yield from _messages(lines, received_bytes)
    yield from _turns(lines, planned)
    yield from _frames(lines)
    yield from _pongs(lines)


def _frame_of(lines: Sequence[Line]) -> Iterator[Found]:
    """It begins and ends as every log does."""
    if not lines:
        yield None, "the log is empty"
        return
    number, first = lines[0]
    if not isinstance(first, log.Opened):
        yield number, "the first line is not `opened`: the log's beginning is missing"
    elif first.version != log.LOG_VERSION:
        yield number, f"log version {first.version}; this program reads {log.LOG_VERSION}"
    for kind, name in (
        (log.Opened, "opened"),
        (log.Connected, "connected"),
        (log.Ready, "ready"),
        (log.Ended, "ended"),
    ):
        for number, _ in [(number, event) for number, event in lines if isinstance(event, kind)][1:]:
            yield number, f"a second `{name}`: two logs were joined"
    number, last = lines[-1]
    if not isinstance(last, log.Ended):
        yield number, "the last line is not `ended`: the log is not complete"
    elif not last.completed:
        yield number, "the dialogue was stopped in its midst, yet the journal says that it is done"


def _order(lines: Sequence[Line]) -> Iterator[Found]:
    for (_, before), (number, event) in pairwise(lines):
        if event.t_ns < before.t_ns:
            yield number, f"{before.t_ns - event.t_ns} ns before the line above it: instants out of order"
    for number, event in lines:
        if is_far_off(event, lines[0][1].t_ns):
            yield number, "an instant more than a day from the log's beginning"


def _connection(lines: Sequence[Line]) -> Iterator[Found]:
    connected = next(((number, event) for number, event in lines if isinstance(event, log.Connected)), None)
    ready = next(((number, event) for number, event in lines if isinstance(event, log.Ready)), None)
    if connected is None:
        if any(isinstance(event, log.Sent | log.Received | log.Ready) for _, event in lines):
            yield None, "messages without a connection: there is no `connected`"
        return
    if ready is not None and ready[1].t_ns < connected[1].t_ns:
        yield ready[0], "ready before the connection stood"
    for number, event in lines:
        if isinstance(event, log.Received) and event.first_ns < connected[1].t_ns:
            yield number, "the message arrived before the connection stood"
        elif isinstance(event, log.Sent) and event.t_ns < connected[1].t_ns:
            yield number, "the message was written before the connection stood"
        elif isinstance(event, log.TurnStarted) and (ready is None or event.start_ns < ready[1].t_ns):
            yield number, f"turn {event.turn + 1} began before the session was ready"


def _messages(lines: Sequence[Line], received_bytes: int) -> Iterator[Found]:
    """Each message has its place in received.bin, one after another, and nothing else is in it."""
    end = 0
    for number, event in lines:
        if not isinstance(event, log.Received):
            continue
        if event.first_ns > event.t_ns:
            yield number, "the message's first byte came after its last"
        if event.length < 0 or event.offset < end:
            yield number, f"offset {event.offset} lies within the message before it, which ends at {end}"
        elif event.offset > end:
            yield number, f"offset {event.offset} leaves a hole in received.bin after {end}"
        elif event.offset + event.length > received_bytes:
            yield number, f"received.bin has {received_bytes} bytes; the message ends at {event.offset + event.length}"
        end = max(end, event.offset + event.length)
    if end < received_bytes:
        yield None, f"received.bin has {received_bytes - end} bytes that no line accounts for"


def _turns(lines: Sequence[Line], planned: Sequence[PlannedTurn]) -> Iterator[Found]:
    begun: dict[int, int] = {}
    given_up = {event.turn for _, event in lines if isinstance(event, log.GaveUp)}
    for number, event in lines:
        if isinstance(event, log.TurnStarted):
            if event.turn in begun:
                yield number, f"turn {event.turn + 1} began already in line {begun[event.turn]}"
            begun[event.turn] = number
            yield from _turn(number, event, planned)
        elif isinstance(event, log.Flushed) and event.turn >= 0 and event.turn not in begun:
            yield number, f"the sound that caused it is of turn {event.turn + 1}, which has not begun"
    for turn in range(len(planned)):
        if turn not in begun and turn not in given_up:
            yield None, f"turn {turn + 1} of {len(planned)} neither began nor was given up"


def _turn(number: int, event: log.TurnStarted, planned: Sequence[PlannedTurn]) -> Iterator[Found]:
    name = f"turn {event.turn + 1}"
    if not 0 <= event.turn < len(planned):
        yield number, f"{name}: the plan has {len(planned)} turns"
        return
    end_ns = event.start_ns + samples_to_ns(event.last_sample + 1, event.rate_hz)
    if event.speech_end_ns != end_ns:
        yield number, f"{name}: speech_end_ns is not start_ns + (last_sample + 1) / rate, which is {end_ns}"
    if not -1 <= event.last_sample < event.samples:
        yield number, f"{name}: last_sample {event.last_sample} is not in a clip of {event.samples} samples"
    plan = planned[event.turn]
    if (event.turn_kind, event.watch_ms) != (plan.kind, plan.watch_ms):
        yield number, f"{name}: the plan has a turn of kind {plan.kind}, watched for {plan.watch_ms} ms"
    if event.rate_hz == RATE_HZ and (event.samples, event.last_sample) != (plan.samples, plan.last_sample):
        yield number, f"{name}: the plan has {plan.samples} samples with last_sample {plan.last_sample}"


@dataclass(slots=True)
class _Lane:
    """Where the next frame must begin, and where sample 0 lies. heard: of a microphone: where each lies in time, and
    which one of it is sample 0."""

    start_ns: int
    rate_hz: int
    next_sample: int = 0
    heard: tuple[LaneTimes, int] | None = None


def _frames(lines: Sequence[Line]) -> Iterator[Found]:
    """User audio leaves in order, without holes, and never before it could have been said."""
    lanes: dict[int | None, _Lane] = {}
    committed: dict[int, int] = {}
    flowing = False
    rate_hz = next((event.rate_hz for _, event in lines if isinstance(event, log.Opened)), RATE_HZ)
    times = LaneTimes.of((event for _, event in lines), rate_hz)
    for number, event in lines:
        if isinstance(event, log.Ready) and event.lane_start_ns is not None:
            lanes[None], flowing = (
                _Lane(event.lane_start_ns, rate_hz, heard=None if times is None else (times, 0)),
                True,
            )
        elif isinstance(event, log.TurnStarted):
            heard = None if times is None or event.lane_sample is None else (times, event.lane_sample)
            lanes[event.turn] = _Lane(event.start_ns, event.rate_hz, heard=heard)
            if heard is not None:
                yield from _where_it_was_heard(number, event, times)
            elif flowing:
                yield from _on_a_sample(number, event, lanes[None])
        elif isinstance(event, log.Sent) and event.what == "commit" and event.turn is not None:
            committed[event.turn] = number
        if not isinstance(event, log.Sent) or event.what != "audio":
            continue
        if not flowing and event.turn in committed:
            yield number, f"audio of turn {event.turn + 1} after its commit in line {committed[event.turn]}"
        lane = lanes.get(None if flowing else event.turn)
        if lane is None or (event.turn is not None and event.turn not in lanes):
            yield number, f"audio of turn {(event.turn or 0) + 1}, which has not begun"
            continue
        yield from _frame(number, event, lane)
        lane.next_sample = event.first_sample + event.samples


def _on_a_sample(number: int, event: log.TurnStarted, lane: _Lane) -> Iterator[Found]:
    first = ((event.start_ns - lane.start_ns) * lane.rate_hz + NS_PER_S // 2) // NS_PER_S
    if event.start_ns != lane.start_ns + samples_to_ns(first, lane.rate_hz):
        yield number, f"turn {event.turn + 1} does not begin on a sample of the lane"


def _where_it_was_heard(number: int, event: log.TurnStarted, times: LaneTimes | None) -> Iterator[Found]:
    last = (event.lane_sample or 0) + event.last_sample
    if times is not None and event.speech_end_ns != times.end_ns(last):
        yield number, f"turn {event.turn + 1} does not end where the device's stamps put sample {last} of the lane"


def _frame(number: int, event: log.Sent, lane: _Lane) -> Iterator[Found]:
    if event.first_sample != lane.next_sample:
        yield number, f"first_sample is {event.first_sample}; the frame before it ended at {lane.next_sample}"
    if event.due_ns is None:
        yield number, "a frame of audio without the instant at which it was due"
        return
    due_ns = lane.start_ns + samples_to_ns(event.first_sample + event.samples, lane.rate_hz)
    if lane.heard is not None:
        times, first = lane.heard
        early_ns = times.end_ns(first + event.first_sample + event.samples - 1) - event.due_ns
        if early_ns > HANDED_EARLY_NS + times.unsure_ns:
            yield number, f"handed over {early_ns} ns before its last sample was at the microphone"
    elif event.due_ns != due_ns:
        yield number, f"due_ns is not the end of its last sample, {due_ns}"
    if event.t_ns < event.due_ns:
        yield number, f"sent {event.due_ns - event.t_ns} ns before it was due"


def _pongs(lines: Sequence[Line]) -> Iterator[Found]:
    pinged = {event.id: event.t_ns for _, event in lines if isinstance(event, log.Pinged)}
    for number, event in lines:
        if isinstance(event, log.Ponged) and event.t_ns < pinged.get(event.id, event.t_ns + 1):
            yield number, f"a pong before its ping, {event.id}"


def check_replies(lines: Sequence[Line], received: bytes, interpreter: Interpreter) -> Iterator[Found]:
    """Replies as the messages tell them: none before what it could answer, and what was flushed was one.

    Raises nothing: bytes that cannot be interpreted are faults of the peer and belong to the record.
    """
    opened = next((event for _, event in lines if isinstance(event, log.Opened)), None)
    requests = replies = 0
    known: set[str] = set()
    early: list[Found] = []
    for number, event in lines:
        if isinstance(event, log.Sent) and event.what == "request":
            requests += 1
        elif isinstance(event, log.Flushed) and event.reply not in known:
            yield number, f"no message before it brought the reply {event.reply!r}"
        elif isinstance(event, log.Received):
            for reply in _begun(received[event.offset : event.offset + event.length], interpreter):
                known.add(reply)
                replies += 1
                if replies > requests:
                    early.append((number, f"the reply {reply!r} came before the request that it answers"))
    # One reply more than there are requests at all is a server that speaks unasked, not a stamp that cannot be.
    if opened is not None and opened.protocol_class == "A" and replies <= requests:
        yield from early


def _begun(data: bytes, interpreter: Interpreter) -> list[str]:
    try:
        return [meaning.reply for meaning in interpreter.feed(data) if isinstance(meaning, ReplyBegan)]
    except DuologueError:
        return []
