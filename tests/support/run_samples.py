"""Hand-made results of a run, for the tests of summary, table and report."""

from __future__ import annotations

from harness.results.dialogue_result import DialogueResult
from metrics.result import Failed, Measured, TurnClass, TurnResult, Unavailable, Value
from metrics.table import METRICS, definitions
from sessions.clock import NS_PER_MS
from sessions.runs import Limits, Plan, PlannedScript, PlannedTurn

READY_NS = 5_000_000_000
FLOOR = {"wake_late_p50_ms": 0.12, "wake_late_p99_ms": 1.4}


def plan(turns: int = 3, *, repeat: int = 2, warmup: int = 0) -> Plan:
    script = PlannedScript(
        name="garden",
        sha256="ab" * 32,
        language="en",
        instructions="Answer in one sentence.",
        turns=[
            PlannedTurn(
                audio=f"{index:064x}",
                samples=24_000,
                last_sample=20_000,
                method="annotation",
                text=f"Question {index + 1}?",
            )
            for index in range(turns)
        ],
    )
    return Plan(
        created="2026-11-29T10:15:00.000+01:00",
        target="ws://127.0.0.1:8765/v1/realtime?model=cascade",
        protocol="openai-realtime",
        protocol_class="A",
        turn_detection="manual",
        server_vad={},
        voice="",
        headers=[],
        scripts=[script],
        repeat=repeat,
        warmup=warmup,
        frame_ms=20,
        rate_hz=24_000,
        limits=Limits(),
        definitions=definitions(),
        software={"duologue": "0.1.0", "python": "3.11.7"},
        floor=FLOOR,
    )


def turn(
    index: int,
    voice_to_voice_ms: float | None = 400.0,
    *,
    turn_class: TurnClass = "completed",
    outcome: str = "answered",
    detail: str = "",
    answered: str = "An answer.",
    flags: tuple[str, ...] = (),
    false_starts: int = 0,
    measures: dict[str, Measured] | None = None,
) -> TurnResult:
    """One attempt whose speech ends at 2 s + 6 s per turn on the recording; None: no reply came."""
    end_ns = READY_NS + (2_000 + 6_000 * index) * NS_PER_MS
    instants = {"speech_end": end_ns, "last_sent": end_ns + 200_000, "turn_committed": end_ns + 300_000}
    values: dict[str, Measured] = {name: Unavailable("no reply came") for name in METRICS}
    played: dict[str, int] = {}
    if voice_to_voice_ms is not None:
        heard_ns = end_ns + round(voice_to_voice_ms * NS_PER_MS)
        packet_ns = heard_ns - 80 * NS_PER_MS
        instants |= {"first_packet": packet_ns, "first_audible": heard_ns, "reply_done": heard_ns + 2_000 * NS_PER_MS}
        played = {str(buffer): heard_ns + buffer * NS_PER_MS for buffer in (0, 20, 60, 100, 200)}
        values |= {
            "first_packet_ms": Value(voice_to_voice_ms - 80),
            "voice_to_voice_ms": Value(voice_to_voice_ms),
            **{f"voice_to_voice_b{b}_ms": Value(voice_to_voice_ms + b) for b in (20, 60, 100, 200)},
            "silence_padding_ms": Value(80.0),
            "gap_max_ms": Value(45.0),
            "underruns_b0": Value(1.0),
            "gapless_prebuffer_ms": Value(12.5),
            "real_time_factor": Value(0.4),
            "reply_duration_ms": Value(2_000.0),
            "first_text_ms": Unavailable("the reply has no text"),
            "gap_p50_ms": Failed("ValueError: hand-made"),
        }
    return TurnResult(
        turn=index,
        turn_class=turn_class,
        outcome=outcome,
        detail=detail,
        method="annotation",
        instants_ns=instants,
        played_ns=played,
        measures=values | (measures or {}),
        reply_ids=[f"reply_{index}"],
        false_starts=false_starts,
        false_start_heard_ms=25.0 * false_starts,
        heard_text=answered,
        flags=list(flags),
    )


def dialogue(number: int, turns: list[TurnResult], *, warmup: bool = False, completed: bool = True) -> DialogueResult:
    return DialogueResult(
        id=f"d{number + 1:04d}",
        number=number,
        script="garden",
        warmup=warmup,
        wall_time="2026-11-29T10:15:01.000+01:00",
        completed=completed,
        phases_ms={"tcp": 1.0 + number, "session_setup": 10.0 + number},
        ready_ns=READY_NS,
        ended_ns=READY_NS + 20_000 * NS_PER_MS,
        turns=turns,
        said=[f"Question {one.turn + 1}?" for one in turns],
        understood=["" for _ in turns],
        recording=f"dialogues/d{number + 1:04d}/recording.flac",
        faults=[],
    )
