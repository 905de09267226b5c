"""Room for sockets: each session needs one descriptor. Where they run out all the same, nothing done is lost."""

from __future__ import annotations

import errno
import os
import resource
from collections.abc import Callable

from sessions.clock import NS_PER_MS, NS_PER_S, Clock, block_until_ns
from sessions.errors import SetupError

OWN = 64
"""What this process needs beside its sessions: files, the loop, the writer."""
_USUAL = 16
"""So many of them are in use when a command begins; more were inherited, or are a caller's."""
_PATIENCE_NS = 30 * NS_PER_S
_AGAIN_NS = 50 * NS_PER_MS
_MEND = "Raise the limit (ulimit -n), or use fewer sessions"


def room_for(sessions: int) -> None:
    """Raise this process's soft limit as far as needed. Raises `SetupError` where the hard limit forbids it."""
    needed = sessions + OWN + max(0, _in_use() - _USUAL)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        need = "1 session needs" if sessions == 1 else f"{sessions} sessions need"
        raise SetupError(
            f"{need} {needed} file descriptors, this machine allows {hard}",
            f"Raise the limit (ulimit -Hn {needed})" + (", or use fewer sessions" if sessions > 1 else ""),
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


def _in_use() -> int:
    try:
        return len(os.listdir("/dev/fd"))  # noqa: PTH208 - names are all that is asked
    except OSError:
        return 0


def when_there_is_room(write: Callable[[], None], clock: Clock) -> None:
    """Call `write`; while no descriptor is free, again, until a session that ends has left one. For a plain thread.

    Raises `SetupError` when none came free in half a minute, and whatever else `write` raises.
    """
    last_ns = clock.now_ns() + _PATIENCE_NS
    while True:
        try:
            return write()
        except (OSError, SetupError) as error:
            cause = error if isinstance(error, OSError) else error.__cause__
            if not isinstance(cause, OSError) or cause.errno not in (errno.EMFILE, errno.ENFILE):
                raise
            if clock.now_ns() >= last_ns:
                raise SetupError(f"no file descriptor is left to write {cause.filename or 'a file'}", _MEND) from error
        block_until_ns(clock.now_ns() + _AGAIN_NS)
