"""Downloads from where the weights were first published: plain HTTPS, resumed by range.

Each origin is asked once per run, briefly, whether it answers at all; a machine without a network learns so in seconds.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import socket
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from harness.fetch.disk import CHUNK_BYTES, PartWriter
from harness.fetch.progress import Progress
from sessions.errors import TransportError
from sessions.weights import File

DEFAULT_HUB = "https://huggingface.co"
REACH_S = 3.0
_TRIES = 3
_PAUSE_S = 0.3
_TIMEOUT = aiohttp.ClientTimeout(total=None, connect=10, sock_read=30)
_PARTIAL_CONTENT, _NOT_FOUND, _RANGE_NOT_SATISFIABLE = 206, 404, 416


def hub_address(environ: Mapping[str, str]) -> str:
    """The model hub's base address: `HF_ENDPOINT`, which mirrors use, else the hub itself."""
    return environ.get("HF_ENDPOINT") or DEFAULT_HUB


class _Resolver(AbstractResolver):
    """Looks names up in daemon threads.

    The loop's own executor is joined at exit: a resolver that hangs there would hold the whole program for its timeout.
    """

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[list[Any]] = loop.create_future()

        def settle(infos: list[Any] | None, error: OSError | None) -> None:
            if answer.done():
                return
            if error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(infos or [])

        def look_up() -> None:
            infos, failure = None, None
            try:
                infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, family=family)
            except OSError as error:
                failure = error
            with contextlib.suppress(RuntimeError):  # the loop is gone: nobody waits any more
                loop.call_soon_threadsafe(settle, infos, failure)

        threading.Thread(target=look_up, name=f"resolve {host}", daemon=True).start()
        return [
            ResolveResult(
                hostname=host,
                host=str(address[0]),
                port=int(address[1]),
                family=found,
                proto=proto,
                flags=socket.AI_NUMERICHOST | socket.AI_NUMERICSERV,
            )
            for found, _, proto, _, address in await answer
        ]

    async def close(self) -> None: ...


def open_session() -> aiohttp.ClientSession:
    """An HTTP session that honours the user's proxy settings. To be used as an async context manager."""
    connector = aiohttp.TCPConnector(resolver=_Resolver())
    # Ranges count the bytes of the file, so no compression may come between.
    headers = {"Accept-Encoding": "identity"}
    return aiohttp.ClientSession(
        connector=connector, timeout=_TIMEOUT, headers=headers, auto_decompress=False, trust_env=True
    )


def public(url: str) -> str:
    """An address as it may be shown: a mirror's may hold a name and password."""
    return re.sub(r"//[^/@]*@", "//", url)


def origin_of(url: str) -> str:
    """Scheme, host and port."""
    scheme, _, rest = public(url).partition("://")
    return f"{scheme}://{rest.partition('/')[0]}"


class Upstream:
    """The upstream origins during one run. refused: origin → why it is not asked any more."""

    def __init__(self, session: aiohttp.ClientSession, progress: Progress) -> None:
        self._session, self._progress = session, progress
        self.refused: dict[str, str] = {}

    async def reach(self, urls: Iterable[str]) -> None:
        """Ask each origin once, all at the same time, by a header request for one of its files."""
        first_of: dict[str, str] = {}
        for url in filter(None, urls):
            first_of.setdefault(origin_of(url), url)
        await asyncio.gather(*(self._reach(origin, url) for origin, url in first_of.items()))

    async def _reach(self, origin: str, url: str) -> None:
        try:
            async with asyncio.timeout(REACH_S), self._session.head(url, allow_redirects=False) as response:
                if response.status >= 400 and response.status != _NOT_FOUND:  # one file may be gone; that is no outage
                    self.refused[origin] = f"{origin} answered {response.status} {response.reason or ''}".rstrip()
        except TimeoutError:
            self.refused[origin] = f"{origin} did not answer within {REACH_S:.0f} s"
        except (aiohttp.ClientError, OSError, ValueError) as error:
            self.refused[origin] = f"{origin} cannot be reached ({_reason(error)})"

    async def download(self, url: str, file: File, part: Path, label: str) -> None:
        """Bring `part` to the file's full length, going on from what it holds.

        Raises `TransportError` if the origin does not give the file, `SetupError` if the disk does not take it.
        """
        origin = origin_of(url)
        if origin in self.refused:
            raise TransportError(self.refused[origin])
        if _size(part) > file.size_bytes:
            _drop(part)  # it cannot be the beginning of this file
        self._progress.begin(label, file.size_bytes)
        try:
            tries_left = _TRIES
            while (had := _size(part)) != file.size_bytes:
                tries_left -= 1
                try:
                    await self._attempt(url, file, part, label)
                except (aiohttp.ClientError, TimeoutError, OSError) as error:
                    if tries_left <= 0:
                        self.refused[origin] = f"{origin} broke off {_TRIES} times ({_reason(error)})"
                        raise TransportError(self.refused[origin]) from error
                    if _size(part) > had:
                        tries_left = _TRIES
                    await asyncio.sleep(_PAUSE_S)
        finally:
            self._progress.end(label)

    async def _attempt(self, url: str, file: File, part: Path, label: str) -> None:
        have = _size(part)
        headers = {"Range": f"bytes={have}-"} if have else {}
        async with self._session.get(url, headers=headers) as response:
            if response.status == _RANGE_NOT_SATISFIABLE:
                _drop(part)
                raise TransportError(f"{public(url)} is shorter than the pinned {file.size_bytes} bytes")
            if response.status >= 400:
                raise TransportError(f"{public(url)} answered {response.status} {response.reason or ''}".rstrip())
            if response.status != _PARTIAL_CONTENT or not _starts_at(response, have):
                have = 0  # the server sends the whole file
            length_bytes = response.content_length
            if length_bytes is not None and have + length_bytes != file.size_bytes:
                _drop(part)
                what = f"{public(url)} has {have + length_bytes} bytes, pinned are {file.size_bytes}"
                raise TransportError(what)
            with PartWriter(part, have) as writer:
                writer.cut_here()
                async for chunk in response.content.iter_chunked(CHUNK_BYTES):
                    have += len(chunk)
                    if have > file.size_bytes:
                        raise TransportError(f"{public(url)} is longer than the pinned {file.size_bytes} bytes")
                    writer.write(chunk)
                    self._progress.update(label, have)
        if have < file.size_bytes:
            raise aiohttp.ClientPayloadError(f"{have} of {file.size_bytes} bytes came")


def _size(part: Path) -> int:
    try:
        return part.stat().st_size
    except FileNotFoundError:
        return 0


def _drop(part: Path) -> None:
    part.unlink(missing_ok=True)


def _starts_at(response: aiohttp.ClientResponse, offset_bytes: int) -> bool:
    return response.headers.get("Content-Range", "").startswith(f"bytes {offset_bytes}-")


def _reason(error: BaseException) -> str:
    if isinstance(error, aiohttp.ClientConnectorError) and error.os_error.strerror:
        return error.os_error.strerror
    return " ".join(str(error).split()) or type(error).__name__
