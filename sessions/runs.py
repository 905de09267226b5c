"""The run folder: plan, journal, dialogues. Killed at any point it can be read and resumed.

```
plan.json          what was asked for
journal.jsonl      one line per finished dialogue, fsynced: the truth about what is done
audio/<sha>.flac   the user's clips, by content, so that the folder alone can be resumed and rendered again; beside each
                   its sidecar
dialogues/<id>/    events.jsonl, received.bin, then the files derived from them
```
Everything is written beside its place and renamed.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import io
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Annotated, Any, BinaryIO, Protocol, TypeVar

import msgspec
from msgspec import Meta

from sessions.errors import BadFile, SetupError
from sessions.events import AnyEvent, Count, RateHz, encode_log

PLAN_VERSION = 1
SIDECAR = ".speech.json"
"""What a clip's name goes on with in the name of its sidecar (sessions/sidecar.py)."""


FileName = Annotated[str, Meta(pattern=r"^[^./\\][^/\\]*$")]
"""Of what lies in the run folder: a folder from a stranger leads to no other place."""
Span = Annotated[float, Meta(ge=-1e9, le=1e9)]
"""Milliseconds or seconds, of a length that a clock can add."""


class PlannedTurn(msgspec.Struct, frozen=True):
    """One user turn. audio: content name of the clip in `audio/` (24 kHz) · last_sample: n in that clip.

    The rest as in `sessions.scripts.ScriptTurn`; pauses and onset_sample are indices into the same clip.
    """

    audio: FileName
    samples: Count
    last_sample: int
    method: str
    text: str = ""
    start_after: str = "reply"
    gap_ms: Span = 300.0
    at_ms: Span | None = None
    timeout_s: Span = 30.0
    kind: str = "speech"
    onset_sample: Count = 0
    pauses: list[tuple[int, int]] = []
    watch_ms: int = 2000
    reference: str = ""
    keywords: list[str] = []
    rubric: str = ""
    language: str = ""


class PlannedScript(msgspec.Struct, frozen=True):
    name: str
    sha256: str
    language: str
    instructions: str
    turns: list[PlannedTurn]
    perturb: str = ""
    """What was done to its sounds (sessions/perturb), "" for nothing."""
    perturb_seed: int = 0


class Limits(msgspec.Struct, frozen=True):
    """When to stop waiting, and what makes a turn invalid."""

    lateness_ms: Span = 20.0
    connect_s: Span = 15.0
    reply_s: Span = 120.0
    """From the end of the user's turn to the end of the reply."""
    idle_s: Span = 45.0
    """Without any message while a reply is awaited."""
    bytes_per_dialogue: int = 256 * 1024 * 1024
    unread_ms: Span = 200.0
    """Audio that may wait in the write buffer before the peer counts as not reading."""


class Load(msgspec.Struct, frozen=True):
    """How many dialogues at once.

    Closed loop (rate_per_s 0): `sessions` dialogues are kept going, the first ones begin over `ramp_s`. Open loop:
    dialogues begin `rate_per_s` times a second, `arrivals` "poisson" (by `seed`) or "constant", whether or not earlier
    ones are over; from `max_sessions` at once (0: no limit) on they begin late, and the delay is told.
    think: closed loop, the pause between two dialogues of a session, as `2s`, `1s-5s` or `exp:3s` (by `seed`).
    duration_s: whole rounds are begun for that long, in place of a number of them (0: as many as the plan repeats).
    """

    sessions: int = 1
    ramp_s: float = 0.0
    rate_per_s: float = 0.0
    arrivals: str = "poisson"
    max_sessions: int = 0
    seed: int = 1
    think: str = ""
    duration_s: float = 0.0


class Share(msgspec.Struct, frozen=True):
    """One of `of` equal shares of a plan, by `index` from 0: dialogues index, index + of, index + 2·of … of its order,
    the same of its sessions, and in open loop the arrivals of just these dialogues. All shares together are the plan.
    """

    index: int = 0
    of: int = 1

    def part(self, count: int) -> int:
        """How many of `count` fall to this share."""
        return len(range(self.index, count, self.of))

    def divided(self, index: int, of: int) -> Share:
        """One of `of` shares of this share."""
        return Share(self.index + self.of * index, self.of * of)


