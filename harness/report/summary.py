"""A run in figures: what `summary.json` holds, and `turns.csv` beside it.

Warm-up dialogues, and dialogues that the user stopped, are in no figure and in no count; `remarks` says so. Latency and
quality are summarised over completed turns only: all that have the figure (`headline`), and apart the first turns of
the dialogues and the later ones.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import msgspec

from harness.calibrate.bound import Bound, Part, bound_of
from harness.network.log import Stretch
from harness.network.summary import Network, network_of
from harness.report.wording import number, plural
from harness.results.devices import Devices
from harness.results.dialogue_result import DialogueResult
from harness.runs.losses import NOTHING_LOST, Lost
from harness.speech_end_error import bound_ms
from metrics.outcome import kind_of
from metrics.result import Failed, Measured, TurnClass, TurnResult, Unavailable, Value
from metrics.stats import Distribution, summarise
from metrics.table import METRICS, definitions, metric
from metrics.turn_taking.totals import Figure, TurnTaking, session_figures, totals
from metrics.turns import PROTOCOL_FAULT
from sessions.runs import Load, MergedPart, MicrophoneUse, Plan, Share, indented
from sessions.speech_end import ANNOTATION

__all__ = ["Summary", "schema_text", "summarise_run", "value_of"]

SUMMARY_VERSION = 1
STATISTICS = "statistics/2"
"""Hyndman–Fan 7; no p95 below 20 values, no p99 below 100; 95 % intervals by dialogue from 10 dialogues up."""


class MeasureSummary(msgspec.Struct, frozen=True):
    """One measure over a group of turns.

    unavailable, errors: reason → number of turns that have no value because of it. n + both add up to the turns.
    """

    unit: str
    direction: str
    n: int
    unavailable: dict[str, int]
    errors: dict[str, int]
    distribution: Distribution


class Group(msgspec.Struct, frozen=True):
    """Completed turns that are summarised together. measures: by name."""

    turns: int
    measures: dict[str, MeasureSummary]


class Attempts(msgspec.Struct, frozen=True):
    """Every attempt has one class: total = completed + invalid + failed.

    outcomes: class → outcome → number · failed_by_kind: failures without their finer reasons · never_attempted: turns
    of the scripts whose dialogue had ended before them (they are no attempts) · lost: turns of the dialogues that were
    lost with a worker, or that no merged run has. A plan that was not interrupted holds total + never_attempted + lost.
    """

    total: int
    completed: int
    invalid: int
    failed: int
    outcomes: dict[str, dict[str, int]]
    failed_by_kind: dict[str, int]
    never_attempted: int
    lost: int = 0


class Dialogues(msgspec.Struct, frozen=True):
    """measured: in the figures · warmup, stopped: kept in the run, in no figure · lost: nothing is kept of them."""

    measured: int
    warmup: int
    stopped: int
    lost: int = 0


class FalseStarts(msgspec.Struct, frozen=True):
    """Replies begun before the user's speech end and cancelled before it. heard_ms: how much of them was heard."""

    count: int
    turns: int
    heard_ms: float


class Conditions(msgspec.Struct, frozen=True):
    """What must be equal before two results are put in one ranking, beside `Summary.definitions`.

    speech_end_methods: method → attempts · scripts: name → content hash · perturb: what was done to the user's sounds,
    with its seed, "" for nothing.
    """

    protocol: str
    protocol_class: str
    turn_detection: str
    server_vad: dict[str, float]
    speech_end_methods: dict[str, int]
    scripts: dict[str, str]
    frame_ms: int
    rate_hz: int
    lateness_limit_ms: float
    perturb: str = ""


class SpeechEndBound(msgspec.Struct, frozen=True):
    """How far a method that found speech ends is itself off, by magnitude, on built-in marked audio."""

    p50_ms: float
    p95_ms: float


class SpokenTurn(msgspec.Struct, frozen=True):
    """One exchange. understood: what the server says it heard, "" where it says nothing."""

    turn: int
    turn_class: TurnClass
    outcome: str
    detail: str
    said: str
    understood: str
    answered: str
    voice_to_voice_ms: float | None
    flags: list[str]
    kind: str = "speech"


