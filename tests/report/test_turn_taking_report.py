"""Turn-taking in the run's summary, on the terminal, in the table of turns and on the page."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import msgspec
from rich.console import Console

from harness.report.html.tables import figures_section
from harness.report.html.turn_taking import turn_taking_section
from harness.report.summary import Summary, summarise_run
from harness.report.table import print_table
from harness.report.turn_taking_wording import curve_line, cut_off_sentence
from harness.report.turns_csv import write_turns_csv
from harness.report.wording import TURN_TAKING_WORDS
from harness.results.dialogue_result import DialogueResult
from metrics.result import TurnResult, Unavailable, Value
from metrics.turn_taking.session import SESSION_MEASURES
from metrics.turn_taking.table import TURN_TAKING
from metrics.turn_taking.totals import AFTER_INTERRUPTION, PausePoint, rate_of
from tests.support.run_samples import FLOOR, dialogue, plan
from tests.support.spoken_dialogues import reply, sound, talk, user, vad


def coughed(stopped: bool) -> list[TurnResult]:
    """An answer and a cough, which stops it or does not."""
    answer = reply("a", 1400, (1500, sound(5000)), flushed_ms=2700 if stopped else None)
    return talk((user(0, 0, 1000), user(1, 2500, 200, "noise")), (answer,))


def run_of(results: list[list[TurnResult]], *, script: str = "garden") -> list[DialogueResult]:
    return [msgspec.structs.replace(dialogue(k, turns), script=script) for k, turns in enumerate(results)]


def twenty_coughs() -> list[DialogueResult]:
    return run_of([coughed(k < 7) for k in range(20)])


def paused(cut: bool) -> list[TurnResult]:
    events = vad("committed", 1500) if cut else []
    turn = user(0, 0, 3000, pauses_ms=((1000, 700),))
    return talk((turn,), (reply("a", 3500, (3600, sound(500))),), events)


def printed(summary: Summary) -> str:
    out = io.StringIO()
    print_table(summary, Console(file=out, width=80))
    return out.getvalue()


def test_seven_of_twenty_in_the_summary_and_on_the_terminal() -> None:
    summary = summarise_run(plan(2), twenty_coughs(), FLOOR)
    told = summary.turn_taking
    assert told is not None and told.is_duplex
    assert (told.rates["false_interruption"].hits, told.rates["false_interruption"].of) == (7, 20)
    lines = printed(summary).splitlines()
    assert [" ".join(line.split()) for line in lines if "mere sound" in line] == [
        "stopped by a mere sound 35 % 18 – 57 % 7 of 20",
        "answered a mere sound 0 % 0 – 16 % 0 of 20",
    ]
    assert "40 turns: 20 noise, 20 speech." in lines
    assert all(len(line) <= 80 for line in lines)


def test_a_sound_that_asks_nothing_is_in_no_latency_and_attempts_still_add_up() -> None:
    summary = summarise_run(plan(2), twenty_coughs(), FLOOR)
    assert summary.headline.turns == summary.headline.measures["voice_to_voice_ms"].n == 20
    assert summary.headline.measures["voice_to_voice_ms"].unavailable == {}
    assert summary.later_turns.turns == 0, "the coughs are the later turns"
    attempts = summary.attempts
    assert (attempts.total, attempts.completed) == (40, 40)
    assert attempts.outcomes["completed"] == {"quiet as scripted": 20, "answered": 13, "interrupted": 7}


def test_plain_turns_have_no_block() -> None:
    plain = run_of([talk((user(0, 0, 1000),), (reply("a", 1400, (1500, sound(500))),))])
    summary = summarise_run(plan(1), plain, FLOOR)
    assert summary.turn_taking is not None and not summary.turn_taking.is_duplex
    assert "turn-taking" not in printed(summary) and list(turn_taking_section(summary)) == []
    assert summary.spoken[0].turn_taking is None


def test_the_curve_is_said_in_a_sentence() -> None:
    summary = summarise_run(plan(1), run_of([paused(k < 3) for k in range(25)]), FLOOR)
    text = printed(summary)
    assert "Cuts the user off after 0.7 s pauses in 12 % of cases (3 of 25)." in text
    assert "Turn ended because of a pause: 0.7 s 3 of 25." in text
    never = [PausePoint(300.0, rate_of(0, 20)), PausePoint(2000.0, rate_of(0, 20))]
    assert cut_off_sentence(never) == "Never cuts the user off in pauses of up to 2 s (0 of 40)."
    assert cut_off_sentence([]) == ""
    assert curve_line(never) == "Turn ended because of a pause: 0.3 s 0 of 20, 2 s 0 of 20."


def test_what_cannot_be_had_says_why() -> None:
    turns = (user(0, 0, 1000, committed_ms=1000), user(1, 3500, 1000, "interruption", committed_ms=4500))
    first = reply("a", 1400, (1500, sound(6000)), done_ms=3540, status="cancelled", flushed_ms=3500, cancelled_ms=3500)
    talked = talk(turns, (first, reply("b", 4700, (4800, sound(500)))), protocol_class="A")
    text = printed(summarise_run(plan(2), run_of([talked]), FLOOR))
    assert text.count("unavailable: in class A the client alone ends turns\n") == 1
    assert "barge-in stop" in text and "voice-to-voice after it" in text


def test_each_script_by_itself() -> None:
    both = [*run_of([coughed(True)], script="noise"), *run_of([coughed(False)], script="quiet noise")]
    by_script = summarise_run(plan(2), both, FLOOR).turn_taking_by_script
    assert [(name, one.rates["false_interruption"].hits) for name, one in by_script.items()] == [
        ("noise", 1),
        ("quiet noise", 0),
    ]
    page = "".join(turn_taking_section(summarise_run(plan(2), both, FLOOR)))
    assert "Turn-taking of quiet noise" in page


def test_the_page_has_every_rate_with_its_meaning() -> None:
    summary = summarise_run(plan(2), twenty_coughs(), FLOOR)
    page = figures_section(summary)
    assert ">7 of 20<" in page and TURN_TAKING_WORDS["false_interruption"].meaning in page
    curve = figures_section(summarise_run(plan(1), run_of([paused(k < 3) for k in range(25)]), FLOOR))
    assert "in pauses of 0.7 s</td>" in curve and ">3 of 25<" in curve
    assert page.index("Turn-taking") < page.index("What became of every attempt")


def test_the_table_of_turns_has_kinds_and_measures(tmp_path: Path) -> None:
    write_turns_csv(tmp_path / "turns.csv", run_of([coughed(True), paused(True)]))
    rows = list(csv.DictReader((tmp_path / "turns.csv").read_text().splitlines()))
    assert [row["kind"] for row in rows] == ["speech", "noise", "speech"]
    assert [row["false_interruption"] for row in rows] == ["", "1", ""]
    assert [row["voice_to_voice_ms"] for row in rows] == ["500", "", "600"]
    assert [row["pauses_ms_cut"] for row in rows] == ["", "", "700:1"]
    assert set(TURN_TAKING) <= set(rows[0])


def test_sessions_of_class_d_have_their_underruns() -> None:
    performed = run_of([coughed(False), coughed(False)])
    streams = [{"session_underruns": Value(2.0)}, {"session_underruns": Unavailable("the session has no audio")}]
    dialogues = [msgspec.structs.replace(d, session=s) for d, s in zip(performed, streams, strict=True)]
    summary = summarise_run(plan(2), dialogues, FLOOR)
    assert summary.session["session_underruns"].distribution.p50 == 2.0
    assert summary.session["session_underruns"].unavailable == {"the session has no audio": 1}
    assert "underruns, per session" in printed(summary)


def test_every_measure_has_words() -> None:
    assert TURN_TAKING_WORDS.keys() == {*TURN_TAKING, AFTER_INTERRUPTION, *SESSION_MEASURES}


def test_it_survives_its_file() -> None:
    summary = summarise_run(plan(2), twenty_coughs(), FLOOR)
    assert msgspec.json.decode(msgspec.json.encode(summary), type=Summary) == summary