class MicrophoneUse(msgspec.Struct, frozen=True):
    """A conversation by microphone. microphone, loudspeaker: names of the devices · their rates · end_after_ms: so much
    quiet ends a turn."""

    microphone: str
    loudspeaker: str
    microphone_hz: int
    loudspeaker_hz: int
    end_after_ms: int


class MergedPart(msgspec.Struct, frozen=True):
    """A run that a merged one was made of. name: of its folder · dialogues: that it brought · the rest as its plan."""

    name: str
    created: str
    dialogues: int
    shard: Share
    workers: int
    software: dict[str, str]
    floor: dict[str, float]


class Plan(msgspec.Struct, frozen=True):
    """All that was asked, with versions. Secrets never stand here: `headers` are names only."""

    created: str
    target: str
    protocol: str
    protocol_class: str
    turn_detection: str
    server_vad: dict[str, int | float]
    """Whole numbers stay whole: servers tell 300 from 300.0."""
    voice: str
    headers: list[str]
    scripts: list[PlannedScript]
    repeat: int
    """Whole rounds that count; 0 where `load.duration_s` says how long they are begun."""
    warmup: int
    frame_ms: Annotated[int, Meta(ge=1, le=10_000)]
    rate_hz: RateHz
    limits: Limits
    definitions: dict[str, str]
    """Version of every definition used: metrics, gate, speech end, play-out, statistics."""
    software: dict[str, str]
    """duologue, python, platform, event loop, and the packages that touch the clock or the audio."""
    floor: dict[str, float]
    """This machine's own timing floor before the run, in milliseconds (harness/runs/floor.py)."""
    api_key_env: str = ""
    transcribe: str = ""
    """The model that the server was asked to write the user's words down with, "" for none."""
    weights: dict[str, str] = {}
    """Which weight files served, by name, where this run started the server itself."""
    load: Load = Load()
    shard: Share = Share()
    """What this host performs of the whole."""
    workers: int = 1
    """Processes of this host that perform it together."""
    merged: list[MergedPart] = []
    """The runs that this one was put together from; then `floor` is the worst of theirs."""
    reflector: str = ""
    """The reflector that tells the network's share, "" for none."""
    microphone: MicrophoneUse | None = None
    """A person spoke; the script is what was said, written down afterwards. null where a script was performed."""
    version: int = PLAN_VERSION


class JournalLine(msgspec.Struct, frozen=True):
    """One finished dialogue. number: position in the plan's order · warmup: in no figure."""

    id: FileName
    number: Count
    script: str
    warmup: bool
    turns: int


