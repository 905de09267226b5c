"""One client of a replaying server: what it does is matched with the recording, and the answers leave in time."""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol, assert_never

from servers.replay.audio import BufferListener, LaneListener, OtherAudio
from servers.replay.client import ClientAudio, ClientMessage, ClientReader, Pcm, Unreadable
from servers.replay.recording import DECISIVE, OPEN, Answer, HangUp, Recording
from servers.write_log import Write, WriteLog
from sessions.clock import NS_PER_MS, NS_PER_S, Clock

_log = logging.getLogger("duologue.serve")

EARLY_NS = 20 * NS_PER_MS
"""Sound that was due so soon after it was cut off is sent all the same: no client is so early by design."""
PATIENCE_NS = 2 * NS_PER_S
"""What a client may leave out of a turn is left out when it is so much later than recorded: a reply that was broken off
then has no more to say, and a client that lets it speak waits for its end."""
_CLASSES = {
    "A": "this client ends the turns (manual)",
    "B": "the server ends the turns (server_vad)",
    "C": "each turn is a request",
    "D": "both sides speak at any time",
}


class Line(Protocol):
    """The server's end of a connection."""

    @property
    def name(self) -> str: ...

    async def send_raw(self, data: bytes, *, binary: bool) -> None:
        """Write one message as it is. Raises `ConnectionError` where the client is gone."""
        ...

    async def close(self, code: int, reason: str) -> None: ...

    def hang_up(self) -> None:
        """End the stream without a word."""
        ...

    def abort(self) -> None:
        """Break the connection."""
        ...


