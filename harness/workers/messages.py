"""What a worker and the process that started it say to each other: JSON lines through pipes, nowhere else.

The task holds secrets. It is written into the worker's standard input, never into arguments, environment or a file.
"""

from __future__ import annotations

import dataclasses

import msgspec

from harness.dialogue.record import Record
from harness.dialogue.tracker import LiveReply, LiveTurn, Tracker
from harness.runs.run import Access
from sessions.secrets import Secrets

LINE_BYTES = 2**20
"""No line is as long; a reader with less room would call it an error."""


class Task(msgspec.Struct, frozen=True, tag=True):
    """The first line to a worker. It performs every `of`-th of the dialogues that are left, from `index` on."""

    run: str
    index: int
    of: int
    target: str
    headers: dict[str, str]
    api_key: str
    secrets: list[str]

    def access(self) -> Access:
        secrets = Secrets()
        for value in self.secrets:
            secrets.add(value)
        return Access(self.target, self.headers, self.api_key, secrets)


class Start(msgspec.Struct, frozen=True, tag=True):
    """The instant that is the beginning for all workers, on this host's monotonic clock.

    until_ns: when the last round may begin, where the run lasts for a time.
    """

    began_ns: int
    until_ns: int | None


class GoOn(msgspec.Struct, frozen=True, tag=True):
    """The answer to `Refused`: elsewhere sessions stand, so the refusal is a result."""


class Ready(msgspec.Struct, frozen=True, tag=True):
    """The worker has the run, its clips and its loop, and waits for `Start`."""

    cpu_ns: int


class Begins(msgspec.Struct, frozen=True, tag=True):
    number: int


class Stands(msgspec.Struct, frozen=True, tag=True):
    """A session is set up."""

    number: int


class TurnOver(msgspec.Struct, frozen=True, tag=True):
    """A turn, as far as the live client knew it."""

    number: int
    turn: LiveTurn
    replies: list[LiveReply]
    late_max_ns: int
    cpu_ns: int

    @classmethod
    def of(cls, number: int, turn: int, tracker: Tracker, cpu_ns: int) -> TurnOver:
        live = next(live for live in tracker.turns if live.index == turn)
        return cls(
            number,
            dataclasses.replace(live, refusal=None, complaint=None),
            [dataclasses.replace(reply, text="") for reply in tracker.of_turn(turn)],  # it may be 20 MB of text
            tracker.late_max_ns,
            cpu_ns,
        )

    def tracker(self, rate_hz: int) -> Tracker:
        """What a watcher in this process is shown in place of the worker's own."""
        replies = {reply.id: reply for reply in self.replies}
        return Tracker(rate_hz, replies=replies, turns=[self.turn], late_max_ns=self.late_max_ns)


class Over(msgspec.Struct, frozen=True, tag=True):
    """A dialogue is over and in the journal. gave_up: outcomes of its turns."""

    number: int
    completed: bool
    set_up: bool
    gave_up: list[str]
    cpu_ns: int

    def record(self) -> Record:
        return Record(completed=self.completed, set_up=self.set_up, gave_up=self.gave_up)


class Refused(msgspec.Struct, frozen=True, tag=True):
    """A dialogue found no session, and none stands in this worker: may it go on?"""

    what: str
    mend: str


class Failed(msgspec.Struct, frozen=True, tag=True):
    """The worker's last line when it cannot go on and knows why."""

    what: str
    mend: str


class Done(msgspec.Struct, frozen=True, tag=True):
    """The worker's last line: all of its dialogues are over, or it was asked to stop and has kept what there is."""

    stopped: bool


ToWorker = Start | GoOn
FromWorker = Ready | Begins | Stands | TurnOver | Over | Refused | Failed | Done

task_decoder = msgspec.json.Decoder(Task)
to_worker = msgspec.json.Decoder(ToWorker)
from_worker = msgspec.json.Decoder(FromWorker)


def line(message: Task | ToWorker | FromWorker) -> bytes:
    return msgspec.json.encode(message) + b"\n"
