"""What goes out: a turn's frames when they are due, and what its kind wants before and after them."""

from __future__ import annotations

from collections import deque

from harness.dialogue.interrupting import Interrupter
from harness.dialogue.link import Link, TurnOver
from harness.dialogue.pacing import FrameTexts, Lane
from harness.dialogue.record import TurnToSpeak
from harness.dialogue.starting import Starts
from harness.dialogue.tracker import LiveTurn
from sessions.clock import NS_PER_MS, samples_to_ns
from sessions.errors import TransportError
from sessions.events import TurnStarted


class Mouth:
    """Speaks the turns of one dialogue. lane: where silence flows; None where the client ends turns."""

    def __init__(self, link: Link, texts: FrameTexts, interrupter: Interrupter, starts: Starts) -> None:
        self._link, self._texts, self._interrupter, self._starts = link, texts, interrupter, starts
        self.lane: Lane | None = None

    async def speak(self, index: int, turn: TurnToSpeak, start_ns: int) -> None:
        """Say turn `index` from `start_ns` on; return when its sound has ended. Raises `TurnOver`."""
        link = self._link
        if self.lane is not None:
            live = self._begin(index, turn, self.lane.place(index, turn.pcm, start_ns))
            await link.until(live.sound_end_ns)
        else:
            start_ns = max(start_ns, link.clock.now_ns())
            live = self._begin(index, turn, start_ns)
            if turn.kind == "interruption":
                self._interrupter.interrupt(index)
            if turn.last_sample >= 0:
                await self._say(index, turn, start_ns)
            else:  # between turns nothing is sent: a silence is a longer one of these
                live.began = True
                await link.until(live.sound_end_ns)
        live.waiting_from_ns = link.clock.now_ns()

    def _begin(self, index: int, turn: TurnToSpeak, start_ns: int) -> LiveTurn:
        rate_hz, tracker = self._link.dialect.rate_hz, self._link.tracker
        speech_end_ns = start_ns + samples_to_ns(turn.last_sample + 1, rate_hz)
        self._link.log(
            TurnStarted(
                turn=index,
                start_ns=start_ns,
                rate_hz=rate_hz,
                samples=len(turn.pcm),
                last_sample=turn.last_sample,
                speech_end_ns=speech_end_ns,
                method=turn.method,
                turn_kind=turn.kind,
                onset_sample=turn.onset_sample,
                pauses=list(turn.pauses),
                watch_ms=turn.watch_ms,
            )
        )
        live = LiveTurn(index, speech_end_ns, expects_reply=turn.expects_reply)
        live.is_unasked = self.lane is None and turn.expects_reply
        spoken = turn.last_sample + 1 if turn.last_sample >= 0 else len(turn.pcm)
        live.sound_end_ns = start_ns + samples_to_ns(spoken, rate_hz)
        if not turn.expects_reply:
            live.watched_until_ns = live.sound_end_ns + turn.watch_ms * NS_PER_MS
        tracker.turns.append(live)
        tracker.refusals_due = 0
        return live

    # ---- class A: the client ends turns ----------------------------------------------------------------------

    async def _say(self, index: int, turn: TurnToSpeak, start_ns: int) -> None:
        """The utterance up to n, then at once what follows it. Where other replies are still awaited or heard, its end
        waits for them: a server takes one request at a time."""
        link, rate_hz = self._link, self._link.dialect.rate_hz
        frames = self._texts.of_clip(turn.pcm, turn.last_sample)
        dialect = link.dialect
        messages = deque(dialect.end_of_turn(index) if turn.expects_reply else dialect.clear(index))
        is_free = not turn.expects_reply or turn.kind == "interruption"
        sent = 0
        due_ns = start_ns + samples_to_ns(frames[0].samples, rate_hz)

        def step() -> int | None:
            nonlocal sent, due_ns
            link.check()
            frame = frames[sent]
            if not link.send_frame(frame.payload, due_ns, index, frame.first_sample, frame.samples):
                return None
            sent += 1
            if sent < len(frames):
                due_ns = start_ns + samples_to_ns(frames[sent].first_sample + frames[sent].samples, rate_hz)
                return due_ns
            self._interrupter.spoken()
            while messages and (is_free or self._starts.others_are_over(index)):
                if not link.write_now(messages[0], index):
                    break
                messages.popleft()
            link.tracker.turns[-1].is_unasked = bool(messages)
            return None

        link.check()
        await link.clock.run_steps(due_ns, step)
        if sent < len(frames):  # the connection is not open any more: this tells why
            await link.send(frames[sent].payload.decode())
        if messages and not is_free:
            await self._starts.others_over(index)
        link.tracker.turns[-1].is_unasked = False
        for message in messages:
            await link.write(message, index)

    # ---- class B: silence flows ------------------------------------------------------------------------------

    async def flow(self, lane: Lane) -> None:
        """A frame at every deadline, speech or silence, until the dialogue ends."""
        link, unsent = self._link, b""

        def step() -> int | None:
            nonlocal unsent
            frame, turn = lane.next_frame()
            payload = self._texts.silence if turn is None else self._texts.render(frame.pcm)
            if link.send_frame(payload, frame.due_ns, turn, frame.first_sample, len(frame.pcm)):
                return lane.next_due_ns
            unsent = payload
            return None

        try:
            await link.clock.run_steps(lane.next_due_ns, step)
            await link.transport.send(unsent.decode())  # the connection is not open any more: this tells why
        except (TransportError, TurnOver) as error:
            if isinstance(error, TransportError) and link.lost is None:
                link.lost = error
            link.news.set()
