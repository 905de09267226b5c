"""Every error that this project raises on purpose.

```
DuologueError
├── SetupError            the user can fix it: one line, no traceback, exit code 2
│   ├── BadAudio          a file that is not usable audio
│   ├── BadFile           a script, behaviour or plan that does not fit its schema (names line and field)
│   ├── MissingExtra      an optional package is not installed (names the command that installs it)
│   └── MissingWeights    a model file is nowhere to be had (names it and how to get it)
├── TransportError        the path to the peer
│   ├── ConnectFailed     no connection: address, refused, TLS, proxy
│   ├── ConnectTimeout    the connection or the session set-up took longer than its limit
│   ├── HandshakeRefused  the server answered the upgrade with an HTTP status (401, 404, 429 …)
│   ├── ConnectionClosed  a close frame or end of stream (says by whom, code, reason)
│   ├── ConnectionReset   the connection broke without a close
│   ├── PeerDoesNotRead   our write buffer grew past its limit
│   └── Flood             the peer sent more bytes than the dialogue's cap
├── PeerError             the peer broke its protocol, or refused: which message and why
├── MetricUnavailable     not applicable here, with the reason
└── JudgeError            a judge or scorer failed on one item
```

Errors carry fields; the text is made in `__str__`. Lower errors are chained and mapped once, at the transport's edge.
"""

from __future__ import annotations


class DuologueError(Exception):
    """Base of the tree. `mend` tells what to do about it, where that is known."""

    def __init__(self, what: str, mend: str = "") -> None:
        super().__init__(what, mend)
        self.what = what
        self.mend = mend

    def __str__(self) -> str:
        return f"{self.what}. {self.mend}" if self.mend else self.what


class SetupError(DuologueError):
    """The user can fix it. Shown as one line, exit code 2."""


class BadAudio(SetupError):
    """An audio file that cannot be used, and why."""


class BadFile(SetupError):
    """A structured file that does not fit its schema."""

    def __init__(self, path: str, problem: str, line: int | None = None, field: str = "", mend: str = "") -> None:
        self.path, self.problem, self.line, self.field = path, problem, line, field
        where = path if line is None else f"{path}:{line}"
        what = f"{where}: {field}: {problem}" if field else f"{where}: {problem}"
        super().__init__(what, mend)


class MissingExtra(SetupError):
    """An optional package is missing."""

    def __init__(self, package: str, extra: str, mend: str = "") -> None:
        self.package, self.extra = package, extra
        super().__init__(
            f"this needs the package {package!r}, which is not installed",
            mend or f"Install it with: pip install 'duologue[{extra}]'",
        )


class MissingWeights(SetupError):
    """A model file was found nowhere."""


class TransportError(DuologueError):
    """Something between us and the peer."""


class ConnectFailed(TransportError):
    """No connection could be made."""


class ConnectTimeout(TransportError):
    """Connecting, or setting the session up, took longer than its limit."""


class HandshakeRefused(TransportError):
    """The server answered the WebSocket upgrade with an HTTP status."""

    def __init__(self, what: str, status: int, mend: str = "") -> None:
        super().__init__(what, mend)
        self.status = status


class ConnectionClosed(TransportError):
    """The connection was closed in order.

    by: "peer" or "us" · code: WebSocket close code · reason: as sent.
    """

    def __init__(self, by: str, code: int, reason: str = "") -> None:
        self.by, self.code, self.reason = by, code, reason
        who = "the server" if by == "peer" else "this client"
        super().__init__(f"closed by {who} with code {code}" + (f" ({reason})" if reason else ""))


class ConnectionReset(TransportError):
    """The connection broke without a close frame."""


class PeerDoesNotRead(TransportError):
    """More than the allowed audio waits in our write buffer."""


class Flood(TransportError):
    """The peer sent more than the byte cap of a dialogue."""


class PeerError(DuologueError):
    """The peer broke its protocol or refused a request.

    message_type: the message at fault · code: the peer's own error code, where it gave one.
    """

    def __init__(self, what: str, message_type: str = "", code: str = "", mend: str = "") -> None:
        super().__init__(what, mend)
        self.message_type, self.code = message_type, code


class MetricUnavailable(DuologueError):
    """A metric that does not apply here, with the reason."""


class JudgeError(DuologueError):
    """A judge or scorer failed on one item."""
