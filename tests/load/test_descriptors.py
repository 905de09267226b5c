"""Room for sockets, and what is done when it is gone."""

from __future__ import annotations

import errno
import resource

import pytest

from harness.load import descriptors
from harness.load.descriptors import room_for, when_there_is_room
from sessions.clock import NS_PER_S
from sessions.errors import SetupError


class Ticking:
    """A clock on which each look takes a second."""

    def __init__(self) -> None:
        self._now_ns = 0

    def now_ns(self) -> int:
        self._now_ns += NS_PER_S
        return self._now_ns

    async def sleep_until_ns(self, due_ns: int) -> None:
        self._now_ns = max(self._now_ns, due_ns)


def none_left() -> OSError:
    return OSError(errno.EMFILE, "Too many open files", "events.jsonl")


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_write_waits_until_a_descriptor_is_free(wrapped: bool) -> None:
    tries = []

    def write() -> None:
        tries.append(1)
        if len(tries) < 4:
            if wrapped:
                raise SetupError("cannot write") from none_left()
            raise none_left()

    when_there_is_room(write, Ticking())
    assert len(tries) == 4


def test_it_does_not_wait_for_ever() -> None:
    def write() -> None:
        raise none_left()

    with pytest.raises(SetupError, match=r"no file descriptor is left to write events\.jsonl\. Raise the limit"):
        when_there_is_room(write, Ticking())


@pytest.mark.parametrize("error", [OSError(errno.ENOSPC, "No space"), SetupError("full"), ValueError("else")])
def test_any_other_error_is_raised_at_once(error: Exception) -> None:
    tries = []

    def write() -> None:
        tries.append(1)
        raise error

    with pytest.raises(type(error)):
        when_there_is_room(write, Ticking())
    assert len(tries) == 1


def test_room_is_made_up_to_the_hard_limit_and_counts_what_is_open(monkeypatch: pytest.MonkeyPatch) -> None:
    set_to = []
    monkeypatch.setattr(descriptors, "_in_use", lambda: 46)
    monkeypatch.setattr(resource, "getrlimit", lambda which: (50, 200))
    monkeypatch.setattr(resource, "setrlimit", lambda which, limits: set_to.append(limits))
    room_for(10)
    assert set_to == [(104, 200)]
    with pytest.raises(SetupError, match=r"150 sessions need 244 file descriptors, this machine allows 200\. .* fewer"):
        room_for(150)
    monkeypatch.setattr(resource, "getrlimit", lambda which: (50, 60))
    with pytest.raises(SetupError, match=r"1 session needs 95 .*\(ulimit -Hn 95\)$"):
        room_for(1)
