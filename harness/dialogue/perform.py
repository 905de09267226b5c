"""One dialogue: speak a script to a peer in real time, and log everything that is sent and heard."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from clients.dialect import Outgoing
from clients.events import Interpreter, PeerEvent, ReplyAudio, ReplyText
from clients.transports import KEEPALIVE_S, Transport
from harness.dialogue.heartbeat import Heartbeat
from harness.dialogue.pacing import FrameTexts, Lane
from harness.dialogue.record import Performance, Record, TurnToSpeak, closed_event, connected_event, outcome_of
from harness.dialogue.split_secrets import TextGuard
from harness.dialogue.tracker import LiveReply, LiveTurn, Tracker
from sessions.clock import NS_PER_MS, NS_PER_S, TimerWheel, samples_to_ns, wall_time
from sessions.errors import (
    ConnectTimeout,
    DuologueError,
    PeerDoesNotRead,
    PeerError,
    TransportError,
)
from sessions.events import (
    AnyEvent,
    Ended,
    GaveUp,
    Opened,
    Ready,
    Sent,
    TurnStarted,
)

Pcm = NDArray[np.int16]

LINGER_NS = 500 * NS_PER_MS
"""After the last reply's end: audio that still comes belongs to the turn and is flagged."""
COMPLAINT_NS = 5 * NS_PER_S
"""An error that names no message of ours, and nothing after it: it was the answer."""
_NO_NEWS = (ReplyAudio, ReplyText)
"""They change nothing that anybody waits for."""
_LARGE_MESSAGE_BYTES = 256 * 1024
_MESSAGES_PER_BREATH = 16


class _TurnOver(Exception):
    """The turn cannot go on; ends_dialogue: neither can the dialogue."""

    def __init__(self, outcome: str, detail: str, *, ends_dialogue: bool) -> None:
        super().__init__(outcome)
        self.outcome, self.detail, self.ends_dialogue = outcome, detail, ends_dialogue


