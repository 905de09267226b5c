"""WebSocket through `websockets`, stamped in `data_received`.

Reading never pauses: messages go from the parser straight to our own list (`max_queue` plays no part), compression is
off, and a flood is stopped by a cap on bytes. A consumer that sleeps leaves every stamp unchanged.

A thousand streams share one processor, so the common case is short both ways: whole unfragmented messages are taken
from the stream here, and a message is framed and written in one step. All else is the library's work.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import ssl
import urllib.request
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, cast
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed as WsClosed
from websockets.exceptions import InvalidHandshake, InvalidStatus, InvalidURI
from websockets.frames import Frame, Opcode
from websockets.protocol import State

from clients.transports import KEEPALIVE_S, Connection, Message, Take, TcpRoundTrip
from clients.transports.byte_clock import ByteClock
from clients.transports.tcp_info import tcp_round_trip
from sessions.clock import Clock
from sessions.errors import (
    ConnectFailed,
    ConnectionClosed,
    ConnectionReset,
    ConnectTimeout,
    Flood,
    HandshakeRefused,
    SetupError,
    TransportError,
)
from sessions.secrets import Secrets

try:
    from websockets.speedups import apply_mask
except ImportError:  # a build without its C part
    from websockets.utils import apply_mask

_CLOSE_S = 2
_HEADER_END = b"\r\n\r\n"
_KEYS_BYTES = 4 * 256
"""Masking keys are drawn from the system so many bytes at a time."""
_OPEN = State.OPEN  # looked up once: it is asked for with every frame
_WHOLE_TEXT, _WHOLE_BINARY = 0x81, 0x82
"""First byte of a frame that is a whole message (RFC 6455 §5.2)."""
_PING = 0x89


class StampingConnection(ClientConnection):
    """A client connection that stamps messages before they are parsed and keeps them itself."""

    def __init__(self, *args: Any, clock: Clock, byte_cap: int, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._clock = clock
        self._byte_cap = byte_cap
        self._bytes = ByteClock()
        self._head: bytes | None = b""
        self._now_ns = 0
        self._parts: list[bytes] = []
        self._keys, self._keys_used = b"", 0
        self._first_ns = 0
        self._binary = False
        self.inbox: deque[Message] = deque()
        self.take: Take = lambda data, t_ns, first_ns, binary: False
        self._waiter: asyncio.Future[None] | None = None
        self.made_ns = 0
        self.upgraded_ns = 0
        self.last_sign_ns = 0
        self.flooded = False
        self.lost: BaseException | None = None
        self.is_lost = False
        self._is_released = False
        self.on_pong: Callable[[bytes, int], None] = lambda payload, t_ns: None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.made_ns = self._clock.now_ns()
        super().connection_made(transport)

    def data_received(self, data: bytes) -> None:
        self._now_ns = self.last_sign_ns = self._clock.now_ns()
        if self._bytes.arrived_bytes + len(data) > self._byte_cap:
            self.flooded = True
            self.transport.abort()
            return
        if self._head is None and not self._parts and self._bytes.all_consumed and self.protocol.state is _OPEN:
            data = self._take_whole_messages(data)
            if not data:
                return
        self._bytes.arrived(len(data), self._now_ns)
        if self._head is not None:
            self._find_first_frame(data)
        super().data_received(data)
        if self.protocol.parser_exc is not None:
            self._tell_reader()

    def _take_whole_messages(self, data: bytes) -> bytes:
        """Take the unfragmented messages that `data` begins with; what is left, for the library to parse."""
        at, size, now_ns = 0, len(data), self._now_ns
        while size - at >= 4 and (kind := data[at]) in (_WHOLE_TEXT, _WHOLE_BINARY):
            length, start = data[at + 1], at + 2
            if length == 126:
                length, start = data[start] << 8 | data[start + 1], start + 2
            elif length > 126:  # masked, or longer than 64 kB
                break
            end = start + length
            if end > size:
                break
            self._arrived(data[start:end], now_ns, kind == _WHOLE_BINARY)
            at = end
        if not at:
            return data
        self._bytes.passed(at)
        return data[at:]

    def _arrived(self, data: bytes, first_ns: int, binary: bool) -> None:
        """A message is whole: for who takes it at once, if none waits before it, else for the reader."""
        if not self.inbox and self.take(data, self._now_ns, first_ns, binary):
            return
        self.inbox.append(Message(data, self._now_ns, first_ns, binary))
        self._tell_reader()

    def write_text(self, payload: bytes) -> None:
        """Frame, mask and write one message. The connection must be open."""
        size = len(payload)
        at = self._keys_used
        if at == len(self._keys):
            self._keys, at = os.urandom(_KEYS_BYTES), 0
        key, self._keys_used = self._keys[at : at + 4], at + 4
        if size < 126:
            head = bytes((_WHOLE_TEXT, 0x80 | size))
        elif size < 65536:
            head = bytes((_WHOLE_TEXT, 0xFE, size >> 8, size & 255))
        else:
            head = bytes((_WHOLE_TEXT, 0xFF)) + size.to_bytes(8)
        self.transport.write(b"".join((head, key, apply_mask(payload, key))))

    def write_ping(self, payload: bytes) -> int:
        """Write a ping of at most 125 bytes; the instant just before it. The connection must be open."""
        key = os.urandom(4)
        frame = b"".join((bytes((_PING, 0x80 | len(payload))), key, apply_mask(payload, key)))
        t_ns = self._clock.now_ns()
        self.transport.write(frame)
        return t_ns

    async def wait_for_news(self) -> None:
        """Until a message came or the connection is lost. For one reader."""
        self._waiter = self.loop.create_future()
        await self._waiter

    def _tell_reader(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    @property
    def has_ended(self) -> bool:
        """Nothing more can come: after a close frame or a broken rule, even if the peer keeps the connection open."""
        return self.is_lost or self.protocol.close_rcvd is not None or self.broken_rule is not None

    @property
    def broken_rule(self) -> Exception | None:
        """What was wrong with the peer's frames; nothing that comes after it is read."""
        wrong = self.protocol.parser_exc
        return None if isinstance(wrong, EOFError) else wrong

    def pause_writing(self) -> None:
        """Writes never wait: our own limit on unread audio ends the dialogue long before memory is short."""

    def resume_writing(self) -> None: ...

    def _find_first_frame(self, data: bytes) -> None:
        """Frames may ride in the packet of the 101 response: count the response's bytes off the stream."""
        assert self._head is not None
        self._head += data
        end = self._head.find(_HEADER_END)
        if end >= 0:
            self._bytes.consume(end + len(_HEADER_END))
            self._head = None
            self.upgraded_ns = self._now_ns

    def process_event(self, event: Any) -> None:
        if not isinstance(event, Frame):
            super().process_event(event)
            return
        first_ns = self._bytes.consume(_frame_bytes(len(event.data)))
        if event.opcode not in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
            super().process_event(event)
            if event.opcode is Opcode.PONG:
                self.on_pong(bytes(event.data), self._now_ns)
            if event.opcode is Opcode.CLOSE:
                self._tell_reader()
            return
        if event.opcode is not Opcode.CONT:
            self._parts, self._first_ns = [], first_ns
            self._binary = event.opcode is Opcode.BINARY
        self._parts.append(bytes(event.data))
        if event.fin:
            data = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
            self._parts = []
            self._arrived(data, self._first_ns, self._binary)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.lost, self.is_lost = exc, True
        self._tell_reader()
        if self._is_released:
            self._let_go()

    def release(self) -> None:
        """Take this object and the library's apart, which hold each other, as soon as the connection is lost."""
        self._is_released = True
        if self.is_lost:
            self._let_go()

    def _let_go(self) -> None:
        for part in (self.protocol, self):
            part.__dict__.clear()


