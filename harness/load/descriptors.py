"""Room for sockets: each session needs one descriptor."""

from __future__ import annotations

import resource

from sessions.errors import SetupError

OWN = 64
"""What this process needs beside its sessions: files, the loop, the writer."""


def room_for(sessions: int) -> None:
    """Raise this process's soft limit as far as needed. Raises `SetupError` where the hard limit forbids it."""
    needed = sessions + OWN
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise SetupError(
            f"{sessions} sessions need {needed} file descriptors, this machine allows {hard}",
            f"Raise the limit (ulimit -Hn {needed}), or use fewer sessions",
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