class ReplayConnection:
    """Gives `recording` to one client. A `servers.fronts.websocket.Connection`."""

    def __init__(
        self, recording: Recording, reader: ClientReader, clock: Clock, line: Line, write_log: WriteLog | None = None
    ) -> None:
        self._recording = recording
        self._reader = reader
        self._clock = clock
        self._line = line
        self._write_log = write_log
        self._lane = LaneListener(recording.utterances, recording.rate_hz) if recording.on_a_lane else None
        self._buffer = BufferListener(recording.utterances)
        self._other = False
        """The client's last utterance was not the recorded one, and it has been told so."""
        self._at_ns: list[int | None] = [None] * len(recording.stimuli)
        self._next = 0
        self._cut: tuple[int, int] = (0, 0)
        """The last stimulus that broke a reply off, and when it came."""
        self._news = asyncio.Event()
        self._sleep: asyncio.Task[None] | None = None
        self._player: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """The connection stands: the recording begins."""
        self._player = asyncio.create_task(self._play(), name="replay")
        self._come(self._find(OPEN) or 0, self._clock.now_ns())

    async def on_message(self, text: str, t_ns: int) -> None:
        """One text message that arrived at `t_ns`."""
        heard = self._reader.read(text)
        try:
            match heard:
                case ClientAudio():
                    self._hear(heard.pcm, t_ns)
                case ClientMessage():
                    await self._take(heard, t_ns)
                case Unreadable():
                    await self._complain(heard.problem, heard.id)
                case _:
                    assert_never(heard)
        except OtherAudio as other:
            self._other = True
            await self._complain(str(other), heard.id if isinstance(heard, ClientMessage) else "")

    async def on_disconnect(self) -> None:
        """The client is gone."""
        tasks = [task for task in (self._player, self._sleep) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # ---- the client's side -------------------------------------------------------------------------------------------

    def _hear(self, pcm: Pcm, t_ns: int) -> None:
        if self._lane is None:
            self._buffer.hear(pcm)
        elif not self._other:
            for heard in self._lane.hear(pcm, t_ns):
                index = self._find(heard.what)
                assert index is not None, "utterances come in the order of their stimuli"
                self._come(index, heard.at_ns)

    async def _take(self, message: ClientMessage, t_ns: int) -> None:
        recorded = self._recording.protocol_class
        if message.protocol_class and message.protocol_class != recorded:
            what = f"in the recording {_CLASSES[recorded]}; this client asks that {_CLASSES[message.protocol_class]}"
            await self._complain(what, message.id)
            return
        index = self._find(message.what)
        if message.what == "commit":
            said = None if index is None else self._recording.utterance(self._recording.stimuli[index].turn)
            self._other = False
            self._buffer.commit(said)
        elif message.what == "clear":
            self._buffer.clear()
        if index is not None:
            self._come(index, t_ns)
        elif message.what in DECISIVE and not (self._other and message.what == "request"):
            await self._complain(self._unexpected(message.what), message.id)
        else:
            _log.info("connection %s: %s is not in the recording here", self._line.name, message.what)

    def _find(self, what: str) -> int | None:
        """Which stimulus this is: the next of its name, if nothing comes before it that a client may not leave out."""
        for index in range(self._next, len(self._recording.stimuli)):
            if self._recording.stimuli[index].what == what:
                return index
            if self._recording.stimuli[index].what in DECISIVE:
                return None
        return None

    def _unexpected(self, what: str) -> str:
        coming = (one for one in self._recording.stimuli[self._next :] if one.what in DECISIVE)
        expected = next(coming, None)
        if expected is None:
            turns = {one.turn for one in self._recording.stimuli if one.what in DECISIVE}
            return f"a {what} after the end of the recording, which holds {len(turns)} turns"
        turn = "" if expected.turn is None else f" of turn {expected.turn + 1}"
        return f"a {what} came where the recording has the {expected.what}{turn}"

    def _come(self, index: int, t_ns: int) -> None:
        """A stimulus has come. Those that the client left out before it count as come with it."""
        for earlier in range(self._next, index + 1):
            self._at_ns[earlier] = t_ns
        self._next = index + 1
        if self._recording.stimuli[index].cuts:
            self._cut = index, t_ns
        if self._sleep is not None:
            self._sleep.cancel()
        self._news.set()

    async def _complain(self, problem: str, message_id: str) -> None:
        _log.warning("connection %s, %s: %s", self._line.name, self._recording.name, problem)
        await self._send(self._reader.complaint(problem, message_id).encode(), binary=False, kind="complaint")

    # ---- the server's side -------------------------------------------------------------------------------------------

    async def _play(self) -> None:
        """Give every answer at its time, in order."""
        for answer in self._recording.answers:
            while (due_ns := self._due_ns(answer)) is None or due_ns > self._clock.now_ns():
                if due_ns is not None:
                    await self._sleep_until(due_ns)
                else:
                    await self._stimulus(answer.stimulus)
            if not (answer.is_sound and self._is_cut(answer)):
                await self._give(answer)

    async def _stimulus(self, index: int) -> None:
        """Wait for news of a stimulus; take it as come where it is overdue and may be left out."""
        waited_for = self._recording.stimuli[self._next : index + 1]
        at_ns = self._at_ns[self._next - 1]
        if at_ns is None or any(one.what in DECISIVE or one.turn is None for one in waited_for):
            self._news.clear()
            await self._news.wait()
            return
        overdue_ns = at_ns + sum(one.after_ns for one in waited_for) + PATIENCE_NS
        await self._sleep_until(overdue_ns)
        if self._at_ns[index] is None and self._clock.now_ns() >= overdue_ns:
            self._come(index, self._clock.now_ns())

    async def _sleep_until(self, due_ns: int) -> None:
        """Until then, or until a stimulus comes."""
        self._sleep = asyncio.create_task(self._clock.sleep_until_ns(due_ns))
        await asyncio.wait({self._sleep})

    def _due_ns(self, answer: Answer) -> int | None:
        at_ns = self._at_ns[answer.stimulus]
        if at_ns is None:
            return None
        return self._cut[1] if self._is_cut(answer) else at_ns + answer.offset_ns

    def _is_cut(self, answer: Answer) -> bool:
        """It belongs to what the client broke off, and was still far off when it did."""
        index, cut_ns = self._cut
        at_ns = self._at_ns[answer.stimulus]
        return answer.stimulus < index and at_ns is not None and at_ns + answer.offset_ns > cut_ns + EARLY_NS

    async def _give(self, answer: Answer) -> None:
        if answer.hang_up is not None:
            await self._end(answer.hang_up)
        else:
            await self._send(answer.data, binary=answer.binary, kind="sound" if answer.is_sound else "message")

    async def _end(self, how: HangUp) -> None:
        if how.how == "close":
            await self._line.close(how.code, how.reason)
        elif how.how == "eof":
            self._line.hang_up()
        else:
            self._line.abort()

    async def _send(self, data: bytes, *, binary: bool, kind: str) -> None:
        if self._write_log is not None:
            self._write_log.add(Write(self._clock.now_ns(), self._line.name, kind))
        try:
            await self._line.send_raw(data, binary=binary)
        except ConnectionError:
            _log.info("connection %s: the client is gone", self._line.name)