class _Connect(connect):
    """Follows no redirect: the key goes to the address that the user gave, and to no other."""

    def process_redirect(self, exc: Exception) -> Exception:
        return exc


def _frame_bytes(payload: int) -> int:
    """Size on the wire of an unmasked frame (RFC 6455 §5.2)."""
    return payload + (2 if payload < 126 else 4 if payload < 65536 else 10)


class WebSocketTransport:
    """A `Transport` over one `StampingConnection`."""

    def __init__(self, ws: StampingConnection, connection: Connection, clock: Clock) -> None:
        self._ws = ws
        self._clock = clock
        self.connection = connection

    async def send(self, text: str) -> int:
        t_ns = self.send_now(text.encode())
        if t_ns is not None:
            return t_ns
        ws = self._ws
        if ws.has_ended:
            raise self._end()
        try:
            await ws.send(text)  # waits for the end and says how it came
        except WsClosed as error:
            raise self._end() from error
        return self._clock.now_ns()

    def send_now(self, payload: bytes) -> int | None:
        ws = self._ws
        if ws.protocol.state is not _OPEN or ws.transport.is_closing():
            return None
        ws.write_text(payload)
        return self._clock.now_ns()

    def offer(self, take: Take) -> None:
        self._ws.take = take

    async def receive(self) -> Message:
        ws = self._ws
        while not ws.inbox:
            if ws.has_ended:
                raise self._end()
            await ws.wait_for_news()
        return ws.inbox.popleft()

    def _end(self) -> TransportError:
        ws = self._ws
        if ws.flooded:
            return Flood(f"the server sent more than the {ws._byte_cap} bytes that one dialogue may bring")
        protocol = ws.protocol
        received, sent = protocol.close_rcvd, protocol.close_sent
        if received is not None and (protocol.close_rcvd_then_sent or sent is None):
            return ConnectionClosed("peer", received.code, received.reason)
        if sent is not None:
            why = f"the server broke the WebSocket protocol: {sent.reason}" if ws.broken_rule else sent.reason
            return ConnectionClosed("us", sent.code, why)
        if ws.lost is not None:
            return ConnectionReset(f"the connection broke ({ws.lost})")
        return ConnectionClosed("peer", 1006, "end of stream without a close frame")

    @property
    def buffered_bytes(self) -> int:
        return self._ws.transport.get_write_buffer_size()

    @property
    def last_sign_ns(self) -> int:
        return self._ws.last_sign_ns

    def ping(self, payload: bytes) -> int | None:
        ws = self._ws
        if ws.protocol.state is not _OPEN or ws.transport.is_closing():
            return None
        return ws.write_ping(payload)

    def tell_pongs(self, told: Callable[[bytes, int], None]) -> None:
        self._ws.on_pong = told

    def tcp_round_trip(self) -> TcpRoundTrip | None:
        return tcp_round_trip(self._ws.transport.get_extra_info("socket"))

    def release(self) -> None:
        self._ws.release()

    async def close(self) -> None:
        if self._ws.broken_rule is None:
            with contextlib.suppress(TimeoutError, WsClosed):
                async with asyncio.timeout(_CLOSE_S + 1):
                    await self._ws.close()
        self._ws.transport.abort()  # a peer that keeps the connection open after the close is not waited for

    def abort(self) -> None:
        self._ws.transport.abort()


