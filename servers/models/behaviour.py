"""Behaviour files: what the metronome does, when, and what goes wrong. YAML, `version: 1`; see docs/serve.md.

`reply` holds for every turn; an entry of `turns` changes fields of it for one turn. Times count from the instant at
which the server knew that the user's turn was over.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from servers.speech_model import ConnectionFaults
from sessions import yaml_schema
from sessions.errors import BadFile, SetupError

VERSION = 1
FOLDER = Path(__file__).parent.parent / "behaviours"

Ms = Annotated[float, Meta(ge=0, le=3_600_000)]
WholeMs = Annotated[int, Meta(ge=0, le=3_600_000)]
Count = Annotated[int, Meta(ge=0)]
FaultKind = Literal[
    "error",
    "incomplete",
    "cancelled",
    "close",
    "reset",
    "silent",
    "raw",
    "bad_audio",
    "late_audio",
    "block_loop",
]


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of all parts of a behaviour file."""


class Gap(_File, frozen=True):
    """A stall. Later packets move with it, or, with catch_up, leave as soon as it is over until they are on time."""

    before_packet: Count
    ms: Ms
    catch_up: bool = False


class FaultAt(_File, frozen=True):
    """Something that goes wrong before packet `at_packet` (from 0), or after the last one if not given.

    value: of close, its code; of block_loop, milliseconds · delay_ms: later than that place by so much.
    """

    kind: FaultKind
    at_packet: Count | None = None
    delay_ms: Ms = 0
    code: str = ""
    message: str = ""
    value: Count = 0


class Call(_File, frozen=True):
    name: str
    arguments: str = "{}"


class ReplyFile(_File, frozen=True):
    """Fields of a reply; what is not given keeps its default, or what `reply` says."""

    delay_ms: Ms | UnsetType = UNSET
    duration_ms: WholeMs | UnsetType = UNSET
    packet_ms: Annotated[int, Meta(ge=1, le=3_600_000)] | UnsetType = UNSET
    packet_bytes: tuple[Annotated[int, Meta(ge=1)], ...] | UnsetType = UNSET
    pace: Literal["burst", "realtime", "interval"] | UnsetType = UNSET
    interval_ms: Ms | UnsetType = UNSET
    gaps: tuple[Gap, ...] | UnsetType = UNSET
    end_delay_ms: Ms | UnsetType = UNSET
    leading_silence_ms: Annotated[int, Meta(ge=0, le=60_000)] | UnsetType = UNSET
    leading_noise_dbfs: Annotated[float, Meta(ge=-120, le=0)] | UnsetType | None = UNSET
    leading_offset: Annotated[float, Meta(ge=-0.5, le=0.5)] | UnsetType = UNSET
    leading_click_ms: WholeMs | UnsetType = UNSET
    fade_in_ms: WholeMs | UnsetType = UNSET
    repeats: Literal["growing", "again"] | UnsetType | None = UNSET
    tone_hz: Annotated[float, Meta(gt=0, lt=12_000)] | UnsetType = UNSET
    level_dbfs: Annotated[float, Meta(ge=-120, le=0)] | UnsetType = UNSET
    text: str | UnsetType = UNSET
    text_delay_ms: Ms | UnsetType | None = UNSET
    written_text: str | UnsetType = UNSET
    user_text: str | UnsetType = UNSET
    tool_call: Call | UnsetType | None = UNSET
    faults: tuple[FaultAt, ...] | UnsetType = UNSET


class HearingFile(_File, frozen=True):
    """Which of the user's sounds it takes notice of, and when, under the server's own turn detection.

    Sounds are counted from 0 as turn detection finds them. delay_ms: from a sound's first audible sample to the word
    that the user speaks, which stops the reply; None, and where turn detection needs longer: as soon as that knows ·
    ignores: sounds that it takes up only when its own reply has been heard to its end · deaf_to: sounds that it never
    hears.
    """

    delay_ms: Ms | None = None
    ignores: tuple[Count, ...] = ()
    deaf_to: tuple[Count, ...] = ()


class RepromptFile(_File, frozen=True):
    """It speaks again unasked, `times` times, where neither the user nor itself was heard for `after_ms`."""

    after_ms: Annotated[float, Meta(ge=1, le=3_600_000)]
    times: Annotated[int, Meta(ge=1, le=1000)] = 1


