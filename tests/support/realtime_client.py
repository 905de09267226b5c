"""A plain client of the OpenAI Realtime front for tests: in memory, on any clock. Checks every event by its schema."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, get_args

import numpy as np
import pydantic
from openai.types.realtime import RealtimeServerEvent

from clients.wire import openai_realtime as wire
from servers.fronts.openai_realtime.connection import RealtimeConnection
from servers.speech_model import Pcm, SpeechModelServer
from servers.write_log import WriteLog
from sessions.clock import Clock
from tests.support.virtual_time import VirtualClock, run_virtual

RATE_HZ = 24_000
Json = dict[str, Any]


def _event_types() -> dict[str, type[pydantic.BaseModel]]:
    """Event type → its class in the `openai` package."""
    union = get_args(RealtimeServerEvent)[0]
    return {get_args(cls.model_fields["type"].annotation)[0]: cls for cls in get_args(union)}


EVENT_TYPES = _event_types()
# The package types the session of these events as a request, which has no id; the service sends one all the same.
_NOT_IN_THE_PACKAGE = {"session.id", "session.object", "response.audio.output.format.rate"}


def check_schema(message: Json) -> None:
    """Fails unless `message` is an event that the `openai` package knows, with no field that it does not."""
    event = EVENT_TYPES[message["type"]].model_validate(message)
    unknown = set(_extras(event, "")) - _NOT_IN_THE_PACKAGE
    assert not unknown, f"{message['type']}: fields that the package does not know: {unknown}"


def _extras(model: pydantic.BaseModel, path: str) -> list[str]:
    found = [f"{path}{name}" for name in model.model_extra or {}]
    for name in type(model).model_fields:
        value = getattr(model, name)
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, pydantic.BaseModel):
                found += _extras(one, f"{path}{name}.")
    return found


class MemoryClient:
    """The client's end of a `RealtimeConnection`. received: (instant, message) in order."""

    def __init__(self, server: SpeechModelServer, clock: Clock) -> None:
        self.clock = clock
        self.received: list[tuple[int, Json]] = []
        self.raw: list[str] = []
        self.closed: tuple[int, str] | None = None
        self.aborted = False
        self.write_log = WriteLog()
        self._news = asyncio.Event()
        self._read = 0
        self.connection = RealtimeConnection(
            server, clock, self._on_text, self._on_close, self._on_abort, write_log=self.write_log, name="1"
        )

    async def _on_text(self, text: str) -> None:
        self.raw.append(text)
        with contextlib.suppress(ValueError):
            message = json.loads(text)
            if isinstance(message, dict) and message.get("type") in EVENT_TYPES:
                check_schema(message)
                self.received.append((self.clock.now_ns(), message))
        self._news.set()

    async def _on_close(self, code: int, reason: str) -> None:
        self.closed = (code, reason)
        self._news.set()

    def _on_abort(self) -> None:
        self.aborted = True
        self._news.set()

    # ---- doing -------------------------------------------------------------------------------------------------------

    async def send(self, kind: str, **fields: Any) -> None:
        await self.send_text(wire.encode(kind, **fields))

    async def send_text(self, text: str) -> None:
        await self.connection.on_message(text, self.clock.now_ns())

    async def session(self, turn_detection: Json | None = None, **fields: Any) -> None:
        audio = {"input": {"turn_detection": turn_detection}}
        await self.send("session.update", session={"type": "realtime", "audio": audio, **fields})
        await self.event("session.updated")

    async def say(self, pcm: Pcm, frame_ms: int = 20) -> None:
        """Append `pcm` in real time, each frame when its last sample exists."""
        size, due_ns = RATE_HZ * frame_ms // 1000, self.clock.now_ns()
        for start in range(0, len(pcm), size):
            frame = pcm[start : start + size]
            due_ns += len(frame) * 1_000_000_000 // RATE_HZ
            await self.clock.sleep_until_ns(due_ns)
            await self.send_text(wire.append(frame))

    async def append(self, pcm: Pcm) -> None:
        await self.send_text(wire.append(pcm))

    async def turn(self, pcm: Pcm | None = None) -> list[Json]:
        """A whole manual turn; the events from its response.created to its response.done."""
        await self.append(tone(200) if pcm is None else pcm)
        await self.send("input_audio_buffer.commit")
        await self.send("response.create")
        return await self.until("response.done")

    # ---- hearing -----------------------------------------------------------------------------------------------------

    async def event(self, kind: str) -> Json:
        """The next unread event of that type; those before it are skipped."""
        return (await self.until(kind))[-1]

    async def until(self, kind: str | Callable[[Json], bool]) -> list[Json]:
        """Unread events up to the next of that type."""
        events: list[Json] = []
        while True:
            while self._read < len(self.received):
                events.append(self.received[self._read][1])
                self._read += 1
                if events[-1]["type"] == kind if isinstance(kind, str) else kind(events[-1]):
                    return events
            self._news.clear()
            async with asyncio.timeout(30):
                await self._news.wait()

    async def ended(self) -> None:
        """Wait until the server closed or broke the connection."""
        while self.closed is None and not self.aborted:
            self._news.clear()
            await self._news.wait()

    def unread(self) -> list[Json]:
        events = [message for _, message in self.received[self._read :]]
        self._read = len(self.received)
        return events


@contextlib.asynccontextmanager
async def in_memory(server: SpeechModelServer, clock: Clock, *, greeted: bool = True) -> AsyncIterator[MemoryClient]:
    """A connected client, its session.created read."""
    client = MemoryClient(server, clock)
    await client.connection.open()
    try:
        if greeted:
            await client.event("session.created")
        yield client
    finally:
        await client.connection.on_disconnect()


def types(events: list[Json]) -> list[str]:
    return [event["type"] for event in events]


def sound(events: list[Json]) -> Pcm:
    """The audio of these events, joined."""
    deltas = [event["delta"] for event in events if event["type"] == "response.output_audio.delta"]
    data = b"".join(base64.b64decode(delta) for delta in deltas)
    return np.frombuffer(data, dtype="<i2").astype(np.int16, copy=False)


def tone(duration_ms: int, level: float = 0.2) -> Pcm:
    """int16 (samples,): 400 Hz at 24 kHz, loud from its first sample on."""
    t = np.arange(duration_ms * RATE_HZ // 1000)
    pcm: Pcm = np.round(level * 32767 * np.cos(2 * np.pi * 400 / RATE_HZ * t)).astype(np.int16)
    return pcm


def silence(duration_ms: int) -> Pcm:
    return np.zeros(duration_ms * RATE_HZ // 1000, dtype=np.int16)


def talk(server: SpeechModelServer, hold: Callable[[MemoryClient], Awaitable[None]]) -> None:
    """Hold one conversation in memory, on the virtual clock, with manual turns; no task may be left."""

    async def main(clock: VirtualClock) -> None:
        async with in_memory(server, clock) as client:
            await client.session(None)
            await hold(client)

    run_virtual(main)


async def refused(client: MemoryClient, kind: str, **fields: Any) -> Json:
    """Send a message with an event_id; the one error that answers it."""
    client.unread()
    await client.send(kind, event_id="mine", **fields)
    events = client.unread()
    assert types(events) == ["error"], types(events)
    error: Json = events[0]["error"]
    assert error["event_id"] == "mine"
    assert error["type"] == "invalid_request_error"
    assert error["message"]
    return error