async def open_websocket(
    url: str,
    *,
    headers: Mapping[str, str],
    clock: Clock,
    timeout_s: float,
    byte_cap: int,
    secrets: Secrets,
    tls: ssl.SSLContext | None = None,
) -> WebSocketTransport:
    """Connect and upgrade. Loopback is never proxied.

    Raises `SetupError` (address), `ConnectFailed`, `ConnectTimeout`, `HandshakeRefused`, each with what to do about it.
    """
    host, port, secure = address_of(url)
    shown = secrets.mask_url(url)
    proxy = None if _is_loopback(host) else _proxy_for(host, secure)
    try:
        async with asyncio.timeout(timeout_s):
            return await _open(url, host, port, secure, proxy, headers, clock, byte_cap, tls, secrets)
    except TimeoutError as error:
        raise ConnectTimeout(
            f"no WebSocket at {shown} within {timeout_s:g} s", "Is the server up, and is this its address?"
        ) from error
    except InvalidStatus as error:
        raise _refused(error, shown, secrets) from error
    except (InvalidHandshake, InvalidURI) as error:
        raise ConnectFailed(
            f"{shown} did not answer as a WebSocket server ({secrets.mask(str(error))})",
            "Check the port and the path",
        ) from error
    except WsClosed as error:  # cut off while the library was still writing its request
        raise ConnectFailed(f"{shown} hung up before the connection stood", "Check the port and the path") from error
    except ssl.SSLError as error:
        raise _tls_failed(error, shown, secure) from error
    except OSError as error:
        raise _os_failed(error, shown, proxy, secrets, secure) from error


