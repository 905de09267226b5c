"""Mounts recorded dialogues where their protocol's clients connect."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NoReturn

from aiohttp import web

from servers.fronts.table import FrontContext
from servers.fronts.websocket import ConnectionIO
from servers.replay.client import READERS, ClientReader
from servers.replay.connection import ReplayConnection
from servers.replay.recording import Recording
from sessions.errors import SetupError
from sessions.tables import load


class ReplayServer:
    """Stands where a model server does, and has none: only recorded dialogues, given in turn to each connection."""

    voices: tuple[str, ...] = ()

    def __init__(self, recordings: Sequence[Recording]) -> None:
        """recordings: at least one. Raises `SetupError` where they are of several protocols, or of one unknown here."""
        protocols = sorted({recording.protocol for recording in recordings})
        if len(protocols) > 1:
            what = f"recordings of several protocols: {', '.join(protocols)}"
            raise SetupError(what, "Serve those of one at a time")
        self.protocol = protocols[0]
        self.new_reader = reader_of(self.protocol)
        first = recordings[0].name
        more = f" and {len(recordings) - 1} more" if len(recordings) > 1 else ""
        self.name = f"replay of {first}{more} ({self.protocol})"
        self._turns = itertools.cycle(recordings)

    def next_recording(self) -> Recording:
        return next(self._turns)

    async def start(self) -> None:
        """Nothing to load."""

    def open(self) -> NoReturn:
        raise SetupError("a replay has no model", "Use --front replay for it")

    voice_detector = open

    async def aclose(self) -> None:
        """Nothing to free."""


def reader_of(protocol: str) -> type[ClientReader]:
    """What reads clients of `protocol`. Raises `SetupError` that lists the known ones."""
    reader: type[ClientReader] = load(READERS, protocol, "replayed protocol")
    return reader


class ReplayFront:
    """`GET` at the protocol's usual path. It asks for no key."""

    path = "/"

    def mount(self, app: web.Application, context: FrontContext) -> None:
        server = context.model_server
        if not isinstance(server, ReplayServer):
            raise SetupError("the front replay serves recordings only", "Use duologue serve --replay RUN")
        self.path = server.new_reader.path

        def connect(io: ConnectionIO) -> ReplayConnection:
            recording = server.next_recording()
            return ReplayConnection(recording, server.new_reader(), context.clock, io, context.write_log)

        async def handle(request: web.Request) -> web.StreamResponse:
            return await context.connections.serve(request, context.clock, connect)

        app.router.add_get(self.path, handle)