class ConnectionFile(_File, frozen=True):
    """What goes wrong before any turn."""

    refuse_status: Annotated[int, Meta(ge=400, le=599)] | None = None
    refuse_body: str = ""
    greeting_delay_ms: WholeMs = 0
    first_messages: tuple[str, ...] = ()
    session_created: bool = True
    session_update: Literal["accept", "refuse", "ignore"] = "accept"
    refusal_code: str = "invalid_value"
    refusal_message: str = "this metronome refuses every session.update"
    ping_interval_ms: WholeMs = 0
    ping_message: str = '{"type":"ping"}'


_GOOD_CONNECTION = ConnectionFile()


class BehaviourFile(_File, frozen=True):
    """A behaviour of the metronome."""

    version: Literal[1]
    description: str = ""
    reply: ReplyFile = ReplyFile()
    turns: tuple[ReplyFile, ...] = ()
    after_turns: Literal["repeat_last", "cycle", "reply"] = "repeat_last"
    hearing: HearingFile | None = None
    reprompt: RepromptFile | None = None
    connection: ConnectionFile = _GOOD_CONNECTION


@dataclass(frozen=True, slots=True)
class ReplyPlan:
    """One reply in full: the fields of `ReplyFile` with their defaults.

    text_delay_ms: None puts the words before the first packet · packet_bytes: sizes in bytes, over and over, in the
    place of packet_ms; they may cut samples in two · leading_*: what sounds before the tone, within leading_silence_ms.
    repeats: each packet brings all that came before it too, or all packets come once more.
    """

    delay_ms: float = 300
    duration_ms: int = 1000
    packet_ms: int = 80
    packet_bytes: tuple[int, ...] = ()
    pace: str = "realtime"
    interval_ms: float = 0
    gaps: tuple[Gap, ...] = ()
    end_delay_ms: float = 0
    leading_silence_ms: int = 0
    leading_noise_dbfs: float | None = None
    leading_offset: float = 0
    leading_click_ms: int = 0
    fade_in_ms: int = 0
    repeats: str | None = None
    tone_hz: float = 440
    level_dbfs: float = -20
    text: str = "Tick, tock."
    text_delay_ms: float | None = None
    written_text: str = ""
    user_text: str = ""
    tool_call: Call | None = None
    faults: tuple[FaultAt, ...] = ()


@dataclass(frozen=True, slots=True)
class Behaviour:
    """A whole behaviour. reply: for every turn without an entry · turns: the entries, in full."""

    name: str = "default"
    description: str = ""
    reply: ReplyPlan = ReplyPlan()
    turns: tuple[ReplyPlan, ...] = ()
    after_turns: str = "repeat_last"
    connection: ConnectionFile = _GOOD_CONNECTION
    hearing: HearingFile | None = None
    reprompt: RepromptFile | None = None

    def plan(self, index: int) -> ReplyPlan:
        """The reply to the connection's turn number `index`, from 0."""
        if index < len(self.turns):
            return self.turns[index]
        if not self.turns or self.after_turns == "reply":
            return self.reply
        return self.turns[index % len(self.turns)] if self.after_turns == "cycle" else self.turns[-1]

    def connection_faults(self) -> ConnectionFaults:
        given = self.connection
        return ConnectionFaults(
            refuse_status=given.refuse_status or 0,
            refuse_body=given.refuse_body,
            greeting_delay_ms=given.greeting_delay_ms,
            first_messages=given.first_messages,
            greets=given.session_created,
            ignores_settings=given.session_update == "ignore",
            ping_interval_ms=given.ping_interval_ms,
            ping_message=given.ping_message,
        )


_STAND_INS: dict[str, object] = {
    "version": VERSION,
    "reply": {},
    "turns": [{}],
    "connection": {},
    "reprompt": {"after_ms": 1},
    "after_ms": 1,
    "gaps": [{"before_packet": 0, "ms": 0}],
    "faults": [{"kind": "silent"}],
    "tool_call": {"name": "x"},
    "packet_bytes": [1],
    "first_messages": [""],
    "before_packet": 0,
    "ms": 0,
    "kind": "silent",
    "name": "x",
}
_HINTS = {
    "version": f"Known versions: {VERSION}",
    "kind": "Known kinds: " + ", ".join(FaultKind.__args__),  # type: ignore[attr-defined]
    "pace": "Known paces: burst, realtime, interval",
    "repeats": "Known: growing, again",
    "after_turns": "Known: repeat_last, cycle, reply",
    "session_update": "Known: accept, refuse, ignore",
    "refuse_status": "An HTTP status from 400 to 599, such as 401",
}


