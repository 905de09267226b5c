"""summary.json and turns.csv: exact figures on hand-made results."""

from __future__ import annotations

import csv
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.report import summary as module
from harness.report.summary import Summary, schema_text, summarise_run
from harness.report.turns_csv import write_turns_csv
from harness.results.dialogue_result import DialogueResult
from metrics.result import TurnClass, Unavailable, Value
from metrics.table import METRICS
from tests.support.run_samples import FLOOR, dialogue, plan, turn

V2V = "voice_to_voice_ms"
SCHEMA = Path(module.__file__).parent / "schema" / "summary.schema.json"


def mixed() -> list[DialogueResult]:
    """One warm-up, then two dialogues with every class in them."""
    return [
        dialogue(0, [turn(0, 9_000.0)], warmup=True),
        dialogue(
            1,
            [
                turn(0, 500.0),
                turn(1, 410.25, false_starts=2, flags=("audio after done",)),
                turn(2, 7_777.0, turn_class="failed", outcome="incomplete: content_filter", detail="cut short"),
            ],
        ),
        dialogue(
            2,
            [
                turn(0, -120.0, flags=("protocol fault: bad base64: x", "protocol fault: other", "audio after done")),
                turn(1, 8_888.0, turn_class="invalid", detail="a frame left 31 ms late"),
                turn(2, None, turn_class="failed", outcome="time-out"),
            ],
        ),
        dialogue(3, [turn(0, None, turn_class="failed", outcome="incomplete: max_output_tokens")]),
    ]


def test_the_headline_holds_completed_turns_only() -> None:
    summary = summarise_run(plan(), mixed(), FLOOR)
    voice = summary.headline.measures[V2V]
    assert summary.headline.turns == voice.n == 3
    assert voice.distribution.dialogues == 2
    assert voice.distribution.p50 == 410.25
    assert (voice.distribution.minimum, voice.distribution.maximum) == (-120.0, 500.0)
    assert voice.distribution.mean == pytest.approx((500 + 410.25 - 120) / 3)
    assert (voice.unit, voice.direction) == ("ms", "lower")
    assert summary.headline.measures["voice_to_voice_b60_ms"].distribution.p50 == 470.25


def test_first_and_later_turns_stand_under_it() -> None:
    summary = summarise_run(plan(), mixed(), FLOOR)
    first, later = summary.first_turns, summary.later_turns
    assert (first.turns, later.turns) == (2, 1)
    assert first.measures[V2V].distribution.p50 == pytest.approx(190.0)
    assert later.measures[V2V].distribution.p50 == 410.25


def test_classes_add_up_and_failures_are_counted_by_kind() -> None:
    attempts = summarise_run(plan(), mixed(), FLOOR).attempts
    assert (attempts.total, attempts.completed, attempts.invalid, attempts.failed) == (7, 3, 1, 3)
    assert attempts.outcomes == {
        "completed": {"answered": 3},
        "invalid": {"answered": 1},
        "failed": {"incomplete: content_filter": 1, "time-out": 1, "incomplete: max_output_tokens": 1},
    }
    assert attempts.failed_by_kind == {"incomplete": 2, "time-out": 1}
    assert attempts.never_attempted == 2, "the third dialogue's script had two turns more"


def test_warm_up_and_stopped_dialogues_are_in_no_figure_and_it_says_so() -> None:
    stopped = dialogue(4, [turn(0, 6_000.0)], completed=False)
    summary = summarise_run(plan(), [*mixed(), stopped], FLOOR)
    assert msgspec.structs.astuple(summary.dialogues) == (3, 1, 1, 0)
    assert summary.remarks == [
        "1 warm-up dialogue came first; in no figure",
        "1 dialogue stopped by the user; in no figure",
    ]
    assert summary.headline.measures[V2V].distribution.maximum == 500.0
    assert [spoken.warmup for spoken in summary.spoken] == [True, False, False, False, False]


def test_what_is_unavailable_is_counted_with_its_reason_and_what_failed_apart() -> None:
    turns = [turn(0), turn(1, measures={V2V: Unavailable("no sample is audible"), "gap_max_ms": Unavailable("x")})]
    measures = summarise_run(plan(), [dialogue(0, turns)], FLOOR).headline.measures
    assert measures[V2V].n == 1
    assert measures[V2V].unavailable == {"no sample is audible": 1}
    assert measures["first_text_ms"].unavailable == {"the reply has no text": 2}
    assert measures["first_text_ms"].distribution.reasons["p50"] == "no values"
    assert measures["gap_p50_ms"].errors == {"ValueError: hand-made": 2}
    assert measures["gap_p50_ms"].unavailable == {}


def test_few_values_leave_p95_out_and_few_dialogues_the_interval() -> None:
    few = [dialogue(k, [turn(0, 400.0 + k), turn(1, 500.0)]) for k in range(9)]
    distribution = summarise_run(plan(), few, FLOOR).headline.measures[V2V].distribution
    assert (distribution.p95, distribution.ci95) == (None, {})
    assert distribution.reasons == {
        "p95": "needs 20 samples, has 18",
        "p99": "needs 100 samples, has 18",
        "ci95": "needs 10 dialogues, has 9",
    }
    enough = [*few, dialogue(9, [turn(0, 409.0), turn(1, 500.0)])]
    distribution = summarise_run(plan(), enough, FLOOR).headline.measures[V2V].distribution
    assert distribution.p95 == 500.0
    low, high = distribution.ci95["p50"]
    assert 400.0 <= low <= (distribution.p50 or 0.0) <= high <= 500.0


def test_false_starts_and_flags_are_counted() -> None:
    summary = summarise_run(plan(), mixed(), FLOOR)
    assert msgspec.structs.astuple(summary.false_starts) == (2, 1, 50.0)
    assert summary.flags == {"audio after done": 2, "protocol fault: bad base64": 1, "protocol fault: other": 1}