class SpokenDialogue(msgspec.Struct, frozen=True):
    """What was said and answered in one dialogue. faults: the peer's breaches of its protocol."""

    id: str
    number: int
    script: str
    warmup: bool
    completed: bool
    turns: list[SpokenTurn]
    faults: list[str]
    turn_taking: TurnTaking | None = None
    """Where its turns did more than wait for each other."""


class Microphone(msgspec.Struct, frozen=True):
    """A person spoke. use: through which devices · devices: what these did with time; null where nothing was heard."""

    use: MicrophoneUse
    devices: Devices | None


class Summary(msgspec.Struct, frozen=True):
    """A whole run.

    connection_ms: phase → distribution over dialogues · flags: kind of remark → turns that have it · speech_end_bounds:
    by method, for each that found the end of speech that nobody annotated; None where its error was never measured.
    """

    created: str
    target: str
    conditions: Conditions
    dialogues: Dialogues
    attempts: Attempts
    headline: Group
    first_turns: Group
    later_turns: Group
    connection_ms: dict[str, Distribution]
    false_starts: FalseStarts
    flags: dict[str, int]
    remarks: list[str]
    definitions: dict[str, str]
    software: dict[str, str]
    machine_floor: dict[str, float]
    spoken: list[SpokenDialogue]
    version: int = SUMMARY_VERSION
    clock: Bound | None = None
    """From the checks of this machine's clock beside the run; None where there were none."""
    load: Load = Load()
    workers: int = 1
    """Processes that shared the load."""
    shard: Share = Share()
    """What of the plan this run is; the whole, where no --shard was asked for."""
    merged: list[MergedPart] = []
    """The runs that this one was put together from."""
    start_delay_ms: Distribution | None = None
    """Open loop: from the instant at which each dialogue was to begin to its readiness."""
    speech_end_bounds: dict[str, SpeechEndBound | None] = {}
    network: Network | None = None
    """Round trips and, where a reflector was asked, the path's share."""
    turn_taking: TurnTaking | None = None
    """Rates, curves and figures over all turns; None without any."""
    turn_taking_by_script: dict[str, TurnTaking] = {}
    """The same by script, where the run has several."""
    session: dict[str, Figure] = {}
    """Class D: figures of a session's one stream, over dialogues."""
    microphone: Microphone | None = None
    """A conversation with a person; null where scripts were performed."""


def summarise_run(
    plan: Plan,
    dialogues: list[DialogueResult],
    floor: Mapping[str, float],
    parts: Sequence[Part] = (),
    *,
    lost: Lost = NOTHING_LOST,
    stretches: Sequence[Stretch] = (),
) -> Summary:
    """Aggregate a run.

    dialogues: all that were performed, warm-up included · floor: this machine's own timing, in ms, by name · parts:
    the checks of its clock beside the run · lost: what workers that died left undone · stretches: of
    exchanges with a reflector.
    """
    measured = [dialogue for dialogue in dialogues if dialogue.completed and not dialogue.warmup]
    counted = Dialogues(
        measured=len(measured),
        warmup=sum(dialogue.warmup for dialogue in dialogues),
        stopped=sum(not dialogue.completed and not dialogue.warmup for dialogue in dialogues),
        lost=lost.dialogues,
    )
    turns = [turn for dialogue in measured for turn in dialogue.turns]
    headline = _group(measured, lambda turn: True)
    by_script = _by_script(measured)
    return Summary(
        created=plan.created,
        target=plan.target,
        conditions=_conditions(plan, turns),
        dialogues=counted,
        attempts=_attempts(plan, measured, lost.turns),
        headline=headline,
        first_turns=_group(measured, lambda turn: turn.turn == 0),
        later_turns=_group(measured, lambda turn: turn.turn > 0),
        connection_ms=_connection(measured),
        false_starts=FalseStarts(
            count=sum(turn.false_starts for turn in turns),
            turns=sum(turn.false_starts > 0 for turn in turns),
            heard_ms=sum(turn.false_start_heard_ms for turn in turns),
        ),
        flags=_flags(turns),
        remarks=[*_remarks(counted), *_stalled(turns, plan.limits.lateness_ms), *lost.reasons],
        # Those by which it was measured just now, which a run that is measured again later was not planned with.
        definitions={**plan.definitions, **definitions(), "statistics": STATISTICS.partition("/")[2]},
        software=plan.software,
        machine_floor=dict(floor),
        spoken=[_spoken(dialogue) for dialogue in dialogues],
        clock=bound_of(parts, plan.limits.lateness_ms),
        speech_end_bounds=speech_end_bounds(turns),
        load=plan.load,
        workers=plan.workers,
        shard=plan.shard,
        merged=plan.merged,
        start_delay_ms=_start_delay(plan, measured),
        network=network_of(
            {dialogue.id: dialogue.trips for dialogue in measured if dialogue.trips is not None},
            plan.reflector,
            stretches,
            headline.measures["voice_to_voice_ms"].distribution.p50,
        ),
        turn_taking=totals({d.id: d.turns for d in measured}) if turns else None,
        turn_taking_by_script=by_script if len(by_script) > 1 else {},
        microphone=_microphone(plan, measured),
        session=session_figures({d.id: d.session for d in measured}),
    )


