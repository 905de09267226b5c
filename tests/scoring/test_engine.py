"""The scoring engine, with real worker processes: what is scored, what is kept, and what is said of what cannot be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

from harness.score.engine import ScoreStore, chosen_with_needs
from metrics.scoring import Sample
from sessions.errors import SetupError
from tests.scoring.engine_metrics import ALL, LOG, SILENT
from tests.scoring.engine_rig import figures, log, score, scorings, sound, sounds, told


@pytest.fixture(autouse=True)
def noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(LOG, str(tmp_path / "log"))
    yield


def values(folder: Path, metric: str, figure: str = "") -> list[float | str]:
    return [told(value) for _, value in sorted(figures(folder, metric, figure).items())]


def test_what_listens_and_what_derives(tmp_path: Path) -> None:
    samples = sounds(tmp_path, [None] * 3, group="d1", language="en")
    memory = score(samples, ["above_first"], tmp_path / "scores")
    assert values(tmp_path / "scores", "loudest") == [0.01, 0.02, 0.03]
    assert values(tmp_path / "scores", "twice") == [0.02, 0.04, 0.06]
    assert values(tmp_path / "scores", "above_first") == [0.0, 0.02, 0.04]
    assert memory.totals == {"loudest": 3, "twice": 3, "above_first": 3}
    assert log().count("loaded") == 1 and "group of 3: s0 s1 s2" in log()
    line = next(line for line in memory.lines["twice"] if line.sample == "s1")
    (heard,) = (line for line in memory.lines["loudest"] if line.sample == "s1")
    assert line.inputs == {"loudest": heard.key}
    assert (line.group, line.order, line.language, line.seconds) == ("d1", 1, "en", 0.2)
    assert len(line.audio) == 64 and line.audio == heard.audio
    assert heard.identity == {"weights": "none"} and heard.options == {"form": "plain"}
    assert heard.score.details["rate_hz"] == 16_000 and heard.score.details["samples"] == 3200


def test_nothing_is_scored_twice(tmp_path: Path) -> None:
    samples = sounds(tmp_path, [None] * 5, group="d1")
    score(samples, ["above_first"], tmp_path / "scores")
    before = log()
    memory = score(samples, ["above_first"], tmp_path / "scores")
    assert log() == before, "no model was loaded and nothing scored"
    assert memory.kept_ == {"loudest": 5, "twice": 5, "above_first": 5} and not memory.lines


def test_what_is_new_is_scored_alone(tmp_path: Path) -> None:
    samples = sounds(tmp_path, [None] * 3)
    score(samples[:2], ["loudest"], tmp_path / "scores")
    memory = score(samples, ["loudest"], tmp_path / "scores")
    assert scorings() == ["s0", "s1", "s2"]
    assert memory.kept_ == {"loudest": 2}


def test_other_options_and_versions_are_scored_anew(tmp_path: Path) -> None:
    samples = sounds(tmp_path, [None])
    scores = tmp_path / "scores"
    score(samples, ["loudest"], scores)
    score(samples, ["loudest"], scores, options={"loudest": {"form": "other"}})
    newer = {"loudest": replace(ALL["loudest"], version="2")}
    score(samples, ["loudest"], scores, metrics=newer)
    assert scorings() == ["s0"] * 3
    score(samples, ["loudest"], scores)  # the first again: known, and what counts from now on
    assert scorings() == ["s0"] * 3
    (line,) = ScoreStore(scores).lines("loudest")
    assert (line.metric_version, line.options) == ("1", {"form": "plain"})


def test_one_content_under_two_names_is_scored_once(tmp_path: Path) -> None:
    first = sound(tmp_path / "a.wav", 0.5)
    (tmp_path / "b.wav").write_bytes(first.read_bytes())
    samples = [Sample("a", str(first)), Sample("b", str(tmp_path / "b.wav"))]
    score(samples, ["twice"], tmp_path / "scores")
    assert len(scorings()) == 1 and sum(line.startswith("twice") for line in log()) == 1
    assert values(tmp_path / "scores", "loudest") == [0.5, 0.5]
    assert values(tmp_path / "scores", "twice") == [1.0, 1.0]


def test_a_changed_file_is_read_again_and_a_touched_one_not_scored(tmp_path: Path) -> None:
    (sample,) = sounds(tmp_path, [None])
    scores = tmp_path / "scores"
    score([sample], ["loudest"], scores)
    Path(sample.audio).touch()
    score([sample], ["loudest"], scores)
    assert scorings() == ["s0"]
    sound(Path(sample.audio), 0.7)
    score([sample], ["loudest"], scores)
    assert values(scores, "loudest") == [0.7]


def test_a_new_text_costs_only_what_reads_it(tmp_path: Path) -> None:
    (sample,) = sounds(tmp_path, ["one"])
    score([sample], ["loudest", "deaf_to_text"], tmp_path / "scores")
    (other,) = sounds(tmp_path, ["two"])
    memory = score([other], ["loudest", "deaf_to_text"], tmp_path / "scores")
    assert memory.kept_ == {"deaf_to_text": 1} and set(memory.lines) == {"loudest"}


def test_a_language_that_the_model_was_not_made_for_is_flagged(tmp_path: Path) -> None:
    samples = [*sounds(tmp_path, ["a"], language="zh"), *sounds(tmp_path / "other", ["b"], language="en-GB")]
    memory = score([samples[0], Sample("t", samples[1].audio, language="en_GB")], ["deaf_to_text"], tmp_path / "scores")
    assert {line.sample: line.score.flags for line in memory.lines["deaf_to_text"]} == {
        "s0": ["out-of-domain: zh"],
        "t": [],
    }


def test_each_metric_hears_its_own_rate(tmp_path: Path) -> None:
    sample = Sample("a", str(sound(tmp_path / "a.wav", 0.5, rate_hz=48_000)))
    memory = score([sample], ["loudest", "own_rate"], tmp_path / "scores")
    heard = {name: lines[0].score.details for name, lines in memory.lines.items()}
    assert (heard["loudest"]["rate_hz"], heard["loudest"]["samples"]) == (16_000, 3200)
    assert (heard["own_rate"]["rate_hz"], heard["own_rate"]["samples"]) == (48_000, 9600)


def test_batches_are_of_like_length(tmp_path: Path) -> None:
    lengths = [0.2, 2.0] * 6
    samples = [
        Sample(f"s{k:02}", str(sound(tmp_path / f"{k}.wav", 0.01 * (k + 1), seconds)))
        for k, seconds in enumerate(lengths)
    ]
    memory = score(samples, ["batched"], tmp_path / "scores")
    batches = [line.score.details["lengths"] for line in memory.lines["batched"]]
    assert all(max(batch) <= 1.25 * min(batch) and len(batch) <= 4 for batch in batches)
    assert values(tmp_path / "scores", "batched", "loudest") == [round(0.01 * (k + 1), 4) for k in range(12)]


# ---- samples that cannot be scored ------------------------------------------------------------------------------


def test_a_sample_that_is_not_to_be_scored_is_never_opened(tmp_path: Path) -> None:
    samples = [Sample("a", str(tmp_path / "nowhere.wav"), unavailable="the turn failed: transport")]
    memory = score(samples, ["above_first"], tmp_path / "scores")
    for metric in ("loudest", "twice", "above_first"):
        assert values(tmp_path / "scores", metric) == ["unavailable because the turn failed: transport"]
    assert not log() and not memory.remarks
    again = score(samples, ["above_first"], tmp_path / "scores")
    assert again.kept_ == {"loudest": 1, "twice": 1, "above_first": 1}


def test_bad_files(tmp_path: Path) -> None:
    good = sound(tmp_path / "good.wav", 0.5)
    (tmp_path / "empty.wav").write_bytes(b"")
    (tmp_path / "text.wav").write_text("this is no sound" * 10)
    soundfile.write(tmp_path / "nothing.wav", np.zeros(0), 16_000)
    soundfile.write(tmp_path / "nan.wav", np.full(100, np.nan), 16_000, subtype="FLOAT")
    (tmp_path / "cut.flac").write_bytes(b"fLaC" + b"\0" * 40)
    (tmp_path / "folder.wav").mkdir()
    names = ["empty.wav", "text.wav", "nothing.wav", "nan.wav", "cut.flac", "folder.wav", "none.wav", "good.wav"]
    samples = [Sample(name, str(tmp_path / name)) for name in names]
    score(samples, ["loudest", "own_rate", "twice"], tmp_path / "scores")
    heard = {name: told(value) for name, value in figures(tmp_path / "scores", "loudest").items()}
    assert heard["good.wav"] == 0.5 and good.exists()
    assert heard["nothing.wav"] == "unavailable because there is no sound: the file holds no samples"
    for name, problem in {
        "empty.wav": "it is empty (0 bytes)",
        "text.wav": "it is not readable as audio",
        "nan.wav": "samples that are not numbers",
        "cut.flac": "it is not readable as audio",
        "folder.wav": "it is a folder",
        "none.wav": "there is no such file",
    }.items():
        assert str(heard[name]).startswith(f"error: cannot use {tmp_path / name}: ")
        assert problem in str(heard[name])
    assert {name: told(value) for name, value in figures(tmp_path / "scores", "own_rate", "loudest").items()} == heard
    derived = {name: told(value) for name, value in figures(tmp_path / "scores", "twice").items()}
    assert derived["text.wav"] == str(heard["text.wav"]).replace("error: ", "error: loudest failed: ")
    assert str(derived["nothing.wav"]).startswith("unavailable because loudest: there is no sound")
    assert derived["good.wav"] == 1.0


def test_what_is_without_value_passes_that_on(tmp_path: Path) -> None:
    (sample,) = sounds(tmp_path, [None])
    score([sample], ["twice"], tmp_path / "scores", metrics={**ALL, "loudest": SILENT})
    assert values(tmp_path / "scores", "twice") == ["unavailable because loudest: it is silent"]
    assert not any(line.startswith("twice") for line in log())


def test_a_group_that_is_too_large_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.score.engine.deriving.GROUP_LIMIT", 3)
    score(sounds(tmp_path, [None] * 5, group="all"), ["above_first"], tmp_path / "scores")
    assert len(values(tmp_path / "scores", "twice")) == 5
    assert set(values(tmp_path / "scores", "above_first")) == {
        "unavailable because its group holds more than 3 samples, which is no dialogue"
    }


# ---- metrics that cannot be had ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("metric", "outcome", "remark"),
    [
        ("not_installed", "unavailable because this needs the package 'nowhere'", "not_installed is unavailable"),
        ("missing_later", "unavailable because this needs the package 'nowhere'", "missing_later is unavailable"),
        ("doubtful", "unavailable because self-check: clean speech scores 1.0", "doubtful is unavailable: self-check"),
        ("not_identified", "error: RuntimeError: no such thing", "not_identified failed"),
        ("not_loading", "error: RuntimeError: the checkpoint is cut off", "not_loading failed"),
        ("refusing", "error: weights.pt: it is no checkpoint", "refusing failed"),
        ("dying", "error: its worker was killed by signal 11 (SIGSEGV) while it was starting", "dying failed"),
    ],
)
def test_a_metric_that_cannot_be_had(tmp_path: Path, metric: str, outcome: str, remark: str) -> None:
    samples = sounds(tmp_path, [None] * 3)
    memory = score(samples, [metric, "loudest"], tmp_path / "scores")
    assert all(str(value).startswith(outcome) for value in values(tmp_path / "scores", metric, "loudest"))
    assert len(figures(tmp_path / "scores", metric, "loudest")) == 3
    assert [said.startswith(remark) for said in memory.remarks] == [True], "told once"
    assert values(tmp_path / "scores", "loudest") == [0.01, 0.02, 0.03], "the others go on"
    assert log().count("tried to load") == {"not_loading": 2, "dying": 2, "refusing": 1}.get(metric, 0)


def test_once_it_can_be_had_it_is_scored(tmp_path: Path) -> None:
    samples = sounds(tmp_path, [None])
    missing = {"loudest": replace(ALL["not_installed"], name="loudest")}
    score(samples, ["loudest"], tmp_path / "scores", metrics=missing)
    score(samples, ["loudest"], tmp_path / "scores")
    assert values(tmp_path / "scores", "loudest") == [0.01]


# ---- what is asked ----------------------------------------------------------------------------------------------


def test_needs_come_first_and_once() -> None:
    chosen = chosen_with_needs(["above_first", "loudest", "twice"], find=ALL.__getitem__)
    assert [each.name for each in chosen] == ["loudest", "twice", "above_first"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"loudest": {"shape": "x"}}, "the metric loudest has no option 'shape'. It has: form"),
        ({"loudest": {"form": "x"}}, "loudest.form cannot be 'x'. Choose one of plain, other"),
        ({"dying": {}}, "options are given for dying, which is not scored"),
    ],
)
def test_mistakes_in_options(options: dict[str, dict[str, str]], words: str) -> None:
    with pytest.raises(SetupError) as caught:
        chosen_with_needs(["loudest"], options, find=ALL.__getitem__)
    assert words in str(caught.value)
