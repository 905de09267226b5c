"""The replies of a run as samples: which turns give one, and what it says of its sound."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
import soundfile

from harness.results.finish import finish_run
from harness.score.samples.of_run import samples_of_run
from metrics.scoring import Sample
from sessions.clock import NS_PER_MS
from sessions.runs import RunFolder
from tests.report.test_check import log_of, recorded, rewrite


def samples(run: RunFolder) -> list[Sample]:
    return samples_of_run(run).samples


def test_a_reply_with_its_text_and_its_times(tmp_path: Path) -> None:
    run = recorded(tmp_path)
    finish_run(run)
    first, second = samples(run)
    assert (first.id, second.id) == ("d0001/1", "d0001/2")
    assert (first.group, first.order, second.order) == ("d0001", 0, 1)
    assert first.language == ""  # nobody said
    assert first.text == "Tick, tock, tick, tock."
    assert (first.unavailable, first.untimed) == ("", "")
    pcm, rate_hz = soundfile.read(first.audio, dtype="int16")
    assert rate_hz == first.rate_hz == 24_000
    assert first.borders[:3] == (0, 1_920, 3_840)  # packets of 80 ms
    assert first.borders[-1] < len(pcm) == 1_080 * 24
    assert first.voice_to_voice_ms == pytest.approx(380, abs=1)  # 300 of delay, 80 of silence
    (index, at_ns), *others = first.heard
    assert (index, others) == (0, [])
    assert at_ns / NS_PER_MS + 80 == pytest.approx(first.voice_to_voice_ms, abs=0.1)
    assert first.heard_samples is None


def test_stretches_begin_where_the_sound_ran_out(tmp_path: Path) -> None:
    run = recorded(tmp_path, behaviour="stalls")
    finish_run(run)
    sample = samples(run)[0]
    assert len(sample.heard) > 1
    assert {index for index, _ in sample.heard} <= set(sample.borders)
    assert [at_ns for _, at_ns in sample.heard] == sorted(at_ns for _, at_ns in sample.heard)


def test_failed_turns_and_replies_without_sound_are_unavailable(tmp_path: Path) -> None:
    run = recorded(tmp_path, behaviour="failures", turns=2)
    finish_run(run)
    assert [(one.unavailable, one.audio) for one in samples(run)] == [("the turn failed: rate limit", "")] * 2


def test_no_sound_at_all(tmp_path: Path) -> None:
    run = recorded(tmp_path, behaviour="soundless", turns=2)
    finish_run(run)
    assert [one.unavailable for one in samples(run)] == [
        "the reply has no audio (empty)",
        "the reply has no audio (tool call)",
    ]


def test_warm_up_and_stopped_dialogues_are_left_out(tmp_path: Path) -> None:
    run = recorded(tmp_path)
    journal = run.path / "journal.jsonl"
    line = json.loads(journal.read_text())
    plan = msgspec.structs.replace(run.plan, warmup=1)
    journal.write_text(json.dumps(line | {"warmup": True}) + "\n")
    found = samples_of_run(RunFolder(run.path, plan))
    assert (found.samples, found.remarks) == ([], ["1 warm-up dialogue not scored"])
    journal.write_text(json.dumps(line) + "\n")
    rewrite(run, lambda events: events[-1].update(completed=False))
    found = samples_of_run(run)
    assert (found.samples, found.remarks) == ([], ["1 dialogue that the user stopped not scored"])


def test_an_invalid_turn_is_scored_without_times(tmp_path: Path) -> None:
    run = recorded(tmp_path, turns=1)
    events = log_of(run).read_text().splitlines()
    sent = next(index for index, line in enumerate(events) if json.loads(line).get("what") == "audio")
    late = json.loads(events[sent])
    rewrite(run, lambda events: events[sent].update(due_ns=late["due_ns"] - 50 * NS_PER_MS))
    (sample,) = samples(run)
    assert (sample.heard, sample.voice_to_voice_ms) == ((), None)
    assert sample.untimed == "this machine was late, so the turn's times are not used"
    assert Path(sample.audio).exists()
    assert sample.text


def test_audio_that_is_not_there_is_rendered(tmp_path: Path) -> None:
    run = recorded(tmp_path)
    finish_run(run)
    before = samples(run)
    content = [Path(one.audio).read_bytes() for one in before]
    Path(before[1].audio).unlink()
    assert samples(run) == before
    assert [Path(one.audio).read_bytes() for one in before] == content
