"""One dialogue: speak a script to a peer in real time, and log everything that is sent and heard."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

from harness.dialogue.hearing import Ears
from harness.dialogue.heartbeat import Heartbeat
from harness.dialogue.interrupting import Interrupter
from harness.dialogue.link import Link, TurnOver
from harness.dialogue.pacing import FrameTexts, Lane
from harness.dialogue.record import Performance, Record, TurnToSpeak, connected_event, outcome_of
from harness.dialogue.speaking import Mouth
from harness.dialogue.starting import Starts
from sessions.clock import NS_PER_MS, NS_PER_S, wall_time
from sessions.errors import ConnectTimeout, DuologueError
from sessions.events import Ended, Opened, Ready

LINGER_NS = 500 * NS_PER_MS
"""After the last reply's end: audio that still comes belongs to the turn and is flagged."""


class Dialogue:
    """Performs `turns` once. `record` is filled as it goes and is whole after `perform`, however that ended."""

    def __init__(self, how: Performance, turns: Sequence[TurnToSpeak]) -> None:
        self._turns = turns
        self._link = link = Link(how)
        self.record = link.record
        frame_samples = how.dialect.rate_hz * how.frame_ms // 1000
        self._frame_samples = frame_samples
        texts = how.texts or FrameTexts(how.dialect.audio, frame_samples)
        if how.dialect.protocol_class == "A":
            for turn in turns:  # rendered now, while no frame of this dialogue is due
                texts.of_clip(turn.pcm, turn.last_sample)
        self._heartbeat = how.heartbeat or Heartbeat(how.clock, how.limits.lateness_ms)
        interrupter = Interrupter(link)
        self._ears = Ears(link, interrupter, finds_onsets=any(turn.after == "onset" for turn in turns))
        self._starts = Starts(link, turns)
        self._mouth = Mouth(link, texts, interrupter, self._starts)

    async def perform(self) -> Record:
        """Connect, speak all turns, close. Peer and transport failures are recorded, never raised."""
        link, how = self._link, self._link.how
        link.log(
            Opened(
                t_ns=link.clock.now_ns(),
                wall_time=wall_time(),
                protocol=link.dialect.protocol,
                protocol_class=link.dialect.protocol_class,
                rate_hz=link.dialect.rate_hz,
                intended_ns=how.intended_ns,
            )
        )
        try:
            link.transport = await how.connect()
        except DuologueError as error:
            return self._could_not_start(error)
        link.log(connected_event(link.transport))
        if how.pings is not None:
            how.pings.join(link.transport, link.log)
        tasks = [asyncio.create_task(self._ears.read())]
        try:
            lane = await self._set_up()
            self._heartbeat.join(link.log)
            if lane is not None:
                tasks.append(asyncio.create_task(self._mouth.flow(lane)))
            await self._speak_all()
            self.record.completed = True
        except DuologueError as error:
            self._could_not_start(error)
        finally:
            await self._finish(tasks)
        return self.record

    # ---- set-up ----------------------------------------------------------------------------------------------

    async def _set_up(self) -> Lane | None:
        """The session stands then. The user's lane, where silence flows."""
        link, ears = self._link, self._ears
        for message in link.dialect.opening():
            await link.write(message)
        limit_s = link.how.limits.connect_s
        if not await link.wait(ears.ready, link.clock.now_ns() + int(limit_s * NS_PER_S)):
            raise self._set_up_timeout(limit_s)
        if ears.refused is not None:
            raise ears.refused
        if link.lost is not None:
            raise link.lost
        link.ready_ns = link.clock.now_ns()
        lane = self._begin_lane()
        self.record.set_up = True
        link.how.on_ready()
        return lane

    def _begin_lane(self) -> Lane | None:
        link = self._link
        if link.dialect.protocol_class in ("B", "D"):
            self._mouth.lane = Lane(link.ready_ns, link.dialect.rate_hz, self._frame_samples)
        lane = self._mouth.lane
        link.log(Ready(t_ns=link.ready_ns, lane_start_ns=lane.start_ns if lane else None))
        return lane

    def _set_up_timeout(self, limit_s: float) -> ConnectTimeout:
        heard = self.record.received[:80].decode(errors="replace")
        said = f"it sent only {heard!r}" if heard else "it sent nothing"
        return ConnectTimeout(
            f"connected, but the session was not set up within {limit_s:g} s: {said}",
            f"Does the server speak {self._link.dialect.protocol}?",
        )

    def _could_not_start(self, error: DuologueError) -> Record:
        """No session: every planned turn is a failure of the same kind."""
        outcome, detail = outcome_of(error)
        self.record.error = error
        for turn in range(len(self._link.tracker.turns), len(self._turns)):
            self._link.give_up(turn, outcome, detail)
        self.record.completed = True
        self._end_log()
        _forget_frames(error)
        return self.record

    def _end_log(self) -> None:
        if not self.record.events or not isinstance(self.record.events[-1], Ended):
            self._link.log(Ended(t_ns=self._link.clock.now_ns(), completed=self.record.completed))

    # ---- turns -----------------------------------------------------------------------------------------------

    async def _speak_all(self) -> None:
        link = self._link
        early_ns = 0 if self._mouth.lane is None else link.how.frame_ms * NS_PER_MS  # an utterance is placed before
        for index, turn in enumerate(self._turns):
            try:
                start_ns = await self._starts.wait(index, early_ns)
                self._starts.tell_over()
                await self._mouth.speak(index, turn, start_ns)
            except TurnOver as over:
                if over.ends_dialogue:
                    self._end_with(over, index)
                    return
                link.give_up(index, over.outcome, over.detail)
        try:
            await self._starts.end()
        except TurnOver as over:
            self._end_with(over, len(self._turns))
            return
        with contextlib.suppress(TurnOver):
            await link.until(link.clock.now_ns() + LINGER_NS)

    def _end_with(self, over: TurnOver, index: int) -> None:
        """No turn from `index` on is spoken, and no reply is waited for any more."""
        link = self._link
        failed = index if over.turn is None else over.turn
        asked = link.tracker.asked()
        pending = asked is not None and not asked.given_up and not link.tracker.answered(asked)
        if asked is not None and pending and asked.index != failed:
            link.give_up(asked.index, over.outcome, over.detail)
        link.give_up(failed, over.outcome, over.detail)
        for later in range(max(index, failed + 1), len(self._turns)):
            link.give_up(later, over.outcome, f"not reached: turn {failed + 1} ended with {over.outcome}")

    # ---- the end ---------------------------------------------------------------------------------------------

    async def _finish(self, tasks: list[asyncio.Task[None]]) -> None:
        link, transport = self._link, self._link.transport
        reader, *helpers = tasks
        for task in helpers:
            task.cancel()
        await self._heartbeat.leave(link.log)
        if link.how.pings is not None:
            await link.how.pings.leave(transport)
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
        _forget_frames(link.lost)


def _forget_frames(error: BaseException | None) -> None:
    """The frames of an error that a dialogue keeps hold the dialogue: both would stay until garbage is collected."""
    while error is not None:
        error.__traceback__ = None
        error = error.__cause__ or error.__context__
