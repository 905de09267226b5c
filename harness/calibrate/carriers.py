"""The transports that clients of ours use, each with what answers over it while it is calibrated."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from clients.dialect import CLIENTS, Dialect, SessionOptions
from clients.transports import Transport
from clients.transports.websocket import open_websocket
from harness.calibrate.truth import AUDIO
from sessions.clock import Clock
from sessions.runs import Limits
from sessions.secrets import Secrets
from sessions.tables import load

LIMITS = Limits(connect_s=10, reply_s=20, idle_s=10)
"""The lateness limit is that of a run by default: what would be no figure there is none here."""


@dataclass(frozen=True, slots=True)
class Carrier:
    """A transport. front, protocol: what it is tried with, by their names · audio: the type of a written message that
    holds audio."""

    front: str
    protocol: str
    audio: str
    open: Callable[..., Awaitable[Transport]]

    def dialect(self) -> Dialect:
        dialect: Dialect = load(CLIENTS, self.protocol, "protocol")(SessionOptions())
        return dialect

    def dialler(self, url: str, clock: Clock) -> Callable[[], Awaitable[Transport]]:
        """Opens the transport to a metronome at `url`."""

        async def dial() -> Transport:
            return await self.open(
                url,
                headers={},
                clock=clock,
                timeout_s=LIMITS.connect_s,
                byte_cap=LIMITS.bytes_per_dialogue,
                secrets=Secrets(),
            )

        return dial


TRANSPORTS: dict[str, Carrier] = {
    "websocket": Carrier(front="openai-realtime", protocol="openai-realtime", audio=AUDIO, open=open_websocket),
}