def shipped() -> list[str]:
    """Names of the behaviours that come with the package."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def find_behaviour(name_or_path: str | Path) -> Path:
    """The file of a shipped behaviour's name, or the path itself. Raises `SetupError` if there is neither."""
    path = Path(name_or_path)
    if path.suffix in (".yaml", ".yml") or path.exists():
        return path
    known = shipped()
    if str(name_or_path) in known:
        return FOLDER / f"{name_or_path}.yaml"
    near = difflib.get_close_matches(str(name_or_path), known, n=1)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    what = f"there is no behaviour {str(name_or_path)!r}"
    raise SetupError(what, f"{hint}Give a file (.yaml) or one of: {', '.join(known)}")


def load_behaviour(name_or_path: str | Path) -> Behaviour:
    """Read a behaviour. Raises `BadFile` for its first mistake, and says how many more there are."""
    path = find_behaviour(name_or_path)
    document = yaml_schema.parse(path)
    _check_version(document)
    checked = yaml_schema.check(document, BehaviourFile, stand_ins=_STAND_INS, hints=_HINTS)
    mistakes = [*checked.mistakes, *(_contradictions(document, checked.value) if checked.value else ())]
    if mistakes or checked.value is None:
        first = mistakes[0]
        more = f"{len(mistakes) - 1} more in this file" if len(mistakes) > 1 else ""
        mend = ". ".join(part for part in (first.mend, more) if part)
        raise BadFile(first.path, first.problem, first.line, first.field, mend)
    file = checked.value
    reply = _over(ReplyPlan(), file.reply)
    turns = tuple(_over(reply, turn) for turn in file.turns)
    return Behaviour(
        path.stem, file.description, reply, turns, file.after_turns, file.connection, file.hearing, file.reprompt
    )


def _check_version(document: yaml_schema.Document) -> None:
    """What else stands in a file of another version follows rules that we do not know."""
    version = document.data.get("version") if isinstance(document.data, dict) else None
    if type(version) is int and version != VERSION:
        mend = f"Known versions: {VERSION}. A newer duologue may read it"
        raise document.mistake(("version",), f"version {version} of the format is not known", mend)


def _over(base: ReplyPlan, given: ReplyFile) -> ReplyPlan:
    names = [field.name for field in fields(ReplyPlan)]
    changed = {name: value for name in names if (value := getattr(given, name)) is not UNSET}
    return ReplyPlan(**({name: getattr(base, name) for name in names} | changed))


def _contradictions(document: yaml_schema.Document, file: BehaviourFile) -> list[BadFile]:
    """Fields that say nothing together."""
    found: list[BadFile] = []
    base = _over(ReplyPlan(), file.reply)
    replies: list[tuple[tuple[str | int, ...], ReplyFile]] = [(("reply",), file.reply)]
    replies += [(("turns", index), turn) for index, turn in enumerate(file.turns)]
    for place, given in replies:
        plan = _over(base, given)
        if given.interval_ms is not UNSET and plan.pace != "interval":
            found.append(document.mistake((*place, "interval_ms"), "says nothing here", "Add: pace: interval"))
        if plan.leading_click_ms > plan.leading_silence_ms:
            problem = "the click is longer than the leading part that holds it"
            found.append(document.mistake((*place, "leading_click_ms"), problem, "Make leading_silence_ms longer"))
        for index, fault in enumerate(plan.faults if given.faults is not UNSET else ()):
            if fault.kind == "block_loop" and not fault.value:
                where: tuple[Any, ...] = (*place, "faults", index)
                found.append(document.mistake(where, "for how long?", "Add: value: MILLISECONDS"))
    hearing = file.hearing or HearingFile()
    for index, sound in enumerate(hearing.ignores):
        if sound in hearing.deaf_to:
            problem = f"the sound {sound} is never heard"
            found.append(document.mistake(("hearing", "ignores", index), problem, "Name it in one of the two"))
    return found