async def _open(
    url: str,
    host: str,
    port: int,
    secure: bool,
    proxy: str | None,
    headers: Mapping[str, str],
    clock: Clock,
    byte_cap: int,
    tls: ssl.SSLContext | None,
    secrets: Secrets,
) -> WebSocketTransport:
    phases: dict[str, int] = {}
    extra: dict[str, Any] = {}
    began_ns = clock.now_ns()
    if proxy is None:
        extra["sock"] = await _tcp(host, port, clock, phases)
    if secure:
        extra |= {"ssl": tls or ssl.create_default_context(), "server_hostname": host}
    tcp_ns = clock.now_ns()

    def create(*args: Any, **kwargs: Any) -> StampingConnection:
        return StampingConnection(*args, clock=clock, byte_cap=byte_cap, **kwargs)

    ws = await _Connect(
        url,
        create_connection=cast(Any, create),  # any factory serves; the library's annotation asks for a class
        additional_headers=dict(headers),
        compression=None,
        max_size=None,
        max_queue=None,
        ping_interval=KEEPALIVE_S,
        ping_timeout=None,
        close_timeout=_CLOSE_S,
        open_timeout=None,
        write_limit=0,  # uvloop then writes within the call, not at the end of its round: the stamp is of the write
        proxy=proxy,
        **extra,
    )
    assert isinstance(ws, StampingConnection)
    if secure and proxy is None:
        phases["tls"] = ws.made_ns - tcp_ns
    phases["upgrade" if proxy is None else "proxy_and_upgrade"] = ws.upgraded_ns - (
        ws.made_ns if proxy is None else began_ns
    )
    keepalive = f"a ping each {KEEPALIVE_S} s; a late pong never closes the connection"
    connection = Connection(ws.upgraded_ns, phases, secrets.mask_url(proxy) if proxy else "", keepalive)
    return WebSocketTransport(ws, connection, clock)


async def _tcp(host: str, port: int, clock: Clock, phases: dict[str, int]) -> socket.socket:
    """A connected socket, its name look-up and connection timed apart."""
    loop = asyncio.get_running_loop()
    began_ns = clock.now_ns()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    resolved_ns = clock.now_ns()
    phases["dns"] = resolved_ns - began_ns
    failure: OSError | None = None
    for family, kind, protocol, _, address in found:
        sock = socket.socket(family, kind, protocol)
        sock.setblocking(False)
        try:
            await loop.sock_connect(sock, address)
        except OSError as error:
            sock.close()
            failure = error
        except BaseException:
            sock.close()
            raise
        else:
            phases["tcp"] = clock.now_ns() - resolved_ns
            return sock
    raise failure or OSError(f"no address found for {host}")