class RunFolder:
    """One run on disk. Use `create` or `open`; hold `locked()` while writing."""

    def __init__(self, path: Path, plan: Plan) -> None:
        self.path = path
        self.plan = plan
        self.lock_descriptor: int | None = None
        """While it is locked: a process that inherits it keeps others out for as long as it lives."""

    @classmethod
    def create(cls, path: Path, plan: Plan) -> RunFolder:
        """A new run. Raises `SetupError` when the folder already holds one, or cannot be made."""
        with disk_errors(path):
            path.mkdir(parents=True, exist_ok=True)
            if (path / "plan.json").exists():
                raise SetupError(
                    f"{path} already holds a run", f"Choose another --out, or go on with it: --resume {path}"
                )
            (path / "dialogues").mkdir(exist_ok=True)
            (path / "audio").mkdir(exist_ok=True)
            written = msgspec.json.encode(plan)
            write_atomic(path / "plan.json", msgspec.json.format(written, indent=2))
        return cls(path, msgspec.json.decode(written, type=Plan))  # as who opens it later has it, whole numbers and all

    @classmethod
    def open(cls, path: Path) -> RunFolder:
        """An existing run. Raises `SetupError` or `BadFile`."""
        file = path / "plan.json"
        if not file.is_file():
            inside = [str(plan.parent) for plan in sorted(path.glob("*/plan.json"))]
            mend = "Give the folder that a run printed"
            if inside:
                mend = f"Give one of the runs in it: {', '.join(inside[:3])}{' …' if len(inside) > 3 else ''}"
            around = next((above for above in path.absolute().parents[:2] if (above / "plan.json").is_file()), None)
            if around is not None:
                mend = f"It lies in a run; give that: {around}"
            raise SetupError(f"{path} is not a run folder (no plan.json in it)", mend)
        return cls(path, read_json(file, Plan, PLAN_VERSION, of="plan "))

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Only one process writes a run. Raises `SetupError` when another one does."""
        with disk_errors(self.path):
            lock = (self.path / ".lock").open("w")
        with lock:
            take_lock(lock, self.path, f"another process is writing the run {self.path}")
            self.lock_descriptor = lock.fileno()
            try:
                yield
            finally:
                self.lock_descriptor = None

    def discard(self) -> None:
        """Take back a run in which no dialogue was performed. One that holds any stays as it is."""
        with contextlib.suppress(OSError):
            (self.path / "dialogues").rmdir()  # refuses while anything is in it
            for turn in (turn for script in self.plan.scripts for turn in script.turns):
                for file in (self.clip(turn.audio), self.path / "audio" / f"{turn.audio}.flac{SIDECAR}"):
                    file.unlink(missing_ok=True)
            (self.path / "audio").rmdir()
            for name in ("plan.json", ".lock"):
                (self.path / name).unlink(missing_ok=True)
            self.path.rmdir()

    def amend(self, plan: Plan) -> None:
        """Write the plan anew: what a person says by microphone is known when it was said."""
        with disk_errors(self.path):
            write_atomic(self.path / "plan.json", indented(plan))
        self.plan = read_json(self.path / "plan.json", Plan, PLAN_VERSION, of="plan ")

    def dialogue(self, dialogue_id: str) -> Path:
        return self.path / "dialogues" / dialogue_id

    def clip(self, name: str) -> Path:
        return self.path / "audio" / f"{name}.flac"

    def journal(self) -> list[JournalLine]:
        """What is done, in order of finishing. A torn last line (a kill in mid-write) is not counted."""
        file = self.path / "journal.jsonl"
        if not file.exists():
            return []
        lines = _whole(file).split(b"\n")
        done = []
        for number, line in enumerate(lines[:-1], 1):
            try:
                done.append(msgspec.json.decode(line, type=JournalLine))
            except (msgspec.DecodeError, msgspec.ValidationError, RecursionError) as error:
                raise BadFile(str(file), str(error), line=number) from error
        return done

    def must_hold_a_dialogue(self) -> None:
        """Raise `SetupError` where the journal names none: nothing can be derived."""
        if not self.journal():
            raise SetupError(
                f"the run {self.path} has no finished dialogue", f"Go on with it: duologue measure --resume {self.path}"
            )

    def append_journal(self, line: JournalLine) -> None:
        """Write one line and wait until it is on disk. Several processes may do so at once."""
        file = self.path / "journal.jsonl"
        with disk_errors(file), file.open("ab+") as out:
            fcntl.flock(out, fcntl.LOCK_EX)  # until it is closed
            _drop_torn_tail(out)
            out.write(msgspec.json.encode(line) + b"\n")
            out.flush()
            os.fsync(out.fileno())

    def write_dialogue(self, dialogue_id: str, events: Iterable[AnyEvent], received: bytes) -> Path:
        """Put a dialogue's raw record in its place, whole or not at all."""
        place = self.dialogue(dialogue_id)
        with disk_errors(place):
            place.mkdir(parents=True, exist_ok=True)
            write_atomic(place / "received.bin", received)
            write_atomic(place / "events.jsonl", encode_log(events))
        return place


