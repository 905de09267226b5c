"""`duologue score` with metrics as they are shipped: bad sounds beside good ones, and a kill in the midst."""

from __future__ import annotations

import asyncio
import json
import shutil
import signal
from pathlib import Path

import msgspec
import numpy as np
import pytest
import soundfile

from harness.score.summary import Scores
from metrics.scoring import ScoreLine
from sessions.scripts import library, load_script
from tests.support.commands import run, start

SPOKEN = sorted((library()["small-talk"].parent / "small-talk").glob("*.flac"))


def put(folder: Path) -> Path:
    """Two spoken clips, silence, a tenth of a second, what is no audio, and what is cut short."""
    folder.mkdir()
    for number, clip in enumerate(SPOKEN[:2], 1):
        shutil.copy(clip, folder / f"spoken-{number}.flac")
    soundfile.write(folder / "silence.wav", np.zeros(32_000, dtype=np.int16), 16_000)
    samples, rate_hz = soundfile.read(SPOKEN[0], dtype="int16")
    soundfile.write(folder / "short.wav", samples[12_000 : 12_000 + rate_hz // 10], rate_hz)
    (folder / "text.wav").write_text("this is no audio")
    (folder / "empty.wav").write_bytes(b"")
    return folder


def lines(out: Path, metric: str) -> list[ScoreLine]:
    raw = (out / "scores" / f"{metric}.jsonl").read_bytes().split(b"\n")[:-1]
    return [msgspec.json.decode(line, type=ScoreLine) for line in raw]


async def test_bad_sounds_are_named_and_the_others_scored(tmp_path: Path) -> None:
    folder = put(tmp_path / "in")
    out = tmp_path / "out"
    ran = await run("score", "--audio", str(folder), "--metrics", "dnsmos,signal", "--out", str(out), "--json")
    assert ran.code == 0, ran.err
    scores = msgspec.json.decode(ran.out, type=Scores)
    quality = scores.metrics["dnsmos"].aggregates[0]
    assert (quality.used, quality.skipped, quality.failed) == (2, 2, 2)
    assert quality.value is not None and 2.5 < quality.value < 4.5
    assert any("silence" in reason for reason in quality.unavailable)
    assert any("short" in reason for reason in quality.unavailable)
    assert sum(quality.errors.values()) == 2
    assert any("empty.wav" in reason and "0 bytes" in reason for reason in scores.unusable)
    assert any("text.wav" in reason for reason in scores.unusable)
    facts = scores.metrics["signal"].aggregates
    assert {one.used + one.skipped + one.failed for one in facts} == {6}
    assert {one.failed for one in facts} == {2}
    assert f"scores: {out / 'scores' / 'summary.json'}" in ran.err


async def test_killed_and_told_again_it_scores_only_what_is_left(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(20):  # of different content each, or one score would serve all
        samples, rate_hz = soundfile.read(SPOKEN[number % 3], dtype="int16")
        soundfile.write(folder / f"{number:02d}.flac", np.roll(samples, 100 * number), rate_hz)
    out = tmp_path / "out"
    arguments = ("score", "--audio", str(folder), "--metrics", "dnsmos", "--out", str(out))
    process = await start(*arguments)
    file = out / "scores" / "dnsmos.jsonl"
    async with asyncio.timeout(120):
        while not file.exists() or file.read_bytes().count(b"\n") < 2:
            assert process.returncode is None, (await process.communicate())[1].decode()
            await asyncio.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    await process.communicate()
    before = lines(out, "dnsmos")
    assert 2 <= len(before) < 20
    ran = await run(*arguments)
    assert ran.code == 0, ran.err
    after = lines(out, "dnsmos")
    assert after[: len(before)] == before
    assert sorted(line.sample for line in after) == sorted(file.name for file in folder.iterdir())


async def test_a_set_up_error_is_one_line(tmp_path: Path) -> None:
    folder = put(tmp_path / "in")
    (tmp_path / "t.tsv").write_text("spoken-1 hello\n")
    ran = await run("score", "--audio", str(folder), "--text", str(tmp_path / "t.tsv"), "--metrics", "dnsmos")
    assert ran.code == 2
    assert ran.err.count("\n") == 1
    assert "no tab in it" in ran.err
    listed = await run("score", "--list", "--json")
    assert "dnsmos" in [one["name"] for one in json.loads(listed.out)]


@pytest.mark.embedded
async def test_silence_in_half_of_the_files_is_half_of_the_words_lost(tmp_path: Path) -> None:
    """Ten files that should all say the same: five do, five are silent; then texts are missing, or fit nothing."""
    script = load_script("small-talk")
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(10):
        silent = np.zeros(48_000, dtype=np.int16)
        soundfile.write(folder / f"{number}.wav", script.turns[0].clip.pcm if number < 5 else silent, 24_000)
    rows = [json.dumps({"id": str(number), "text": script.turns[0].text}) for number in range(10)]
    text = tmp_path / "t.jsonl"
    out = tmp_path / "out"
    arguments = ("score", "--audio", str(folder), "--text", str(text), "--language", "en", "--metrics", "asr_wer")

    text.write_text("\n".join(rows))
    ran = await run(*arguments, "--out", str(out), "--json")
    assert ran.code == 0, ran.err
    scores = msgspec.json.decode(ran.out, type=Scores)
    assert scores.coverage == ["text for 10 of 10 samples"]
    corpus = scores.metrics["asr_wer"].aggregates[0]
    assert (corpus.title, corpus.used, corpus.skipped) == ("corpus WER", 10, 0)
    assert corpus.value == pytest.approx(0.5)

    text.write_text("\n".join(rows[:5]))
    ran = await run(*arguments, "--out", str(out), "--json")
    scores = msgspec.json.decode(ran.out, type=Scores)
    assert scores.coverage == ["text for 5 of 10 samples"]
    corpus = scores.metrics["asr_wer"].aggregates[0]
    assert (corpus.value, corpus.used, corpus.skipped) == (0.0, 5, 5)

    text.write_text('{"id": "eleven", "text": "hello"}')
    ran = await run(*arguments, "--out", str(tmp_path / "other"))
    assert ran.code == 2
    assert "its first id is 'eleven', the first file '0.wav'" in ran.err
    assert not (tmp_path / "other").exists()