def value_of(measured: Measured | None) -> float | None:
    """The number, or None where there is none."""
    return measured.value if isinstance(measured, Value) else None


def schema_text() -> str:
    """The JSON schema of `summary.json`, as it is shipped in harness/report/schema/summary.schema.json."""
    schema = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"duologue summary.json, version {SUMMARY_VERSION}",
        **msgspec.json.schema(Summary),
    }
    return indented(schema).decode() + "\n"


def _conditions(plan: Plan, turns: Iterable[TurnResult]) -> Conditions:
    return Conditions(
        protocol=plan.protocol,
        protocol_class=plan.protocol_class,
        turn_detection=plan.turn_detection,
        server_vad=plan.server_vad,
        speech_end_methods=dict(Counter(turn.method for turn in turns if turn.method)),
        scripts={script.name: script.sha256 for script in plan.scripts},
        frame_ms=plan.frame_ms,
        rate_hz=plan.rate_hz,
        lateness_limit_ms=plan.limits.lateness_ms,
        perturb=", ".join(sorted({f"{s.perturb} (seed {s.perturb_seed})" for s in plan.scripts if s.perturb})),
    )


def speech_end_bounds(turns: Iterable[TurnResult]) -> dict[str, SpeechEndBound | None]:
    """By method, for each that found the end of speech of a turn that nobody annotated."""
    methods = {turn.method for turn in turns if turn.method} - {ANNOTATION}
    bounds = {method: bound_ms(method) for method in sorted(methods)}
    return {method: bound and SpeechEndBound(*bound) for method, bound in bounds.items()}


def _microphone(plan: Plan, measured: Sequence[DialogueResult]) -> Microphone | None:
    if plan.microphone is None:
        return None
    return Microphone(plan.microphone, next((one.devices for one in measured if one.devices is not None), None))


def _attempts(plan: Plan, measured: list[DialogueResult], lost: int) -> Attempts:
    turns = [turn for dialogue in measured for turn in dialogue.turns]
    outcomes: dict[str, Counter[str]] = {"completed": Counter(), "invalid": Counter(), "failed": Counter()}
    for turn in turns:
        outcomes[turn.turn_class][turn.outcome] += 1
    scripted = {script.name: len(script.turns) for script in plan.scripts}
    return Attempts(
        total=len(turns),
        completed=outcomes["completed"].total(),
        invalid=outcomes["invalid"].total(),
        failed=outcomes["failed"].total(),
        outcomes={name: dict(counter.most_common()) for name, counter in outcomes.items()},
        failed_by_kind=dict(
            Counter(kind_of(turn.outcome) for turn in turns if turn.turn_class == "failed").most_common()
        ),
        never_attempted=sum(max(0, scripted.get(d.script, 0) - len(d.turns)) for d in measured),
        lost=lost,
    )


def _by_script(measured: list[DialogueResult]) -> dict[str, TurnTaking]:
    """Turn-taking of each script that has an attempt."""
    names = dict.fromkeys(dialogue.script for dialogue in measured if dialogue.turns)
    return {name: totals({d.id: d.turns for d in measured if d.script == name}) for name in names}


