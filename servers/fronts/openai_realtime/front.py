"""Mounts the OpenAI Realtime protocol on an aiohttp application."""

from __future__ import annotations

import hmac

from aiohttp import web

from servers.fronts.openai_realtime.connection import RealtimeConnection
from servers.fronts.table import FrontContext
from servers.fronts.websocket import ConnectionIO
from servers.speech_model import ConnectionFaults, Misbehaving

_KEY_PROTOCOL = "openai-insecure-api-key."


class OpenAIRealtimeFront:
    """`GET /v1/realtime`. Any `model` in the query is served by the one model that is here."""

    path = "/v1/realtime"

    def mount(self, app: web.Application, context: FrontContext) -> None:
        server = context.model_server
        faults = server.connection_faults if isinstance(server, Misbehaving) else ConnectionFaults()

        def connect(io: ConnectionIO) -> RealtimeConnection:
            return RealtimeConnection(
                server, context.clock, io.send, io.close, io.abort, write_log=context.write_log, name=io.name
            )

        async def handle(request: web.Request) -> web.StreamResponse:
            if faults.refuse_status:
                return _refusal(faults.refuse_status, faults.refuse_body or "refused on purpose", "refused")
            if not _allowed(request, context.api_key):
                return _refusal(
                    401, "Incorrect API key provided. Send it as Authorization: Bearer …", "invalid_api_key"
                )
            return await context.connections.serve(request, context.clock, connect)

        app.router.add_get(self.path, handle)


def _allowed(request: web.Request, api_key: str) -> bool:
    if not api_key:
        return True
    scheme, _, sent = request.headers.get("Authorization", "").partition(" ")
    keys = [sent.strip()] if scheme.lower() == "bearer" else []
    # Browsers can set no header: theirs comes among the subprotocols.
    offered = request.headers.get("Sec-WebSocket-Protocol", "").split(",")
    keys += [name.strip().removeprefix(_KEY_PROTOCOL) for name in offered if name.strip().startswith(_KEY_PROTOCOL)]
    # A header may hold any bytes; aiohttp hands on what is no UTF-8 as lone surrogates.
    return any(hmac.compare_digest(key.encode("utf-8", "surrogateescape"), api_key.encode()) for key in keys)


def _refusal(status: int, message: str, code: str) -> web.Response:
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
    return web.json_response({"error": error}, status=status)
