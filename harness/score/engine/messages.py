"""What the engine and a worker say to each other: one question, one answer; msgpack behind four bytes of length.

Sound never goes through the pipe: a worker is told in which file it lies.
"""

from __future__ import annotations

from typing import Any

import msgspec

from metrics.scoring import Sample, Score

HEAD_BYTES = 4


class Load(msgspec.Struct, frozen=True, tag=True):
    """Load a metric's model and check it. figures: that every score is to have. → Loaded or Refused"""

    make: str
    options: dict[str, str]
    figures: list[str]


class Loaded(msgspec.Struct, frozen=True, tag=True):
    """check: what the self-check found wrong, "" for nothing."""

    check: str


class Identify(msgspec.Struct, frozen=True, tag=True):
    """→ Identified or Refused"""

    identify: str
    options: dict[str, str]


class Identified(msgspec.Struct, frozen=True, tag=True):
    identity: dict[str, str]


class Refused(msgspec.Struct, frozen=True, tag=True):
    """It cannot be had, and why. missing: something is not installed or not there, which is no error · final: the
    same would come of a second try."""

    why: str
    missing: bool
    final: bool


class Item(msgspec.Struct, frozen=True):
    """A sound: float32 samples in the file `place`."""

    sample: Sample
    place: str
    samples: int
    rate_hz: int


class Listen(msgspec.Struct, frozen=True, tag=True):
    """Score these together. → Scored or Broke"""

    items: list[Item]


class Scored(msgspec.Struct, frozen=True, tag=True):
    scores: list[Score]


class Broke(msgspec.Struct, frozen=True, tag=True):
    """The metric raised something; the worker lives on. meant: it was raised on purpose, and the worker is sound."""

    why: str
    meant: bool = False


class Call(msgspec.Struct, frozen=True):
    """Samples that are derived together, and what other metrics gave for each."""

    samples: list[Sample]
    inputs: list[dict[str, Score]]


class Derive(msgspec.Struct, frozen=True, tag=True):
    """→ Derived"""

    derive: str
    options: dict[str, str]
    figures: list[str]
    calls: list[Call]


class Derived(msgspec.Struct, frozen=True, tag=True):
    """One answer per call."""

    answers: list[Scored | Broke]


class Look(msgspec.Struct, frozen=True, tag=True):
    """What does the header of an audio file say? → Seen or Unreadable"""

    path: str


class Seen(msgspec.Struct, frozen=True, tag=True):
    samples: int
    rate_hz: int


class Read(msgspec.Struct, frozen=True, tag=True):
    """Read an audio file into raw files, by rate; 0 for its own. → Heard or Unreadable"""

    path: str
    places: dict[int, str]


class Heard(msgspec.Struct, frozen=True, tag=True):
    """As `sound.Sound`."""

    sha256: str
    rate_hz: int
    samples: int
    lengths: dict[int, int]
    note: str


class Unreadable(msgspec.Struct, frozen=True, tag=True):
    why: str


Request = Load | Identify | Listen | Derive | Look | Read
Answer = Loaded | Identified | Refused | Scored | Broke | Derived | Seen | Heard | Unreadable

_requests = msgspec.msgpack.Decoder(Request)
_answers = msgspec.msgpack.Decoder(Answer)


def frame(message: Request | Answer) -> bytes:
    raw = msgspec.msgpack.encode(message, enc_hook=_plain)
    return len(raw).to_bytes(HEAD_BYTES, "big") + raw


def request(raw: bytes) -> Request:
    return _requests.decode(raw)


def answer(raw: bytes) -> Answer:
    return _answers.decode(raw)


def _plain(value: Any) -> Any:
    """numpy's numbers and arrays, as metrics like to leave them in details."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a score holds a {type(value).__name__}, which is no JSON type")