def _group(measured: list[DialogueResult], belongs: Callable[[TurnResult], bool]) -> Group:
    """Summarise every measure over the completed turns that belong and that expect a reply."""
    turns = {
        dialogue.id: [
            turn for turn in dialogue.turns if turn.turn_class == "completed" and turn.expects_reply and belongs(turn)
        ]
        for dialogue in measured
    }
    flat = [turn for group in turns.values() for turn in group]
    extra = sorted({name for turn in flat for name in turn.measures} - set(METRICS))
    return Group(len(flat), {name: _measure(name, turns) for name in (*METRICS, *extra)})


def _measure(name: str, turns: Mapping[str, list[TurnResult]]) -> MeasureSummary:
    values: dict[str, list[float]] = {}
    unavailable: Counter[str] = Counter()
    errors: Counter[str] = Counter()
    for dialogue_id, group in turns.items():
        for turn in group:
            match turn.measures.get(name, Unavailable("not measured")):
                case Value(value):
                    values.setdefault(dialogue_id, []).append(value)
                case Unavailable(because):
                    unavailable[because] += 1
                case Failed(error):
                    errors[error] += 1
    known = metric(name) if name in METRICS else None
    distribution = summarise(values)
    return MeasureSummary(
        unit=known.unit if known else "",
        direction=known.direction if known else "none",
        n=distribution.n,
        unavailable=dict(unavailable.most_common()),
        errors=dict(errors.most_common()),
        distribution=distribution,
    )


def _flags(turns: Iterable[TurnResult]) -> dict[str, int]:
    kinds = Counter(kind for turn in turns for kind in dict.fromkeys(map(_flag_kind, turn.flags)))
    return dict(kinds.most_common())


def _flag_kind(flag: str) -> str:
    """A remark without its particulars, so that like is counted with like. A protocol fault keeps its name."""
    kind, _, rest = flag.partition(": ")
    named = f"{kind}: {kind_of(rest)}" if kind == PROTOCOL_FAULT else kind_of(flag)
    return re.sub(r"\b\d+(\.\d+)?", "n", named)


def _connection(measured: list[DialogueResult]) -> dict[str, Distribution]:
    names = dict.fromkeys(name for dialogue in measured for name in dialogue.phases_ms)
    return {name: summarise({d.id: [d.phases_ms[name]] for d in measured if name in d.phases_ms}) for name in names}


def _start_delay(plan: Plan, measured: list[DialogueResult]) -> Distribution | None:
    if not plan.load.rate_per_s:
        return None
    return summarise({d.id: [d.start_delay_ms] for d in measured if d.start_delay_ms is not None})


def _remarks(counted: Dialogues) -> list[str]:
    remarks = []
    if counted.warmup:
        remarks.append(f"{plural(counted.warmup, 'warm-up dialogue')} came first; in no figure")
    if counted.stopped:
        remarks.append(f"{plural(counted.stopped, 'dialogue')} stopped by the user; in no figure")
    return remarks


def _stalled(turns: Iterable[TurnResult], limit_ms: float) -> Iterator[str]:
    """A heartbeat over the limit in any attempt, whatever became of it."""
    lags_ms = [value_of(turn.measures.get("heartbeat_lag_max_ms")) or 0.0 for turn in turns]
    late = [lag_ms for lag_ms in lags_ms if lag_ms > limit_ms]
    if late:
        yield f"this machine stalled in {plural(len(late), 'turn')}, for {number(max(late))} ms at worst"


def _spoken(dialogue: DialogueResult) -> SpokenDialogue:
    words = zip(dialogue.turns, dialogue.said, dialogue.understood, strict=True)
    told = totals({dialogue.id: dialogue.turns})
    return SpokenDialogue(
        id=dialogue.id,
        number=dialogue.number,
        script=dialogue.script,
        warmup=dialogue.warmup,
        completed=dialogue.completed,
        turns=[_spoken_turn(turn, said, understood) for turn, said, understood in words],
        faults=dialogue.faults,
        turn_taking=told if told.is_duplex else None,
    )


def _spoken_turn(turn: TurnResult, said: str, understood: str) -> SpokenTurn:
    return SpokenTurn(
        turn=turn.turn,
        turn_class=turn.turn_class,
        outcome=turn.outcome,
        detail=turn.detail,
        said=said,
        understood=understood,
        answered=turn.heard_text,
        voice_to_voice_ms=value_of(turn.measures.get("voice_to_voice_ms")),
        flags=turn.flags,
        kind=turn.kind,
    )