def test_connection_phases_are_summarised_over_dialogues() -> None:
    connection = summarise_run(plan(), mixed(), FLOOR).connection_ms
    assert set(connection) == {"tcp", "session_setup"}
    assert (connection["tcp"].n, connection["tcp"].minimum, connection["tcp"].p50) == (3, 2.0, 3.0)


def test_conditions_definitions_and_floor_are_there() -> None:
    summary = summarise_run(plan(), mixed(), FLOOR)
    assert summary.conditions.protocol_class == "A"
    assert summary.conditions.speech_end_methods == {"annotation": 7}
    assert summary.conditions.scripts == {"garden": "ab" * 32}
    assert summary.definitions.keys() >= {"gate", "playout", "statistics", V2V}
    assert summary.machine_floor == FLOOR


def test_an_empty_run_has_a_summary() -> None:
    summary = summarise_run(plan(), [], FLOOR)
    assert (summary.attempts.total, summary.headline.turns, summary.connection_ms) == (0, 0, {})


def test_it_survives_its_file() -> None:
    summary = summarise_run(plan(), mixed(), FLOOR)
    assert msgspec.json.decode(msgspec.json.encode(summary), type=Summary) == summary


def test_the_shipped_schema_is_current() -> None:
    renew = "python -c 'from harness.report.summary import schema_text; print(schema_text(), end=\"\")'"
    assert SCHEMA.read_text() == schema_text(), f"write it again: {renew} > {SCHEMA.name}"


CLASSES = st.sampled_from(["completed", "invalid", "failed"])
TURNS = st.lists(st.tuples(CLASSES, st.none() | st.floats(-1e4, 1e4), st.booleans()), max_size=4)


@given(st.lists(st.tuples(TURNS, st.booleans()), max_size=5))
def test_nothing_is_lost_or_counted_twice(drawn: list[tuple[list[tuple[TurnClass, float | None, bool]], bool]]) -> None:
    dialogues = [
        dialogue(
            number,
            [
                turn(k, value, turn_class=kind, measures={} if there else {V2V: Unavailable("withheld")})
                for k, (kind, value, there) in enumerate(turns)
            ],
            warmup=warmup,
        )
        for number, (turns, warmup) in enumerate(drawn)
    ]
    summary = summarise_run(plan(4), dialogues, FLOOR)
    attempts = summary.attempts
    assert attempts.total == sum(len(one.turns) for one in dialogues if not one.warmup)
    assert attempts.total == attempts.completed + attempts.invalid + attempts.failed
    assert attempts.total == sum(sum(named.values()) for named in attempts.outcomes.values())
    assert summary.headline.turns == summary.first_turns.turns + summary.later_turns.turns == attempts.completed
    for measure in summary.headline.measures.values():
        missing = sum(measure.unavailable.values()) + sum(measure.errors.values())
        assert measure.n + missing == summary.headline.turns


def _rows(tmp_path: Path, dialogues: list[DialogueResult]) -> list[dict[str, str]]:
    path = tmp_path / "turns.csv"
    write_turns_csv(path, dialogues)
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_csv_has_one_row_per_attempt(tmp_path: Path) -> None:
    rows = _rows(tmp_path, mixed())
    assert len(rows) == 8
    row = rows[2]
    assert (row["dialogue"], row["turn"], row["class"], row["outcome"]) == ("d0002", "2", "completed", "answered")
    assert (row["said"], row["answered"], row["warmup"]) == ("Question 2?", "An answer.", "false")
    assert row["speech_end_in_recording_ms"] == "8000"
    assert row["at_speech_end_ms"] == "0"
    assert row["at_last_sent_ms"] == "0.2"
    assert row["at_first_packet_ms"] == "330.25"
    assert row["at_first_played_b100_ms"] == "510.25"
    assert row[V2V] == "410.25"
    assert (row["false_starts"], row["false_start_heard_ms"], row["flags"]) == ("2", "50", "audio after done")


def test_an_empty_cell_is_unavailable(tmp_path: Path) -> None:
    row = _rows(tmp_path, mixed())[6]
    assert row["outcome"] == "time-out"
    assert all(row[name] == "" for name in METRICS)
    assert row["at_first_packet_ms"] == row["at_first_played_b0_ms"] == ""


def test_a_turn_that_never_began_has_a_row(tmp_path: Path) -> None:
    never = msgspec.structs.replace(turn(0, None, turn_class="failed", outcome="transport"), instants_ns={}, method="")
    lost = msgspec.structs.replace(dialogue(0, [never]), ready_ns=None, recording="")
    (row,) = _rows(tmp_path, [lost])
    assert (row["outcome"], row["at_speech_end_ms"], row["speech_end_in_recording_ms"]) == ("transport", "", "")


def test_a_servers_text_is_data_and_never_a_formula(tmp_path: Path) -> None:
    nasty = ['=HYPERLINK("x")', "@SUM(1)", 'two\nlines, "quoted"', "half \ud800 a pair"]
    rows = _rows(tmp_path, [dialogue(0, [turn(k, answered=text) for k, text in enumerate(nasty)])])
    assert [row["answered"] for row in rows] == ['\'=HYPERLINK("x")', "'@SUM(1)", nasty[2], "half ? a pair"]


def test_a_measure_from_outside_gets_a_column_and_a_summary(tmp_path: Path) -> None:
    own = [dialogue(0, [turn(0, measures={"own_score": Value(3.5)})])]
    assert _rows(tmp_path, own)[0]["own_score"] == "3.5"
    assert summarise_run(plan(), own, FLOOR).headline.measures["own_score"].distribution.p50 == 3.5
