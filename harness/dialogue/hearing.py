"""What comes in: each message is logged, then told to the tracker; the onsets that turns wait for are found."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from clients.dialect import Outgoing
from clients.events import Interpreter, Pcm, PeerEvent, ReplyAudio, ReplyBegan, ReplyEnded, ReplyText, UserSpeech
from harness.dialogue.interrupting import Interrupter
from harness.dialogue.link import Link
from harness.dialogue.onset import OnsetFinder
from harness.dialogue.record import closed_event
from harness.dialogue.split_secrets import TextGuard
from sessions.errors import PeerError, TransportError

_NO_NEWS = (ReplyAudio, ReplyText)
"""They change nothing that anybody waits for."""
_LARGE_MESSAGE_BYTES = 256 * 1024
_MESSAGES_PER_BREATH = 16


class Ears:
    """Reads one connection to its end. `ready` is set when the session stands, or never will (`refused`, `link.lost`).

    finds_onsets: whether any turn waits for the first audible sample of a reply; only then is a reply decoded until it
    is found. listener: told (reply, int16 (samples,)) of all audio as it comes; without one, most is never decoded.
    """

    def __init__(
        self,
        link: Link,
        interrupter: Interrupter,
        *,
        finds_onsets: bool,
        listener: Callable[[str, Pcm], None] | None = None,
    ) -> None:
        self._link = link
        self._listener = listener
        self._interrupter = interrupter
        self._interpreter: Interpreter = link.dialect.interpreter()
        self._guard = TextGuard(link.how.secrets, link.record.messages)
        self._interpreting = False
        self._finds_onsets = finds_onsets
        self._finders: dict[str, OnsetFinder] = {}
        self.ready = asyncio.Event()
        self.refused: PeerError | None = None

    async def read(self) -> None:
        """Log and interpret every message until the connection ends."""
        link, count = self._link, 0
        link.transport.offer(self._take_more_audio)
        try:
            while True:
                message = await link.transport.receive()
                data = link.how.secrets.mask_bytes(message.data)  # nobody sees what the record does not hold
                link.record.keep(data, message.t_ns, message.first_ns, message.binary)
                self._interpreting = True
                await self._interpret(data, message.t_ns)
                self._interpreting = False
                count += 1
                if count % _MESSAGES_PER_BREATH == 0:
                    await asyncio.sleep(0)  # a burst of messages must not hold up the frames that are due
        except TransportError as error:
            link.lost = link.lost or error  # where we hung up ourselves, our own reason stands
            link.log(closed_event(link.lost, link.clock.now_ns(), link.how.secrets))
        self.ready.set()
        link.news.set()

    def _take_more_audio(self, data: bytes, t_ns: int, first_ns: int, binary: bool) -> bool:
        """Nearly all messages are more audio of a reply that is heard already: they wake nobody and are not decoded."""
        if self._interpreting or self._listener is not None:
            return False
        more = self._interpreter.more_audio(data)
        if more is None or more[0] in self._finders:
            return False
        tracker, record = self._link.tracker, self._link.record
        reply = tracker.replies.get(more[0])
        if reply is None or reply.first_audio_ns is None:
            return False
        record.keep(self._link.how.secrets.mask_bytes(data), t_ns, first_ns, binary)
        tracker.last_message_ns = t_ns
        reply.hear(more[1], t_ns, tracker.rate_hz)
        return True

    async def _interpret(self, data: bytes, t_ns: int) -> None:
        link = self._link
        link.tracker.last_message_ns = t_ns
        if len(data) > _LARGE_MESSAGE_BYTES:
            events = await asyncio.to_thread(self._interpreter.feed, data)
        else:
            events = self._interpreter.feed(data)
        for event in events:
            if isinstance(event, ReplyText):
                self._guard.heard(event.reply, event.text)
            if self.ready.is_set():
                link.tracker.apply(event, t_ns)
                self._follow(event, t_ns)
            else:
                await self._set_up_step(event)
            if not isinstance(event, _NO_NEWS):
                link.news.set()

    async def _set_up_step(self, event: PeerEvent) -> None:
        messages: list[Outgoing]
        try:
            messages, ready = self._link.dialect.set_up(event)
            for outgoing in messages:
                await self._link.write(outgoing)
        except PeerError as refused:
            self.refused, ready = refused, True  # reading goes on: how the connection ends belongs to the record
        if ready:
            self.ready.set()

    def _follow(self, event: PeerEvent, t_ns: int) -> None:
        """What an event makes this client do, beyond knowing of it."""
        if isinstance(event, ReplyAudio) and self._listener is not None:
            self._listener(event.reply, event.pcm)
        match event:
            case ReplyAudio(reply, _, pcm) if reply in self._finders:
                self._find_onset(reply, pcm)
            case ReplyBegan(reply):
                if self._finds_onsets:
                    self._finders[reply] = OnsetFinder(self._link.tracker.rate_hz)
                self._interrupter.reply_began(reply, t_ns)
            case ReplyEnded(reply) if reply in self._finders:
                self._find_onset(reply, None)
            case UserSpeech("started"):
                self._interrupter.server_heard_speech(t_ns)
            case _:
                pass

    def _find_onset(self, reply: str, pcm: Pcm | None) -> None:
        """pcm: more of the reply, int16 (samples,); None where it ended."""
        finder = self._finders[reply]
        index = finder.end() if pcm is None else finder.feed(pcm)
        if index is not None:
            live = self._link.tracker.replies[reply]
            live.onset_ns = live.heard_at_ns(index, self._link.tracker.rate_hz)
            self._link.news.set()
        if index is not None or pcm is None:
            del self._finders[reply]
