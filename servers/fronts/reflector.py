"""The reflector: sends back each message at once, with the instants of its arrival and of the answer's write.

It stands on the server's host and has no model. What a client's round trip to it takes beyond the time between those
two instants is the path: networks, proxies, kernels, and this process until it is woken.
"""

from __future__ import annotations

from typing import NoReturn

from aiohttp import WSCloseCode, web

from clients.wire.reflector import PATH, answer, parse_request
from servers.fronts.table import FrontContext
from servers.fronts.websocket import ConnectionIO
from sessions.clock import Clock
from sessions.errors import PeerError, SetupError


class NoModel:
    """What stands behind the reflector: nothing."""

    name = "reflector"
    voices: tuple[str, ...] = ()

    async def start(self) -> None: ...

    def open(self) -> NoReturn:
        raise SetupError("a reflector has no model", "Use --front reflector for it")

    voice_detector = open

    async def aclose(self) -> None: ...


class ReflectorConnection:
    def __init__(self, io: ConnectionIO, clock: Clock) -> None:
        self._io, self._clock = io, clock

    async def open(self) -> None: ...

    async def on_message(self, text: str, t_ns: int) -> None:
        try:
            ready = answer(parse_request(text), t_ns)
        except PeerError as error:
            await self._io.close(WSCloseCode.UNSUPPORTED_DATA, str(error))
            return
        await self._io.send(ready.text(self._clock.now_ns()))

    async def on_disconnect(self) -> None: ...


class ReflectorFront:
    """`GET /reflect`. It asks for no key: it tells nothing but its own clock's differences."""

    path = PATH

    def mount(self, app: web.Application, context: FrontContext) -> None:
        async def handle(request: web.Request) -> web.StreamResponse:
            return await context.connections.serve(
                request, context.clock, lambda io: ReflectorConnection(io, context.clock)
            )

        app.router.add_get(self.path, handle)
