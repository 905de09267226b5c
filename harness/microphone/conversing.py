"""One conversation with a person: what the microphone hears goes out as it comes, what the agent says is played.

The rest is that of every dialogue: connection, session, interruptions, log. Turns are not known before they are heard:
the detector tells them, and what they come to stands in the log when the conversation is over.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from harness.dialogue import hearing
from harness.dialogue.interrupting import Interrupter
from harness.dialogue.link import TurnOver
from harness.dialogue.pacing import FrameTexts, Lane
from harness.dialogue.perform import Dialogue
from harness.dialogue.record import Performance, Record, outcome_of
from harness.dialogue.tracker import LiveReply, LiveTurn
from harness.microphone.detector import SpeechDetector, Utterance
from harness.microphone.device import Device, Ears, Heard, Pcm, Sounded
from harness.microphone.echo import EchoFinder
from harness.microphone.lane_clock import LaneClock
from harness.microphone.playing import Playing
from sessions.clock import NS_PER_MS, NS_PER_S
from sessions.events import GaveUp, Ready, Xrun

LEAD_MS: Final = 200
"""So much before the first heard sample belongs to a turn: the breath, the soft beginning."""
SHORTEST_MS: Final = 200
"""A sound of which less is heard is a noise: no answer to it is waited for."""
_TAKEN_OVER_MS: Final = 100
"""Of quiet, and then the agent is heard: the turn is over, however soon the user goes on."""
SETTLE_NS: Final = 2000 * NS_PER_MS
"""A device that was just started hands over what it had gathered, and stamps it wrongly."""
_READY_NS: Final = 250 * NS_PER_MS
"""So long after the session stood the lane begins: what is on it was surely not heard before, whatever device waits."""
_PATIENCE_NS: Final = 10 * NS_PER_S
"""Who ends the conversation sooner than this after speaking did not wait for an answer."""
STOPPED: Final = "the user ended the conversation"


class Screen(Protocol):
    """What the person sees meanwhile. Called in the event loop: it must not take long."""

    def ready(self) -> None: ...

    def level(self, dbfs: float, speaking: bool, agent_sounds: bool) -> None:
        """Once a frame."""
        ...

    def turn(self, index: int, said_s: float, latency_ms: float) -> None:
        """The answer to a turn begins to be heard."""
        ...

    def warn(self, what: str) -> None: ...

    def close(self) -> None: ...


@dataclass(slots=True)
class SpokenTurn:
    """A turn of the person. Positions are samples of the lane.

    first: of its clip · after, gap_ns: the event that it came after, as a script would say it, and how long ·
    sent: class A: how many of its samples were sent, from `first` on · breaks_in: class A: what was heard or awaited of
    the agent was stopped · is_noise: too short to be an utterance.
    """

    index: int
    utterance: Utterance
    first: int
    kind: str
    after: str
    gap_ns: int
    sent: int = 0
    breaks_in: bool = False
    is_noise: bool = False


class Conversing(Dialogue):
    """Until `stop` is called, the connection ends, or the device is gone. Then `turns`, `lane` and `clock` are
    whole."""

    def __init__(self, how: Performance, device: Device, screen: Screen, end_after_ms: int) -> None:
        super().__init__(how, ())
        link = self._link
        self._device, self._screen = device, screen
        self._rate_hz = link.dialect.rate_hz
        self._frames = how.texts or FrameTexts(link.dialect.audio, self._frame_samples)
        self._interrupter = Interrupter(link, device.drop)
        self._ears = hearing.Ears(link, self._interrupter, finds_onsets=True, listener=self._play)
        self._playing = Playing(link.log, self._rate_hz)
        self._echo = EchoFinder(self._rate_hz)
        self._manual = link.dialect.protocol_class == "A"
        self._stopped = False
        self._flows = False
        self._told: set[str] = set()
        self._lane: list[Pcm] = []
        self._samples = 0
        self._warned = False
        self.failure = ""
        """Why the device is gone."""
        self.clock = LaneClock(self._rate_hz)
        self.detector = SpeechDetector(self._rate_hz, end_after_ms)
        self.turns: list[SpokenTurn] = []

    def stop(self) -> None:
        self._stopped = True
        self._link.news.set()

    def end_turn(self) -> None:
        """The person says that the turn is over."""
        if self.detector.end_now() is not None:
            self._close()

    @property
    def lane(self) -> Pcm:
        """All that the microphone heard and that was, or could have been, sent; int16 (samples,)."""
        return np.concatenate(self._lane) if self._lane else np.zeros(0, dtype=np.int16)

    @property
    def lost(self) -> str:
        """Why the connection ended, where it was not we who ended it."""
        return "" if self._link.lost is None or self._stopped else str(self._link.lost)

    async def perform(self) -> Record:
        clock = self._link.clock
        self._device.start(Ears(self._hear, self._sounded, self._fail))
        try:
            await clock.sleep_until_ns(clock.now_ns() + SETTLE_NS)
            return await super().perform()
        finally:
            self._device.stop()

    # ---- the frame of the dialogue ---------------------------------------------------------------------------

    def _begin_lane(self) -> Lane | None:
        """The device's frames are the lane: from the first one on that was heard when the session stood."""
        self._flows = True
        return None

    async def _speak_all(self) -> None:
        link = self._link
        while not self._stopped and not self.failure and link.lost is None:
            link.news.clear()
            await link.news.wait()
        self._flows = False
        if self.detector.end_now() is not None:
            self._close(asks=False)
        self._give_up_rest()
        self._log_ready()

    def _log_ready(self) -> None:
        """Now where the lane's first sample lies is known as well as it will be."""
        self.clock.close(self._link.clock.now_ns())
        for anchor in self.clock.anchors:
            self._link.log(anchor)
        start_ns = None if self._manual or not self._samples else self.clock.times().at_ns(0)
        self._link.log(Ready(t_ns=self._link.ready_ns, lane_start_ns=start_ns))

    def _give_up_rest(self) -> None:
        """The last turn that asked, where it was not answered to the end."""
        link, asked = self._link, self._link.tracker.asked()
        if asked is None or link.tracker.answered(asked):
            return
        now_ns = link.clock.now_ns()
        if link.lost is not None:
            outcome, detail = outcome_of(link.lost)
            link.give_up(asked.index, outcome, detail)
        elif link.tracker.of_turn(asked.index) or now_ns - asked.speech_end_ns < _PATIENCE_NS:
            link.log(GaveUp(t_ns=now_ns, turn=asked.index, outcome="", detail=STOPPED))
        else:
            waited = f"no reply within {(now_ns - asked.speech_end_ns) / NS_PER_S:.0f} s, then {STOPPED}"
            link.give_up(asked.index, "time-out", waited)

    # ---- the microphone --------------------------------------------------------------------------------------

    def _hear(self, heard: Heard) -> None:
        link, first = self._link, self._samples
        if not self._flows or (not first and heard.handed_ns < link.ready_ns + _READY_NS):
            if not first:  # nothing is kept of it, but the person sees that the microphone works
                self._screen.level(_level_dbfs(heard.pcm), False, False)
            return
        if not first:
            self._screen.ready()
        samples = len(heard.pcm)
        self.clock.frame(samples, heard.at_ns, heard.handed_ns, lost=heard.lost)
        if heard.lost and first:
            link.log(Xrun(t_ns=heard.handed_ns, what="input overflow"))
        self._lane.append(heard.pcm)
        self._samples += samples
        try:
            if not self._manual:
                self._send(heard.pcm, heard.handed_ns, first, None)
            self._follow(heard)
        except TurnOver:  # the link knows why
            link.news.set()

    def _send(self, pcm: Pcm, due_ns: int, first_sample: int, turn: int | None) -> None:
        if len(pcm):
            self._link.send_frame(self._frames.render(pcm), due_ns, turn, first_sample, len(pcm))

    def _follow(self, heard: Heard) -> None:
        """What the frame tells of turns."""
        detector = self.detector
        was_open = detector.utterance is not None
        for utterance in detector.feed(heard.pcm):
            if utterance.ended:
                self._send_on(heard)
                self._close()
                was_open = False
            else:
                self._open(utterance, heard)
        if was_open and detector.utterance is not None:
            self._send_on(heard)
        if detector.utterance is not None:
            self._break_in()
            end_ns = self.clock.times().end_ns(detector.utterance.stop - 1)
            self._link.tracker.turns[-1].speech_end_ns = end_ns
            quiet = detector.quiet_samples * 1000 >= _TAKEN_OVER_MS * self._rate_hz
            if quiet and not self._manual and self._agent_began(end_ns):
                self.end_turn()
        self._tell(heard)

    def _break_in(self) -> None:
        """Class A: an utterance stops the agent, a noise does not."""
        turn = self.turns[-1]
        if self._manual and not turn.breaks_in and not self._is_noise(turn):
            turn.breaks_in = True
            self._interrupter.interrupt(turn.index)

    def _is_noise(self, turn: SpokenTurn) -> bool:
        return turn.utterance.heard_samples * 1000 < SHORTEST_MS * self._rate_hz

    def _send_on(self, heard: Heard) -> None:
        """Class A: what is new of the turn."""
        if self._manual:
            turn = self.turns[-1]
            self._send(heard.pcm, heard.handed_ns, turn.sent, turn.index)
            turn.sent += len(heard.pcm)

    def _open(self, utterance: Utterance, heard: Heard) -> None:
        link, index = self._link, len(self.turns)
        times, now_ns = self.clock.times(), link.clock.now_ns()
        before = self._until(self.turns[-1]) if self.turns else 0
        first = max(before, utterance.first - LEAD_MS * self._rate_hz // 1000)
        onset_ns = times.at_ns(utterance.first)
        sounding = [reply for reply in link.tracker.replies.values() if _sounds(reply, onset_ns)]
        kind = "interruption" if sounding else "speech"
        after, event_ns = self._came_after(sounding, onset_ns)
        gap_ns = max(0, times.at_ns(first) - event_ns)
        self.turns.append(SpokenTurn(index, utterance, first, kind, after, gap_ns))
        live = LiveTurn(index, times.end_ns(utterance.stop - 1), began=True, is_unasked=self._manual)
        link.tracker.turns.append(live)
        link.tracker.refusals_due = 0
        if self._manual:
            clip = self._from(first)
            for at in range(0, len(clip), self._frame_samples):
                self._send(clip[at : at + self._frame_samples], now_ns, at, index)
            self.turns[-1].sent = len(clip)

    def _came_after(self, sounding: list[LiveReply], onset_ns: int) -> tuple[str, int]:
        """The event that a script would have waited for, and when it was."""
        onsets = [reply.onset_ns for reply in sounding if reply.onset_ns is not None]
        if onsets:
            return "onset", onsets[0]
        heard = [reply.heard_until_ns for reply in self._link.tracker.replies.values()]
        return "reply", max([self._link.ready_ns, *(t_ns for t_ns in heard if t_ns <= onset_ns)])

    def _close(self, *, asks: bool = True) -> None:
        """The last turn is over. asks: class A: for its answer."""
        link, turn, live = self._link, self.turns[-1], self._link.tracker.turns[-1]
        live.speech_end_ns = live.sound_end_ns = self.clock.times().end_ns(turn.utterance.stop - 1)
        live.waiting_from_ns = link.clock.now_ns()
        turn.is_noise = self._is_noise(turn)
        live.expects_reply = not turn.is_noise
        if self._manual and asks:
            self._interrupter.spoken()
            dialect = link.dialect
            for message in dialect.clear(turn.index) if turn.is_noise else dialect.end_of_turn(turn.index):
                link.write_now(message, turn.index)
            live.is_unasked = False

    def _from(self, first: int) -> Pcm:
        """The lane from sample `first` on, which is not long ago."""
        pieces, begins = [], self._samples
        for piece in reversed(self._lane):
            if begins <= first:
                break
            pieces.append(piece)
            begins -= len(piece)
        return np.concatenate(pieces[::-1])[first - begins :]

    def _until(self, turn: SpokenTurn) -> int:
        """One past the last sample that is surely the turn's."""
        return turn.first + turn.sent if self._manual else turn.utterance.stop

    # ---- the agent -------------------------------------------------------------------------------------------

    def _play(self, reply: str, pcm: Pcm) -> None:
        if self._link.tracker.replies[reply].flushed_ns is None:
            self._device.play(reply, pcm)

    def _sounded(self, sounded: Sounded) -> None:
        if self._flows:
            self._playing.sounded(sounded)
            self._echo.sounded(sounded)

    def _agent_began(self, since_ns: int) -> bool:
        now_ns = self._link.clock.now_ns()
        return any(
            reply.onset_ns is not None and since_ns < reply.onset_ns <= now_ns and _is_heard(reply)
            for reply in self._link.tracker.replies.values()
        )

    def _fail(self, why: str) -> None:
        if self._flows and not self.failure:
            self.failure = why
        self._link.news.set()

    # ---- what the person sees --------------------------------------------------------------------------------

    def _tell(self, heard: Heard) -> None:
        link, now_ns = self._link, heard.handed_ns
        agent_sounds = any(_sounds(reply, now_ns) for reply in link.tracker.replies.values())
        self._screen.level(self.detector.level_dbfs, self.detector.utterance is not None, agent_sounds)
        for reply in link.tracker.replies.values():
            if reply.id not in self._told and 0 <= reply.turn < len(self.turns) and _is_heard(reply):
                assert reply.onset_ns is not None
                self._told.add(reply.id)
                said = self.turns[reply.turn].utterance
                end_ns = link.tracker.turns[reply.turn].speech_end_ns
                said_s = (said.stop - said.first) / self._rate_hz
                self._screen.turn(reply.turn, said_s, (reply.onset_ns - end_ns) / NS_PER_MS)
        echo = self._echo.heard(heard)
        if echo is not None:
            link.log(echo)
            if not self._warned:
                self._warned = True
                self._screen.warn("the microphone hears the agent: use headphones, or the agent will answer itself")


def _is_heard(reply: LiveReply) -> bool:
    """Whether its first audible sample was, or will be, heard."""
    return reply.onset_ns is not None and (reply.flushed_ns is None or reply.onset_ns < reply.flushed_ns)


def _sounds(reply: LiveReply, t_ns: int) -> bool:
    """Whether something of the reply is being heard."""
    if reply.onset_ns is None or reply.onset_ns > t_ns:
        return False
    return t_ns < (reply.playout_end_ns if reply.flushed_ns is None else reply.flushed_ns)


def _level_dbfs(pcm: Pcm) -> float:
    power = float(np.var(pcm.astype(np.float64))) / 2**30 if len(pcm) else 0.0
    return float(10 * np.log10(power)) if power > 1e-12 else -120.0