def address_of(url: str) -> tuple[str, int, bool]:
    """Host, port and whether it is secure. Raises `SetupError` for what is no WebSocket address."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise SetupError(f"the address is not valid ({error})", "Give it as ws://HOST:PORT/PATH") from error
    if parts.scheme not in ("ws", "wss") or not parts.hostname:
        raise SetupError(
            f"the target must begin with ws:// or wss:// and name a host (got scheme {parts.scheme!r})",
            "For example ws://127.0.0.1:8765/v1/realtime",
        )
    secure = parts.scheme == "wss"
    return parts.hostname, port or (443 if secure else 80), secure


def _is_loopback(host: str) -> bool:
    return host == "localhost" or host.endswith(".localhost") or host == "::1" or host.startswith("127.")


def _proxy_for(host: str, secure: bool) -> str | None:
    """The environment's proxy for a remote host, as `urllib` reads it."""
    if urllib.request.proxy_bypass(host):
        return None
    proxies = urllib.request.getproxies()
    for name in ("wss", "https", "all") if secure else ("ws", "http", "all"):
        if name in proxies:
            return proxies[name]
    return None


def _refused(error: InvalidStatus, shown: str, secrets: Secrets) -> HandshakeRefused:
    status = error.response.status_code
    body = bytes(error.response.body or b"")[:200].decode(errors="replace").strip().splitlines()
    said = f": {secrets.mask(body[0])}" if body else ""
    headers = error.response.headers
    if "Location" in headers and 300 <= status < 400:
        said = f", which leads to {secrets.mask_url(headers['Location'])}"
    elif "Retry-After" in headers:
        said += f" (Retry-After: {secrets.mask(headers['Retry-After'])})"
    mends = {
        401: "Give a valid key with --api-key-env NAME",
        403: "This key may not use that address or model",
        404: "Check the path; OpenAI Realtime servers use /v1/realtime",
        429: "The server limits the rate: wait, or use fewer sessions",
        503: "The server has no free place: wait, or use fewer sessions",
    }
    mend = mends.get(status, "Give the new address, if you trust it with your key" if 300 <= status < 400 else "")
    return HandshakeRefused(f"{shown} answered HTTP {status}{said}", status, mend)


def _tls_failed(error: ssl.SSLError, shown: str, secure: bool) -> ConnectFailed:
    reason = getattr(error, "verify_message", "") or error.reason or str(error)
    mend = "Use a certificate that this machine trusts (SSL_CERT_FILE), or the right host name"
    if "WRONG_VERSION_NUMBER" in str(error) or "RECORD_LAYER" in str(error):
        mend = "The server speaks plain text there: use ws:// instead of wss://"
    return ConnectFailed(f"TLS failed at {shown}: {reason}", mend)


def _os_failed(error: OSError, shown: str, proxy: str | None, secrets: Secrets, secure: bool) -> ConnectFailed:
    if error.errno in (errno.EMFILE, errno.ENFILE):
        return ConnectFailed(
            f"no file descriptor is left for a connection to {shown} ({error.strerror})",
            "Raise the limit (ulimit -n), or use fewer sessions",
        )
    if proxy is not None:
        return ConnectFailed(
            f"proxy {secrets.mask_url(proxy)} refused or failed for {shown} ({secrets.mask(str(error))})",
            "Mend the proxy, or name the host in NO_PROXY",
        )
    if isinstance(error, ConnectionRefusedError):
        return ConnectFailed(f"nothing listens at {shown} (connection refused)", "Start the server, or check the port")
    if isinstance(error, socket.gaierror):
        return ConnectFailed(f"the host of {shown} is not known ({error.strerror})", "Check the name")
    if isinstance(error, ConnectionResetError):
        mend = "If it speaks plain text there, use ws:// instead" if secure else "If it wants TLS, use wss:// instead"
        return ConnectFailed(f"{shown} hung up before the connection stood", mend)
    return ConnectFailed(f"cannot connect to {shown} ({error.strerror or error})", "Check the address and the network")
