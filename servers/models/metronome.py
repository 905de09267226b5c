"""The metronome: a speech model that does exactly what a behaviour file says, so that the truth is known.

It thinks nothing and says a tone. Each piece leaves at an absolute instant; how late it really was is what the write
log tells.
"""

from __future__ import annotations

import heapq
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass
from itertools import cycle
from pathlib import Path

import numpy as np

from servers.engines.energy import EnergyDetector
from servers.models.behaviour import Behaviour, FaultAt, ReplyPlan, load_behaviour
from servers.speech_model import (
    Audio,
    ConnectionFaults,
    Fault,
    Pcm,
    Piece,
    RawAudio,
    SessionSettings,
    SpeechModel,
    Text,
    ToolCall,
    UserTurn,
    VoiceDetector,
)
from sessions.clock import NS_PER_MS, Clock, MonotonicClock, block_until_ns, samples_to_ns
from sessions.errors import PeerError

RATE_HZ = 24_000
_FULL_SCALE = 32767


@dataclass(frozen=True, slots=True)
class _Block:
    """The whole server stands still."""

    ms: int


_Timed = tuple[int, Piece | _Block]


class Sound:
    """The audio of a reply, by sample: any stretch of it without the rest, so that hours of it need no memory.

    A leading part of silence, noise, an offset or a click, then a cosine, whose first sample is its loudest.
    """

    def __init__(self, plan: ReplyPlan) -> None:
        self._plan = plan
        self._lead_samples = _samples(plan.leading_silence_ms)
        self.samples = self._lead_samples + _samples(plan.duration_ms)
        self._lead = self._leading_part()

    def pcm(self, start: int, end: int) -> Pcm:
        """int16 (end − start,)."""
        lead = self._lead[start:end]
        first = max(start, self._lead_samples)
        return np.concatenate([lead, self._tone(first, max(first, end))])

    def data(self, start: int, end: int) -> bytes:
        """Bytes `start` to `end` of the int16 little-endian stream, which may cut samples."""
        first = start // 2
        whole = self.pcm(first, -(-end // 2)).astype("<i2").tobytes()
        return whole[start - 2 * first : end - 2 * first]

    def _leading_part(self) -> Pcm:
        plan = self._plan
        level = np.full(self._lead_samples, float(plan.leading_offset))
        if plan.leading_noise_dbfs is not None:
            # A fixed seed: the same behaviour always sounds the same.
            noise = np.random.default_rng(1).standard_normal(self._lead_samples)
            level += noise * 10 ** (plan.leading_noise_dbfs / 20)
        click = _samples(plan.leading_click_ms)
        level[:click] = 0.5 * np.cos(np.pi * np.arange(click) / 6)
        return _to_int16(level)

    def _tone(self, start: int, end: int) -> Pcm:
        plan = self._plan
        t = np.arange(start - self._lead_samples, end - self._lead_samples)
        level = 10 ** (plan.level_dbfs / 20) * np.cos(2 * np.pi * plan.tone_hz / RATE_HZ * t)
        if plan.fade_in_ms:
            level *= np.minimum(1.0, t / _samples(plan.fade_in_ms))
        return _to_int16(level)


class Metronome:
    """One conversation. A `SpeechModel` that also takes seeded lines, and forgets them."""

    rate_hz = RATE_HZ

    def __init__(self, behaviour: Behaviour, clock: Clock) -> None:
        self._behaviour, self._clock = behaviour, clock

    def configure(self, settings: SessionSettings) -> None:
        """Takes any voice. Raises `PeerError` where the behaviour says so."""
        connection = self._behaviour.connection
        if connection.session_update == "refuse":
            raise PeerError(connection.refusal_message, code=connection.refusal_code)

    def hear(self, pcm: Pcm, t_ns: int) -> None:
        """What the user says changes nothing."""

    async def reply(self, turn: UserTurn) -> AsyncGenerator[Piece, None]:
        plan = self._behaviour.plan(turn.index)
        if plan.user_text:
            yield Text(plan.user_text, "user")
        for due_ns, piece in timeline(plan, turn.ended_ns, text_only=turn.text_only):
            await self._clock.sleep_until_ns(due_ns)
            if isinstance(piece, _Block):
                block_until_ns(self._clock.now_ns() + piece.ms * NS_PER_MS)
            else:
                yield piece

    def remember(self, role: str, text: str) -> None:
        """What was said before changes nothing either."""

    def heard(self, ms: int) -> None:
        """Nothing to forget."""

    async def aclose(self) -> None:
        """Nothing to free."""


class MetronomeServer:
    """Opens a metronome per connection. A `SpeechModelServer`, and a `Misbehaving` one."""

    def __init__(self, behaviour: Behaviour, clock: Clock | None = None) -> None:
        self.name = "metronome"
        self.voices: tuple[str, ...] = ("metronome",)
        self._behaviour = behaviour
        self._clock = clock or MonotonicClock()

    @property
    def connection_faults(self) -> ConnectionFaults:
        return self._behaviour.connection_faults()

    async def start(self) -> None:
        """Nothing to load."""

    def open(self) -> SpeechModel:
        if self._behaviour.hearing is None and self._behaviour.reprompt is None:
            return Metronome(self._behaviour, self._clock)
        from servers.models.attentive import AttentiveMetronome

        return AttentiveMetronome(self._behaviour, self._clock)

    def voice_detector(self) -> VoiceDetector:
        return _LevelDetector(RATE_HZ)

    async def aclose(self) -> None:
        """Nothing to free."""


class _LevelDetector(EnergyDetector):
    inline = True
    """Cheap enough for the event loop; a thread would make its decisions late by chance."""


def load_metronome(behaviour: str | Path, *, clock: Clock | None = None) -> MetronomeServer:
    """The metronome with a shipped behaviour's name or a behaviour file. Raises `BadFile`, `SetupError`."""
    return MetronomeServer(load_behaviour(behaviour), clock)


def timeline(plan: ReplyPlan, origin_ns: int, *, text_only: bool) -> Iterator[_Timed]:
    """Everything that a reply yields with the instant at which it is due, in order; made as it is asked for."""
    start_ns = origin_ns + _ns(plan.delay_ms)
    words_ns = start_ns if plan.text_delay_ms is None else origin_ns + _ns(plan.text_delay_ms)
    texts: list[_Timed] = []
    if plan.text:
        texts.append((words_ns, Text(plan.text)))
    if plan.written_text:
        texts.append((words_ns, Text(plan.written_text, "written")))
    if plan.tool_call is not None:
        texts.append((start_ns, ToolCall(plan.tool_call.name, plan.tool_call.arguments)))
    # Equal instants keep this order: words first.
    yield from heapq.merge(texts, _sound_and_faults(plan, start_ns, text_only), key=lambda timed: timed[0])


def _sound_and_faults(plan: ReplyPlan, start_ns: int, text_only: bool) -> Iterator[_Timed]:
    sound = Sound(plan)
    moved_ns, held_until_ns, last_ns = 0, 0, start_ns
    for number, (place, first, end) in enumerate([] if text_only else _packets(plan, sound)):
        due_ns = start_ns + _offset_ns(plan, number, place)
        for gap in plan.gaps:
            if gap.before_packet == number:
                moved_ns += 0 if gap.catch_up else _ns(gap.ms)
                held_until_ns = max(held_until_ns, due_ns + moved_ns + (_ns(gap.ms) if gap.catch_up else 0))
        last_ns = max(due_ns + moved_ns, held_until_ns, last_ns)
        for fault in plan.faults:
            if fault.at_packet == number:
                last_ns += _ns(fault.delay_ms)
                yield last_ns, _fault(fault)
        if plan.packet_bytes:
            yield last_ns, RawAudio(sound.data(first, end))
        else:
            yield last_ns, Audio(sound.pcm(first, end))
    for fault in plan.faults:
        if fault.at_packet is None:
            last_ns += _ns(fault.delay_ms)
            yield last_ns, _fault(fault)
    if plan.end_delay_ms:
        yield last_ns + _ns(plan.end_delay_ms), Text("")


def _packets(plan: ReplyPlan, sound: Sound) -> Iterator[tuple[int, int, int]]:
    """Each packet's place in time, its first and its end, in samples; in bytes where the plan cuts bytes."""
    total = 2 * sound.samples if plan.packet_bytes else sound.samples
    for before in (0, total) if plan.repeats == "again" else (0,):
        for first, end in _cuts(plan, total):
            yield before + first, 0 if plan.repeats == "growing" else first, end


def _cuts(plan: ReplyPlan, total: int) -> Iterator[tuple[int, int]]:
    sizes = cycle(plan.packet_bytes or (_samples(plan.packet_ms),))
    first = 0
    while first < total:
        end = min(first + next(sizes), total)
        yield first, end
        first = end


def _offset_ns(plan: ReplyPlan, number: int, place: int) -> int:
    """When a packet leaves, after the reply's first one, if nothing stalls."""
    if plan.pace == "interval":
        return number * _ns(plan.interval_ms)
    if plan.pace == "realtime":
        return samples_to_ns(place // 2 if plan.packet_bytes else place, RATE_HZ)
    return 0


def _fault(given: FaultAt) -> Piece | _Block:
    if given.kind == "block_loop":
        return _Block(given.value)
    return Fault(given.kind, given.message, given.code, given.value)


def _samples(ms: int) -> int:
    return ms * RATE_HZ // 1000


def _ns(ms: float) -> int:
    return round(ms * NS_PER_MS)


def _to_int16(level: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Pcm:
    """1.0 is full scale."""
    return np.clip(np.rint(level * (_FULL_SCALE + 1)), -_FULL_SCALE - 1, _FULL_SCALE).astype(np.int16)
