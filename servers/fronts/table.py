"""Protocols that can be served: name → where its front is. A front mounts its routes on an aiohttp application."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from servers.speech_model import SpeechModelServer
from servers.write_log import WriteLog
from sessions.clock import Clock
from sessions.tables import load

if TYPE_CHECKING:
    from aiohttp import web

    from servers.fronts.websocket import OpenConnections

FRONTS: dict[str, str] = {
    "openai-realtime": "servers.fronts.openai_realtime.front:OpenAIRealtimeFront",
    "reflector": "servers.fronts.reflector:ReflectorFront",
    "replay": "servers.replay.front:ReplayFront",
}


@dataclass(frozen=True, slots=True)
class FrontContext:
    """What every front works with. api_key: wanted from clients, "" for none · connections: those open now."""

    model_server: SpeechModelServer
    clock: Clock
    write_log: WriteLog | None
    api_key: str
    connections: OpenConnections


class Front(Protocol):
    """The server side of one protocol."""

    path: str
    """Where clients connect."""

    def mount(self, app: web.Application, context: FrontContext) -> None: ...


def load_front(name: str) -> Front:
    """Raises `SetupError` that lists the known names."""
    front: Front = load(FRONTS, name, "front")()
    return front
