"""Where what is being heard of a reply is cut off: by the script's interruption, or by the server's word."""

from __future__ import annotations

from collections.abc import Callable

from clients.dialect import Outgoing
from harness.dialogue.link import Link
from harness.dialogue.tracker import LiveReply
from sessions.events import Flushed


class Interrupter:
    """Flushes, cancels and truncates.

    What of a reply comes after it was flushed is received and kept, but never heard. dropped: told whenever one was.
    """

    def __init__(self, link: Link, dropped: Callable[[], None] = lambda: None) -> None:
        self._link = link
        self._dropped = dropped
        self._interrupting: int | None = None
        """The interruption being spoken, where a reply that was asked for before had not begun."""

    def interrupt(self, turn: int) -> None:
        """Class A: `turn` breaks in now. Replies that are not done are cancelled, whatever is left to hear is dropped,
        and the server is told how much of it was heard."""
        asked = self._link.tracker.asked_before(turn)
        is_due = asked is not None and self._link.tracker.is_awaited(asked)
        self._interrupting = turn if is_due else None
        self._cut(turn, "cancel", self._link.clock.now_ns())

    def spoken(self) -> None:
        """The interruption is over: what begins from now on answers it, and what is refused is no cancel of ours."""
        self._interrupting = None
        self._link.tracker.refusals_due = 0

    def reply_began(self, reply: str, t_ns: int) -> None:
        """The answer to what was asked before an interruption comes too late."""
        if self._interrupting is not None:
            self._drop(self._link.tracker.replies[reply], self._interrupting, "cancel", t_ns)

    def server_heard_speech(self, t_ns: int) -> None:
        """Class B and D: the server said so. What was not heard until its word arrived is not heard any more."""
        if self._link.dialect.protocol_class in ("B", "D"):
            turns = self._link.tracker.turns
            self._cut(turns[-1].index if turns else -1, "server", t_ns)

    def _cut(self, turn: int, why: str, t_ns: int) -> None:
        for reply in list(self._link.tracker.replies.values()):
            if reply.is_to_be_heard(t_ns):
                self._drop(reply, turn, why, t_ns)

    def _drop(self, reply: LiveReply, turn: int, why: str, t_ns: int) -> None:
        link = self._link
        reply.flushed_ns = t_ns
        self._dropped()
        link.log(Flushed(t_ns=t_ns, reply=reply.id, turn=turn, why=why))
        if why == "cancel" and reply.done_ns is None:
            several = sum(other.done_ns is None for other in link.tracker.replies.values()) > 1
            self._write(link.dialect.cancel(reply.turn, reply.id if several else ""), reply.turn)
        heard = reply.heard_of_item(t_ns, link.dialect.rate_hz)
        if heard is not None:
            item, heard_ms = heard
            self._write(link.dialect.truncate(reply.turn, item, heard_ms), reply.turn)

    def _write(self, messages: list[Outgoing], turn: int) -> None:
        for message in messages:
            self._link.tracker.refusals_due += 1
            self._link.write_now(message, turn)
