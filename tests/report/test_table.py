"""The table on the terminal: rows, footnotes, 80 columns, and no terminal at all."""

from __future__ import annotations

import io
import re

from rich.console import Console

from harness.report.summary import summarise_run
from harness.report.table import print_table
from harness.report.wording import number, span
from harness.results.dialogue_result import DialogueResult
from metrics.result import Unavailable
from tests.support.run_samples import FLOOR, dialogue, plan, turn


def printed(dialogues: list[DialogueResult], *, width: int = 80, terminal: bool = False) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=terminal, color_system="standard" if terminal else None)
    print_table(summarise_run(plan(), dialogues, FLOOR), console)
    return out.getvalue()


def row(text: str, label: str) -> list[str]:
    """The cells of the row that begins with `label`; a range is one cell."""
    line = next(line for line in text.splitlines() if line.strip().startswith(label))
    line = line.strip().removeprefix(label)
    return re.sub(r"(?<=\w) – (?=\S)", "…", line).split()


FEW = [
    dialogue(0, [turn(0, 500.0), turn(1, 410.25)]),
    dialogue(
        1,
        [
            turn(0, -120.0, flags=("audio after done",)),
            turn(1, 8_888.0, turn_class="invalid", detail="a frame left 31 ms late"),
            turn(2, None, turn_class="failed", outcome="time-out", detail="nothing came in 45 s", answered=""),
        ],
    ),
]
MANY = [dialogue(k, [turn(j, 400.0 + 10 * k + j) for j in range(3)]) for k in range(12)]


def test_few_turns_show_a_range_and_a_dash_with_its_reason() -> None:
    text = printed(FEW)
    assert row(text, "in ms") == ["p50", "p95", "min…max", "n"]
    assert row(text, "voice-to-voice") == ["410", "–¹", "−120…500", "3"]
    assert row(text, "first packet") == ["330", "–¹", "−200…420", "3"]
    assert row(text, "first turns") == ["190", "–¹", "−120…500", "2"]
    assert row(text, "later turns") == ["410", "–¹", "410…410", "1"]
    assert "¹ p95 needs 20 samples\nno 95 % interval: needs 10 dialogues, has 2\n" in text


def test_every_row_that_was_asked_for_is_there() -> None:
    text = printed(FEW)
    assert row(text, "behind 20 ms buffer")[0] == "430"
    assert row(text, "behind 60 ms buffer")[0] == "470"
    assert row(text, "behind 100 ms buffer")[0] == "510"
    assert row(text, "behind 200 ms buffer")[0] == "610"
    assert row(text, "silence padding") == ["80.0", "–¹", "80.0…80.0", "3"]
    assert row(text, "longest gap")[0] == "45.0"
    assert row(text, "underruns per reply") == ["1", "–¹", "1…1", "3"]
    assert row(text, "gapless prebuffer")[0] == "12.5"
    assert row(text, "real-time factor")[0] == "0.40"


def test_many_dialogues_show_p95_and_the_interval() -> None:
    text = printed(MANY)
    assert row(text, "in ms") == ["p50", "95", "%", "interval", "p95", "min…max", "n"]
    p50, interval, p95, extremes, n = row(text, "voice-to-voice")
    assert (p50, p95, extremes, n) == ("456", "510", "400…512", "36")
    low, high = interval.split("…")
    assert 400 <= float(low) <= 456 <= float(high) <= 512
    assert row(text, "first turns")[2] == "–¹", "twelve first turns have no p95, though all turns have one"


def test_a_row_without_values_says_why() -> None:
    gone = [dialogue(0, [turn(0), turn(1, measures={"gap_max_ms": Unavailable("one arrival")})])]
    text = printed(gone)
    assert row(text, "longest gap")[-1] == "1²"
    assert "² unavailable: one arrival (1)" in text
    none = [dialogue(0, [turn(0, measures={"real_time_factor": Unavailable("no audio")})])]
    assert row(printed(none), "real-time factor") == ["–²", "–", "–", "0"]


def test_attempts_classes_and_conditions_are_told() -> None:
    text = " ".join(printed([dialogue(9, [turn(0)], warmup=True), *FEW]).split())
    assert "5 turns in 2 dialogues: 3 completed, 1 invalid, 1 failed (1 time-out)." in text
    assert "Invalid: this machine was more than 20 ms late" in text
    assert "1 turn never attempted" in text
    assert "Remarks: 1 audio after done." in text
    assert "1 warm-up dialogue came first; in no figure." in text
    assert "OpenAI Realtime, class A (session with explicit end of turn), turn detection: manual." in text
    assert "Speech end by annotation; audible by gate/1;" in text
    assert "timers wake 0.12 ms late (p99 1.40 ms)" in text


def test_what_was_said_and_answered_is_told_per_dialogue() -> None:
    text = printed(FEW)
    spoken = text[text.index("dialogue 1  garden") :]
    assert [line.split() for line in spoken.splitlines()[1:5]] == [
        ["user", "Question", "1?"],
        ["agent", "500", "ms", "An", "answer."],
        ["user", "Question", "2?"],
        ["agent", "410", "ms", "An", "answer."],
    ]
    second = spoken[spoken.index("dialogue 2") :]
    assert "agent   failed  –" in second
    assert "time-out: nothing came in 45 s" in second
    assert "agent  invalid  An answer." in second


def test_a_long_run_points_to_the_report() -> None:
    text = printed(MANY)
    assert "dialogue 8  garden" in text
    assert "dialogue 9  garden" not in text
    assert "… and 4 more in the report" in text


def test_eighty_columns_and_plain_text_without_a_terminal() -> None:
    long = [dialogue(0, [turn(0, 123_456.0, answered="word " * 80), turn(1, answered="x" * 300)])]
    for dialogues in (FEW, MANY, long):
        text = printed(dialogues)
        assert max(map(len, text.splitlines())) <= 80
        assert "\x1b" not in text
    assert "\x1b[1m" in printed(FEW, terminal=True)


def test_a_servers_text_cannot_drive_the_terminal() -> None:
    nasty = "\x1b[2J\x1b]0;title\x07 [bold]no markup[/bold]\r\nnew line \x9b31m"
    for terminal in (False, True):
        text = printed([dialogue(0, [turn(0, answered=nasty, detail=nasty, turn_class="failed")])], terminal=terminal)
        assert not {"\x1b[2J", "\x1b]", "\x07", "\x9b", "\r"} & set(text.split())
        assert all(mark not in text for mark in ("\x1b[2J", "\x1b]", "\x07", "\x9b", "\r"))
        assert "[bold]no markup[/bold] new line" in " ".join(text.split())


def test_nothing_completed_is_said_plainly() -> None:
    text = printed([dialogue(0, [turn(0, None, turn_class="failed", outcome="refused", detail="no such model")])])
    assert "No turn was completed" in text
    assert "1 turn in 1 dialogue: 0 completed, 0 invalid, 1 failed (1 refused)." in text
    assert "refused: no such model" in text


def test_an_empty_run_prints() -> None:
    assert "0 turns in 0 dialogues" in printed([])


def test_numbers_for_people() -> None:
    written = {0.0: "0", 4.126: "4.13", 9.996: "10.0", 41.26: "41.3", 99.96: "100", 1843.4: "1843", -0.001: "0.00"}
    assert {value: number(value) for value in written} == written
    assert number(-143.2) == "−143"
    assert span(-0.4, 512.3) == "0 – 512"