def _drop_torn_tail(file: BinaryIO) -> None:
    """Cut what follows the last newline, so that a new line never joins a torn one."""
    end = file.seek(0, os.SEEK_END)
    if end == 0:
        return
    file.seek(end - 1)
    if file.read(1) != b"\n":
        file.seek(0)
        file.truncate(file.read().rfind(b"\n") + 1)


class Versioned(Protocol):
    """What a file of ours holds: it says by which version of its format."""

    @property
    def version(self) -> int: ...


V = TypeVar("V", bound=Versioned)


def read_json(file: Path, kind: type[V], version: int, *, of: str = "") -> V:
    """The one object in `file`. of: whose version is told, as in "plan ". Raises `BadFile`, also for other versions."""
    try:
        found = msgspec.json.decode(_whole(file), type=kind)
    except (msgspec.DecodeError, msgspec.ValidationError, RecursionError) as error:
        raise BadFile(str(file), str(error)) from error
    if found.version != version:
        raise BadFile(str(file), f"{of}version {found.version}; this program reads {version}", field="version")
    return found


def _whole(file: Path) -> bytes:
    """All of a file. Raises `SetupError` where the system refuses, or it is none (a pipe would be waited for)."""
    try:
        if file.exists() and not file.is_file():
            raise SetupError(f"cannot read {file}: it is not a regular file", "Take the run from where it was made")
        return file.read_bytes()
    except OSError as error:
        raise SetupError(f"cannot read {file}: {error.strerror}", "Check its permissions") from error


def encoded(value: object) -> bytes:
    """As JSON. Bytes of a file's name that are no UTF-8 become the replacement character."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(_encodable(msgspec.to_builtins(value)))


def indented(value: object) -> bytes:
    """As JSON that people read too."""
    return msgspec.json.format(encoded(value), indent=2)


def _encodable(value: object) -> object:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_encodable(name): _encodable(item) for name, item in value.items()}
    return [_encodable(item) for item in value] if isinstance(value, list) else value


def write_atomic(path: Path, data: bytes | str) -> None:
    """Write beside the place, wait until it is on disk, rename. A full disk leaves the old file untouched."""
    raw = data.encode() if isinstance(data, str) else data
    beside = path.with_name(f".{path.name}.part")
    try:
        with io.FileIO(beside, "w") as out:
            view = memoryview(raw)
            while view:
                view = view[out.write(view) or 0 :]
            os.fsync(out.fileno())
        beside.replace(path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def take_lock(file: IO[Any], place: Path, taken: str) -> None:
    """Have `file` alone, until it is closed. Raises `SetupError`, with `taken` where another process has it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise SetupError(taken, "Wait until it has ended") from error
    except OSError as error:
        raise SetupError(f"cannot lock {place}: {error.strerror or error}", "Choose a place on another disk") from error


AGAIN = "give the command again"
"""What to do where nothing is under way."""


@contextlib.contextmanager
def disk_errors(path: Path, *, then: str = "") -> Iterator[None]:
    """Turn the operating system's refusals into one line that names the place and the mend.

    then: what to do once there is space again; without it, a run that is under way goes on, and all else is given anew.
    """
    try:
        yield
    except OSError as error:
        mends = {
            errno.ENOSPC: f"The disk is full: free some space, then {then or _go_on(path)}",
            errno.EACCES: "Choose a place where you may write",
            errno.EROFS: "The file system is read-only: choose another place",
            errno.ENOTDIR: "A part of that path is a file: choose another place",
            errno.ENAMETOOLONG: "Choose a shorter name",
            errno.EEXIST: "A file stands where the folder should be: choose another place",
        }
        mend = mends.get(error.errno or 0, "")
        raise SetupError(f"cannot write {path}: {error.strerror or error}", mend) from error


def _go_on(path: Path) -> str:
    with contextlib.suppress(OSError):  # a name that is too long cannot even be asked about
        for folder in (path, *path.parents):
            if (folder / "plan.json").exists():
                return f"go on with --resume {folder}"
    return AGAIN
