"""When what the agent says leaves the loudspeaker, by the device's own stamps."""

from __future__ import annotations

from collections.abc import Callable

from harness.microphone.device import Sounded
from sessions.clock import samples_to_ns
from sessions.events import AnyEvent, Played, Xrun


class Playing:
    """Told each block that was played; logs where a stretch without a gap begins."""

    def __init__(self, log: Callable[[AnyEvent], None], rate_hz: int) -> None:
        self._log, self._rate_hz = log, rate_hz
        self._next: tuple[str, int] | None = None
        """Reply and sample that go on without a gap where the next block begins with them."""

    def sounded(self, block: Sounded) -> None:
        if block.late:
            self._log(Xrun(t_ns=block.given_ns, what="output underflow"))
        follows = None if block.late else self._next
        for piece in block.pieces:
            if follows != (piece.reply, piece.first_sample):
                at_ns = block.at_ns + samples_to_ns(piece.offset, self._rate_hz)
                self._log(Played(t_ns=at_ns, reply=piece.reply, first_sample=piece.first_sample))
            follows = piece.reply, piece.first_sample + piece.samples
        is_full = bool(block.pieces) and block.pieces[-1].offset + block.pieces[-1].samples == len(block.pcm)
        self._next = follows if is_full else None
