"""What a scoring is summed up to: which lines count, summary.json with its schema, scores.csv, the table."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from rich.console import Console

from harness.score import summary as module
from harness.score import table
from harness.score.aggregate import OTHER_REASONS, REASONS_AT_MOST
from harness.score.counted import NOT_SCORED
from harness.score.engine import Chosen, ScoreStore, chosen_with_needs
from harness.score.engine.keys import Keys
from harness.score.screen import only, print_metrics, print_scores
from harness.score.summary import Scored, Scores, read_scores, schema_text, write_scores
from metrics.result import Failed, Measured, Unavailable, Value
from metrics.scoring import Figure, Metric, Option, Sample, Score, ScoreLine

SCHEMA = Path(module.__file__).parents[1] / "report" / "schema" / "scores.schema.json"
QUALITY = Metric(
    "quality",
    "2",
    "how good it is",
    (Figure("quality", "MOS", "higher", "Quality", "by hand"),),
    options=(Option("kernel", "soxr", "how"),),
)
HEARD = Metric("heard", "1", "what was heard", (Figure("words", "", "none", "words", "by hand"),), hidden=True)
ERRORS = Metric("errors", "1", "how wrong it is", (Figure("wer", "%", "lower", "WER", "by hand"),), needs=("heard",))
SAMPLES = [
    Sample("d0001/1", "a.flac", group="d0001", language="en"),
    Sample("d0001/2", "", group="d0001", order=1, language="en", unavailable="the turn failed: time-out"),
    Sample("=cmd()", "c.flac", group="d0002", language="zh"),
]


@pytest.fixture(autouse=True)
def metrics(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    names = {"quality": "QUALITY", "heard": "HEARD", "errors": "ERRORS"}
    monkeypatch.setattr(table, "METRICS", table.METRICS)
    for name in list(table.METRICS):
        monkeypatch.delitem(table.METRICS, name)
    for name, attribute in names.items():
        monkeypatch.setitem(table.METRICS, name, f"{__name__}:{attribute}")
    table.metric.cache_clear()
    yield
    table.metric.cache_clear()


def line(
    metric: Metric, place: int, measured: Measured, *, kernel: str = "soxr", flags: tuple[str, ...] = ()
) -> ScoreLine:
    sample = SAMPLES[place]
    options = {"kernel": kernel} if metric is QUALITY else {}
    identity = {"weights": "ab"}
    (key,) = Keys({metric.name: identity}).of_derived(Chosen(metric, options), [sample], [{}])
    return ScoreLine(
        key,
        sample.id,
        metric.name,
        metric.version,
        Score({metric.figures[0].name: measured}, flags=list(flags)),
        group=sample.group,
        order=sample.order,
        language=sample.language,
        seconds=1.5,
        options=options,
        identity=identity,
    )


def summed_up(folder: Path, lines: list[ScoreLine], *names: str, kernel: str = "soxr") -> Scores:
    store = ScoreStore(folder)
    with store.writing():
        for one in lines:
            store.add(one.metric, one)
    options = {"quality": {"kernel": kernel}} if "quality" in names else {}
    scored = Scored("run", lambda: iter(SAMPLES), len(SAMPLES), remarks=["1 warm-up dialogue not scored"])
    return write_scores(folder, scored, ScoreStore(folder), chosen_with_needs(names, options))


def all_of(scores: Scores, metric: str) -> tuple[float | None, int, int, int]:
    one = scores.metrics[metric].aggregates[0]
    return one.value, one.used, one.skipped, one.failed


FIRST = [
    line(QUALITY, 0, Value(3.0), flags=("out-of-domain: zh", "out-of-domain: again")),
    line(QUALITY, 1, Unavailable("the turn failed: time-out")),
    line(QUALITY, 2, Failed("killed")),
]


def test_every_sample_is_counted_once(tmp_path: Path) -> None:
    scores = summed_up(tmp_path, FIRST, "quality")
    assert all_of(scores, "quality") == (3.0, 1, 1, 1)
    assert scores.metrics["quality"].flags == {"out-of-domain": 1}
    assert scores.metrics["quality"].made.identity == {"weights": "ab"}
    assert scores.values == 1
    assert read_scores(tmp_path) == scores


def test_a_later_line_counts_in_place_of_an_earlier_one(tmp_path: Path) -> None:
    assert all_of(summed_up(tmp_path, [*FIRST, line(QUALITY, 2, Value(5.0))], "quality"), "quality") == (4.0, 2, 1, 0)


def test_what_was_not_scored_with_these_settings_is_said(tmp_path: Path) -> None:
    """Interrupted in the midst of a scoring with other options: no mean is made of both."""
    scores = summed_up(tmp_path, [*FIRST, line(QUALITY, 0, Value(4.5), kernel="sinc")], "quality", kernel="sinc")
    assert all_of(scores, "quality") == (4.5, 1, 2, 0)
    (told, *_) = scores.metrics["quality"].aggregates
    assert told.unavailable == {NOT_SCORED: 1, "the turn failed: time-out": 1}
    assert scores.metrics["quality"].made.options == {"kernel": "sinc"}


def test_lines_of_samples_that_are_no_more_do_not_count(tmp_path: Path) -> None:
    gone = msgspec.structs.replace(FIRST[0], sample="gone.wav", key="another")
    assert all_of(summed_up(tmp_path, [*FIRST, gone], "quality"), "quality") == (3.0, 1, 1, 1)


def test_an_earlier_metric_stays_and_parts_of_others_are_not_shown(tmp_path: Path) -> None:
    summed_up(tmp_path, FIRST, "quality")
    lines = [line(HEARD, 0, Value(7.0)), line(ERRORS, 0, Value(12.5)), line(ERRORS, 2, Unavailable("no speech"))]
    scores = summed_up(tmp_path, lines, "errors")
    assert list(scores.metrics) == ["quality", "errors"]
    assert all_of(scores, "quality") == (3.0, 1, 1, 1)
    assert all_of(scores, "errors") == (12.5, 1, 2, 0)
    assert set(scores.metrics["errors"].needs) == {"heard"}


def test_the_csv_has_a_row_per_sample(tmp_path: Path) -> None:
    summed_up(tmp_path, [*FIRST, line(ERRORS, 0, Value(12.5))], "quality", "errors")
    rows = list(csv.DictReader(io.StringIO((tmp_path / "scores.csv").read_text())))
    assert [row["sample"] for row in rows] == ["d0001/1", "d0001/2", "'=cmd()"]
    assert [row["quality"] for row in rows] == ["3", "", ""]
    assert rows[0]["wer"] == "12.5"
    assert rows[0]["flags"] == "out-of-domain: zh; out-of-domain: again"
    assert rows[1]["unavailable"] == "the turn failed: time-out"
    assert rows[0]["seconds"] == "1.5"


def test_the_shipped_schema_is_that_of_the_code() -> None:
    renew = "python -c 'from harness.score.summary import schema_text; print(schema_text(), end=\"\")'"
    assert SCHEMA.read_text() == schema_text(), f"write it again: {renew} > {SCHEMA.name}"


def printed(scores: Scores) -> str:
    console = Console(file=io.StringIO(), width=80)
    print_scores(scores, console)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_the_table(tmp_path: Path) -> None:
    text = printed(summed_up(tmp_path, [*FIRST, line(ERRORS, 0, Unavailable("no speech"))], "quality", "errors"))
    rows = [" ".join(row.split()) for row in text.splitlines()]
    assert "score mean min – max n" in rows
    assert "Quality MOS 3.00 3.00 – 3.00 1¹" in rows
    assert "en 3.00 3.00 – 3.00 1" in rows
    assert "zh – – 0²" in rows
    assert "WER % – – 0³" in rows
    assert "¹ failed 1 of 3: killed (1)" in rows
    assert "² failed 1 of 1: killed (1)" in rows
    assert "³ unavailable: no speech (1); not scored yet with these settings (1)" in rows
    assert "no 95 % interval: needs 10 dialogues or folders, has 1" in rows
    below = " ".join(rows)
    assert "3 samples, 1 of them with nothing to score: the turn failed: time-out (1)." in below
    assert "1 warm-up dialogue not scored." in below
    assert "Remarks of quality: 1 out-of-domain." in rows
    assert "quality/2: kernel=soxr." in rows


def test_a_file_that_cannot_be_used_is_told_once(tmp_path: Path) -> None:
    broken = "cannot use a.wav: it is empty (0 bytes). Give a WAV file"
    lines = [line(QUALITY, 0, Failed(broken)), line(ERRORS, 0, Failed(f"asr failed: {broken}"))]
    text = " ".join(printed(summed_up(tmp_path, lines, "quality", "errors")).split())
    assert text.count("it is empty (0 bytes)") == 1
    assert "failed 1 of 3: files that cannot be used, see below (1)" in text
    assert f"Failed: {broken}." in text


def test_of_many_files_that_cannot_be_used_some_are_named(tmp_path: Path) -> None:
    scores = summed_up(tmp_path, FIRST, "quality")
    lost = {f"cannot use {number}.wav: it is empty": 1 for number in range(REASONS_AT_MOST)}
    text = " ".join(printed(msgspec.structs.replace(scores, unusable={**lost, OTHER_REASONS: 79})).split())
    assert "cannot use 4.wav: it is empty; and 94 more." in text
    assert text.count("cannot use") == 5


def test_a_figure_that_says_nothing_beside_others_is_no_row(tmp_path: Path) -> None:
    scores = summed_up(tmp_path, FIRST, "quality")
    (full, *_) = scores.metrics["quality"].aggregates
    change = {
        "figure": "other",
        "title": "Other",
        "value": None,
        "used": 0,
        "failed": 0,
        "minimum": None,
        "maximum": None,
    }
    other = msgspec.structs.replace(full, **change, unavailable={"not in this language": 2, **full.unavailable})
    metric = msgspec.structs.replace(scores.metrics["quality"], aggregates=[full, other])
    text = " ".join(printed(msgspec.structs.replace(scores, metrics={"quality": metric})).split())
    assert "Other MOS" not in text
    assert "Without a value: Other (not in this language)." in text
    alone = msgspec.structs.replace(metric, aggregates=[other])
    text = " ".join(printed(msgspec.structs.replace(scores, metrics={"quality": alone})).split())
    assert "Other MOS – – 0¹" in text


def test_what_was_scored_before_is_named_and_not_shown(tmp_path: Path) -> None:
    summed_up(tmp_path, FIRST, "quality")
    scores = summed_up(tmp_path, [line(ERRORS, 0, Value(12.5))], "errors")
    text = " ".join(printed(only(scores, ["errors"])).split())
    assert "WER %" in text and "Quality MOS" not in text
    assert "Scored before: quality; summary.json has them too." in text


def test_nothing_at_all_is_a_table_too(tmp_path: Path) -> None:
    assert "3 samples" in printed(summed_up(tmp_path, []))


def test_the_list_says_what_is_missing() -> None:
    console = Console(file=io.StringIO(), width=80)
    print_metrics([(QUALITY, ""), (ERRORS, "it needs heard: pip install it.")], console)
    assert isinstance(console.file, io.StringIO)
    rows = [" ".join(row.split()) for row in console.file.getvalue().splitlines()]
    assert rows[1:] == [
        "quality 2 how good it is",
        "options: kernel",
        "errors 1 how wrong it is",
        "not here: it needs heard: pip install it.",
    ]


def test_chosen_metrics_bring_what_they_need() -> None:
    names = [each.name for each in chosen_with_needs(["errors"])]
    assert names == ["heard", "errors"]
    assert all(isinstance(each, Chosen) for each in chosen_with_needs(["errors"]))
