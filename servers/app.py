"""A server as a whole: a speech model behind a front, on one port, from start to an orderly end."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import signal
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

from aiohttp import web

from servers.fronts.table import FrontContext, load_front
from servers.fronts.websocket import OpenConnections
from servers.speech_model import SpeechModelServer
from servers.write_log import WriteLog
from sessions.clock import Clock, MonotonicClock
from sessions.errors import SetupError

_SHUTDOWN_S = 2.0
_BACKLOG = 128
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class RunningServer:
    """url: where clients connect · health_url: for monitors · write_log: what was written, and when."""

    host: str
    port: int
    url: str
    health_url: str
    write_log: WriteLog
    connections: OpenConnections


@contextlib.asynccontextmanager
async def serve(
    model_server: SpeechModelServer,
    *,
    front: str = "openai-realtime",
    host: str = "127.0.0.1",
    port: int = 0,
    clock: Clock | None = None,
    api_key: str = "",
    write_log: WriteLog | None = None,
) -> AsyncIterator[RunningServer]:
    """Start the model, listen, and stop all of it at the end: clients get a close frame, replies are cancelled.

    port: 0 takes a free one · write_log: one in memory if not given; it is closed at the end.
    Raises `SetupError` for an unknown front, an address that cannot be listened on, or a model that does not start.
    """
    log = write_log or WriteLog()
    connections = OpenConnections()
    door = load_front(front)
    app = web.Application()
    door.mount(app, FrontContext(model_server, clock or MonotonicClock(), log, api_key, connections))
    _add_health(app, model_server.name, front, connections)
    runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=_SHUTDOWN_S)
    async with contextlib.AsyncExitStack() as stack:
        stack.callback(log.close)
        stack.push_async_callback(model_server.aclose)
        await runner.setup()
        stack.push_async_callback(runner.cleanup)
        # The address is taken first and answers last: nobody waits for models to load to hear that it is in use.
        site = await _take_address(runner, host, port)
        # In the order of the end: no new connections, goodbye to those that are open, then the rest.
        stack.push_async_callback(connections.close_all)
        stack.callback(site.close)
        await model_server.start()
        await _listen(site, host, port)
        log.begin()
        bound = int(site.sockets[0].getsockname()[1])
        place = f"[{host}]:{bound}" if ":" in host else f"{host}:{bound}"
        yield RunningServer(host, bound, f"ws://{place}{door.path}", f"http://{place}/health", log, connections)


async def run_forever(
    model_server: SpeechModelServer,
    *,
    on_ready: Callable[[RunningServer], None],
    host: str,
    port: int,
    front: str = "openai-realtime",
    api_key: str = "",
    write_log: WriteLog | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM, then stop in order. A second one ends the process at once."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop() -> None:
        stopped.set()
        for number in _STOP_SIGNALS:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)

    for number in _STOP_SIGNALS:
        with contextlib.suppress(NotImplementedError):  # Windows: Ctrl-C raises KeyboardInterrupt there
            loop.add_signal_handler(number, stop)
    serving = serve(
        model_server, front=front, host=host, port=port, api_key=api_key, write_log=write_log or WriteLog(keep=False)
    )
    async with serving as running:
        if not stopped.is_set():  # it may have been told to stop while the model was loading
            on_ready(running)
        await stopped.wait()


async def _take_address(runner: web.AppRunner, host: str, port: int) -> asyncio.Server:
    if not host:
        raise SetupError("the address to listen on is empty", "Give --host 127.0.0.1, or 0.0.0.0 for all")
    assert runner.server is not None  # it has been set up
    try:
        return await asyncio.get_running_loop().create_server(
            runner.server, host, port, backlog=_BACKLOG, start_serving=False
        )
    except OSError as error:
        raise _cannot_listen(host, port, error) from error


async def _listen(site: asyncio.Server, host: str, port: int) -> None:
    try:
        await site.start_serving()
    except OSError as error:
        raise _cannot_listen(host, port, error) from error


def _cannot_listen(host: str, port: int, error: OSError) -> SetupError:
    if error.errno == errno.EADDRINUSE:
        return SetupError(f"port {port} of {host} is in use", "Stop the other server, or choose another with --port")
    if error.errno == errno.EACCES:
        return SetupError(f"port {port} of {host} is not ours to use", "Choose one above 1023 with --port")
    return SetupError(f"cannot listen on {host}: {error.strerror or error}", "Check --host")


def _add_health(app: web.Application, model: str, front: str, connections: OpenConnections) -> None:
    async def health(_: web.Request) -> web.Response:
        return web.json_response({"status": "ok", "model": model, "front": front, "connections": len(connections)})

    app.router.add_get("/health", health)