class Dialogue:
    """Performs `turns` once. `record` is filled as it goes and is whole after `perform`, however that ended."""

    def __init__(self, how: Performance, turns: Sequence[TurnToSpeak]) -> None:
        self._how = how
        self._turns = turns
        self._clock = how.clock if isinstance(how.clock, TimerWheel) else TimerWheel(how.clock)
        self._dialect = how.dialect
        self._frame_samples = how.dialect.rate_hz * how.frame_ms // 1000
        self._texts = how.texts or FrameTexts(how.dialect.audio, self._frame_samples)
        self._heartbeat = how.heartbeat or Heartbeat(how.clock, how.limits.lateness_ms)
        if how.dialect.protocol_class == "A":
            for turn in turns:  # rendered now, while no frame of this dialogue is due
                self._texts.of_clip(turn.pcm, turn.last_sample)
        self._interpreter: Interpreter = how.dialect.interpreter()
        self._tracker = Tracker(how.dialect.rate_hz)
        self._news = asyncio.Event()
        self._lost: TransportError | None = None
        self._ready = asyncio.Event()
        self._refused: PeerError | None = None
        self._lane: Lane | None = None
        self.record = Record()
        self._guard = TextGuard(how.secrets, self.record.messages)
        self._interpreting = False

    async def perform(self) -> Record:
        """Connect, speak all turns, close. Peer and transport failures are recorded, never raised."""
        self._log(
            Opened(
                t_ns=self._clock.now_ns(),
                wall_time=wall_time(),
                protocol=self._dialect.protocol,
                protocol_class=self._dialect.protocol_class,
                rate_hz=self._dialect.rate_hz,
                intended_ns=self._how.intended_ns,
            )
        )
        try:
            transport = await self._how.connect()
        except DuologueError as error:
            return self._could_not_start(error)
        self._log(connected_event(transport))
        if self._how.pings is not None:
            self._how.pings.join(transport, self._log)
        tasks = [asyncio.create_task(self._read(transport))]
        try:
            await self._set_up(transport)
            self._heartbeat.join(self._log)
            if self._lane is not None:
                tasks.append(asyncio.create_task(self._send_lane(transport, self._lane)))
            await self._speak_all(transport)
            self.record.completed = True
        except DuologueError as error:
            self._could_not_start(error)
        finally:
            await self._finish(transport, tasks)
        return self.record

    # ---- set-up ----------------------------------------------------------------------------------------------

    async def _set_up(self, transport: Transport) -> None:
        for message in self._dialect.opening():
            await self._write(transport, message)
        limit_s = self._how.limits.connect_s
        if not await self._wait(self._ready, self._clock.now_ns() + int(limit_s * NS_PER_S)):
            raise self._set_up_timeout(limit_s)
        if self._refused is not None:
            raise self._refused
        if self._lost is not None:
            raise self._lost
        now_ns = self._clock.now_ns()
        if self._dialect.protocol_class in ("B", "D"):
            self._lane = Lane(now_ns, self._dialect.rate_hz, self._frame_samples)
        self._log(Ready(t_ns=now_ns, lane_start_ns=now_ns if self._lane else None))
        self.record.set_up = True
        self._how.on_ready()

    def _set_up_timeout(self, limit_s: float) -> ConnectTimeout:
        heard = self.record.received[:80].decode(errors="replace")
        said = f"it sent only {heard!r}" if heard else "it sent nothing"
        return ConnectTimeout(
            f"connected, but the session was not set up within {limit_s:g} s: {said}",
            f"Does the server speak {self._dialect.protocol}?",
        )

    def _could_not_start(self, error: DuologueError) -> Record:
        """No session: every planned turn is a failure of the same kind."""
        now_ns = self._clock.now_ns()
        outcome, detail = outcome_of(error)
        self.record.error = error
        reached = len(self._tracker.turns)
        for turn in range(reached, len(self._turns)):
            self.record.gave_up.append(outcome)
            self._log(GaveUp(t_ns=now_ns, turn=turn, outcome=outcome, detail=self._how.secrets.mask(detail)))
        self.record.completed = True
        self._end_log()
        _forget_frames(error)
        return self.record

    def _end_log(self) -> None:
        if not self.record.events or not isinstance(self.record.events[-1], Ended):
            self._log(Ended(t_ns=self._clock.now_ns(), completed=self.record.completed))

    # ---- turns -----------------------------------------------------------------------------------------------

    async def _speak_all(self, transport: Transport) -> None:
        for index in range(len(self._turns)):
            try:
                await self._turn(transport, index)
            except _TurnOver as over:
                self._give_up(index, over.outcome, over.detail)
                if over.ends_dialogue:
                    for later in range(index + 1, len(self._turns)):
                        self._give_up(later, over.outcome, f"not reached: turn {index + 1} ended with {over.outcome}")
                    return
            self._how.on_turn(index, self._tracker)
        with contextlib.suppress(_TurnOver):
            await self._until_lost(self._clock.now_ns() + LINGER_NS)

    def _give_up(self, turn: int, outcome: str, detail: str) -> None:
        masked = self._how.secrets.mask(detail)
        self.record.gave_up.append(outcome)
        self._log(GaveUp(t_ns=self._clock.now_ns(), turn=turn, outcome=outcome, detail=masked))

    async def _turn(self, transport: Transport, index: int) -> None:
        turn = self._turns[index]
        start_ns = self._start_of(index)
        if self._lane is not None:
            await self._until_lost(start_ns - self._how.frame_ms * NS_PER_MS)
            start_ns = self._lane.place(index, turn.pcm, start_ns)
            live = self._begin(index, turn, start_ns)
            await self._until_lost(live.speech_end_ns)
        else:
            await self._until_lost(start_ns)
            start_ns = max(start_ns, self._clock.now_ns())
            live = self._begin(index, turn, start_ns)
            await self._speak(transport, index, turn, start_ns)
        live.waiting_from_ns = self._clock.now_ns()
        await self._reply_over(transport, live)

    def _start_of(self, index: int) -> int:
        now_ns = self._clock.now_ns()
        heard_ns = self._tracker.heard_until_ns(index - 1) if index else now_ns
        return max(now_ns, heard_ns + self._turns[index].gap_ns)

    def _begin(self, index: int, turn: TurnToSpeak, start_ns: int) -> LiveTurn:
        rate_hz = self._dialect.rate_hz
        speech_end_ns = start_ns + samples_to_ns(turn.last_sample + 1, rate_hz)
        self._log(
            TurnStarted(
                turn=index,
                start_ns=start_ns,
                rate_hz=rate_hz,
                samples=len(turn.pcm),
                last_sample=turn.last_sample,
                speech_end_ns=speech_end_ns,
                method=turn.method,
            )
        )
        live = LiveTurn(index, speech_end_ns)
        self._tracker.turns.append(live)
        return live

    async def _speak(self, transport: Transport, index: int, turn: TurnToSpeak, start_ns: int) -> None:
        """Manual turns: the utterance up to n, then its end-of-turn messages at once."""
        rate_hz = self._dialect.rate_hz
        frames = self._texts.of_clip(turn.pcm, turn.last_sample)
        messages = deque(self._dialect.end_of_turn(index))
        sent = 0

        def due_ns() -> int:
            return start_ns + samples_to_ns(frames[sent].first_sample + frames[sent].samples, rate_hz)

        def step() -> int | None:
            nonlocal sent
            if self._lost is not None:
                raise self._over(self._lost)
            frame = frames[sent]
            if not self._send_frame(transport, frame.payload, due_ns(), index, frame.first_sample, frame.samples):
                return None
            sent += 1
            if sent < len(frames):
                return due_ns()
            while messages and self._write_now(transport, messages[0], index):
                messages.popleft()
            return None

        if self._lost is not None:
            raise self._over(self._lost)
        await self._clock.run_steps(due_ns(), step)
        if sent < len(frames):  # the connection is not open any more: this tells why
            await self._send(transport, frames[sent].payload.decode())
        for message in messages:
            await self._write(transport, message, index)

    async def _send_lane(self, transport: Transport, lane: Lane) -> None:
        """Class B: a frame at every deadline, speech or silence, until the dialogue ends."""
        unsent = b""

        def step() -> int | None:
            nonlocal unsent
            frame, turn = lane.next_frame()
            payload = self._texts.silence if turn is None else self._texts.render(frame.pcm)
            if self._send_frame(transport, payload, frame.due_ns, turn, frame.first_sample, len(frame.pcm)):
                return lane.next_due_ns
            unsent = payload
            return None

        try:
            await self._clock.run_steps(lane.next_due_ns, step)
            await transport.send(unsent.decode())  # the connection is not open any more: this tells why
        except (TransportError, _TurnOver) as error:
            if isinstance(error, TransportError) and self._lost is None:
                self._lost = error
            self._news.set()

    def _send_frame(
        self, transport: Transport, payload: bytes, due_ns: int, turn: int | None, first_sample: int, samples: int
    ) -> bool:
        """Write one frame and log it; False where the connection is not open. Raises `_TurnOver` if nobody reads."""
        t_ns = transport.send_now(payload)
        if t_ns is None:
            return False
        buffered, size = transport.buffered_bytes, len(payload)
        tracker = self._tracker
        if t_ns - due_ns > tracker.late_max_ns:
            tracker.late_max_ns = t_ns - due_ns
        self.record.events.append(
            Sent(
                t_ns=t_ns,
                what="audio",
                bytes=size,
                due_ns=due_ns,
                turn=turn,
                first_sample=first_sample,
                samples=samples,
                buffered_bytes=buffered,
            )
        )
        if turn is not None:
            tracker.turns[-1].began = True
        if buffered and buffered > self._how.limits.unread_ms * size * self._dialect.rate_hz / (samples * 1000):
            self._lost = PeerDoesNotRead(f"{buffered} bytes of audio wait unread in our write buffer")
            transport.abort()
            raise self._over(self._lost)
        return True

    def _write_now(self, transport: Transport, message: Outgoing, turn: int) -> bool:
        t_ns = transport.send_now(message.text.encode())
        if t_ns is not None:
            self._log(Sent(t_ns=t_ns, what=message.what, bytes=len(message.text), turn=turn))
        return t_ns is not None

    async def _write(self, transport: Transport, message: Outgoing, turn: int | None = None) -> None:
        t_ns = await self._send(transport, message.text)
        self._log(Sent(t_ns=t_ns, what=message.what, bytes=len(message.text), turn=turn))

    async def _send(self, transport: Transport, text: str) -> int:
        try:
            return await transport.send(text)
        except TransportError as error:
            self._lost = self._lost or error
            if not self.record.set_up:
                raise
            raise self._over(self._lost) from error

    # ---- waiting ---------------------------------------------------------------------------------------------

    async def _reply_over(self, transport: Transport, turn: LiveTurn) -> None:
        """Return when the turn's reply has ended; raise `_TurnOver` when it never will."""
        limits = self._how.limits
        assert turn.waiting_from_ns is not None
        last_ns = turn.waiting_from_ns + int(limits.reply_s * NS_PER_S)
        while not self._tracker.answered(turn):
            if turn.refusal is not None:
                code = turn.refusal.code
                outcome = "rate limit" if "rate" in code else "refused"
                raise _TurnOver(outcome, f"{turn.refusal.detail} [{code}]", ends_dialogue=False)
            if self._lost is not None:
                raise self._over(self._lost)
            idle_ns = max(turn.waiting_from_ns, self._tracker.last_message_ns) + int(limits.idle_s * NS_PER_S)
            until_ns = min(last_ns, idle_ns)
            if turn.complaint is not None and not self._tracker.of_turn(turn.index):
                until_ns = min(until_ns, turn.complaint[0] + COMPLAINT_NS)
            if self._clock.now_ns() >= until_ns:
                raise self._gave_up(transport, turn)
            self._news.clear()
            await self._wait(self._news, until_ns)

    def _gave_up(self, transport: Transport, turn: LiveTurn) -> _TurnOver:
        limits = self._how.limits
        now_ns = self._clock.now_ns()
        replies = self._tracker.of_turn(turn.index)
        if turn.complaint is not None and not replies:
            fault = turn.complaint[1]
            return _TurnOver("refused", f"{fault.detail} [{fault.code}]", ends_dialogue=True)
        waited = f"waited {limits.idle_s:g} s without a message, or {limits.reply_s:g} s in all"
        quiet_s = (now_ns - transport.last_sign_ns) / NS_PER_S
        if quiet_s >= limits.idle_s:
            detail = f"no sign of life for {limits.idle_s:g} s"
            if limits.idle_s >= 2 * KEEPALIVE_S:  # else no pong was due yet
                detail += ", not even a pong"
            return _TurnOver("no end event" if _has_come(replies) else "time-out", detail, ends_dialogue=True)
        if _has_come(replies):
            return _TurnOver("no end event", f"a reply came, its end did not: {waited}", ends_dialogue=True)
        detail = f"alive, but no reply: {waited}"
        if self._dialect.protocol_class == "B":
            detail += "; its voice detection may not have noticed the end of the turn"
        return _TurnOver("time-out", detail, ends_dialogue=True)

    async def _until_lost(self, until_ns: int) -> None:
        """Wait for an instant. Raises `_TurnOver` if the connection is lost."""
        if self._lost is not None:
            raise self._over(self._lost)
        await self._clock.sleep_until_ns(until_ns)
        if self._lost is not None:
            raise self._over(self._lost)

    def _over(self, error: TransportError) -> _TurnOver:
        outcome, detail = outcome_of(error)
        return _TurnOver(outcome, detail, ends_dialogue=True)

    async def _wait(self, event: asyncio.Event, until_ns: int) -> bool:
        """Whether the event came. If this process itself overslept, what came meanwhile is yet to be read: then it
        waits once more, for as long as it was late."""
        if await _came(event, until_ns - self._clock.now_ns()):
            return True
        late_ns = self._clock.now_ns() - until_ns
        return late_ns > self._how.limits.lateness_ms * NS_PER_MS and await _came(event, late_ns)

    # ---- hearing ---------------------------------------------------------------------------------------------

    async def _read(self, transport: Transport) -> None:
        """Log and interpret every message until the connection ends."""
        count = 0
        transport.offer(self._take_more_audio)
        try:
            while True:
                message = await transport.receive()
                data = self._how.secrets.mask_bytes(message.data)  # nobody sees what the record does not hold
                self.record.keep(data, message.t_ns, message.first_ns, message.binary)
                self._interpreting = True
                await self._interpret(transport, data, message.t_ns)
                self._interpreting = False
                count += 1
                if count % _MESSAGES_PER_BREATH == 0:
                    await asyncio.sleep(0)  # a burst of messages must not hold up the frames that are due
        except TransportError as error:
            self._lost = self._lost or error  # where we hung up ourselves, our own reason stands
            self._log(closed_event(self._lost, self._clock.now_ns(), self._how.secrets))
        self._ready.set()
        self._news.set()

    def _take_more_audio(self, data: bytes, t_ns: int, first_ns: int, binary: bool) -> bool:
        """Nearly all messages are more audio of a reply that is heard already: they wake nobody and are not decoded."""
        if self._interpreting:
            return False
        more = self._interpreter.more_audio(data)
        if more is None:
            return False
        reply = self._tracker.replies.get(more[0])
        if reply is None or reply.first_audio_ns is None:
            return False
        self.record.keep(self._how.secrets.mask_bytes(data), t_ns, first_ns, binary)
        self._tracker.last_message_ns = t_ns
        reply.hear(more[1], t_ns, self._dialect.rate_hz)
        return True

    async def _interpret(self, transport: Transport, data: bytes, t_ns: int) -> None:
        self._tracker.last_message_ns = t_ns
        if len(data) > _LARGE_MESSAGE_BYTES:
            events = await asyncio.to_thread(self._interpreter.feed, data)
        else:
            events = self._interpreter.feed(data)
        for event in events:
            if not isinstance(event, _NO_NEWS):
                self._news.set()
            if isinstance(event, ReplyText):
                self._guard.heard(event.reply, event.text)
            if self._ready.is_set():
                self._tracker.apply(event, t_ns)
            else:
                await self._set_up_step(transport, event)

    async def _set_up_step(self, transport: Transport, event: PeerEvent) -> None:
        try:
            messages, ready = self._dialect.set_up(event)
            for outgoing in messages:
                await self._write(transport, outgoing)
        except PeerError as refused:
            self._refused, ready = refused, True  # reading goes on: how the connection ends belongs to the record
        if ready:
            self._ready.set()

    # ---- the end ---------------------------------------------------------------------------------------------

    async def _finish(self, transport: Transport, tasks: list[asyncio.Task[None]]) -> None:
        reader, *helpers = tasks
        for task in helpers:
            task.cancel()
        await self._heartbeat.leave(self._log)
        if self._how.pings is not None:
            await self._how.pings.leave(transport)
        if self.record.completed:
            await transport.close()
        else:
            transport.abort()
            reader.cancel()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):
                await asyncio.gather(*tasks, return_exceptions=True)
        reader.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._end_log()
        transport.release()
        _forget_frames(self._lost)

    def _log(self, event: AnyEvent) -> None:
        self.record.events.append(event)


def _forget_frames(error: BaseException | None) -> None:
    """The frames of an error that a dialogue keeps hold the dialogue: both would stay until garbage is collected."""
    while error is not None:
        error.__traceback__ = None
        error = error.__cause__ or error.__context__


async def _came(event: asyncio.Event, within_ns: int) -> bool:
    try:
        async with asyncio.timeout(max(0, within_ns) / NS_PER_S):
            await event.wait()
    except TimeoutError:
        return False
    return True


def _has_come(replies: Sequence[LiveReply]) -> bool:
    """Whether anything of a reply came, sound or words: what fails then is its end."""
    return any(reply.first_audio_ns is not None or reply.text for reply in replies)
