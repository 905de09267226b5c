"""Parts of the scoring engine: the store of lines, batches, the spool, and reading of files."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

from harness.score.engine import ScoreStore
from harness.score.engine.audio_index import AudioIndex
from harness.score.engine.bucket import Bucket, Waiting
from harness.score.engine.environment import link_ours
from harness.score.engine.mapped import Sounds
from harness.score.engine.messages import Item
from harness.score.engine.sound import read_sound
from harness.score.engine.spool import Spool, Stored, open_spool
from harness.score.engine.store import new_index
from metrics.result import Failed, Measured, Value
from metrics.scoring import Sample, Score, ScoreLine
from sessions.audio import read, resample
from sessions.clock import NS_PER_S
from sessions.errors import BadFile, SetupError
from sessions.runs import take_lock
from tests.scoring.engine_metrics import LOG
from tests.scoring.engine_rig import score, sound


class Clock:
    """Stands still until it is moved."""

    ns = 0

    def now_ns(self) -> int:
        return self.ns

    async def sleep_until_ns(self, due_ns: int) -> None:
        self.ns = max(self.ns, due_ns)


def line(sample: str, key: str, value: float = 1.0, figure: Measured | None = None) -> ScoreLine:
    return ScoreLine(key, sample, "m", "1", Score({"m": figure or Value(value)}))


def written(folder: Path, *lines: ScoreLine) -> None:
    store = ScoreStore(folder)
    with store.writing():
        for each in lines:
            store.add("m", each)


# ---- the store ----------------------------------------------------------------------------------------------------


def test_of_each_sample_the_last_line_counts(tmp_path: Path) -> None:
    written(tmp_path, line("a", "k1", 1), line("b", "k2", 2), line("a", "k3", 3))
    store = ScoreStore(tmp_path)
    assert [(each.sample, each.key) for each in store.lines("m")] == [("b", "k2"), ("a", "k3")]
    assert store.known("m", "k1"), "it is not what counts, but need not be made again"
    assert store.is_last("m", "a", "k3") and not store.is_last("m", "a", "k1")
    assert not store.known("m", "k4") and not list(store.lines("other"))


def test_an_error_is_a_line_but_not_known(tmp_path: Path) -> None:
    written(tmp_path, line("a", "k1", figure=Failed("it broke")))
    store = ScoreStore(tmp_path)
    assert [each.sample for each in store.lines("m")] == ["a"]
    assert not store.known("m", "k1") and store.line("m", "k1") is None


def test_lines_are_found_before_they_are_on_disk(tmp_path: Path) -> None:
    store = ScoreStore(tmp_path, Clock())
    with store.writing():
        for k in range(3):
            store.add("m", line(f"s{k}", f"k{k}", k))
        assert not store.path("m").exists()
        found = store.line("m", "k1")
        assert found is not None and found.sample == "s1"
        assert len(list(store.lines("m"))) == 3


def test_lines_wait_a_second_or_for_63_others(tmp_path: Path) -> None:
    clock = Clock()
    store = ScoreStore(tmp_path, clock)
    with store.writing():
        store.add("m", line("s", "k"))
        clock.ns += NS_PER_S
        store.tick()
        assert store.path("m").read_bytes().count(b"\n") == 1
        for k in range(64):
            store.add("m", line(f"s{k}", f"k{k}"))
        assert store.path("m").read_bytes().count(b"\n") == 65


def test_a_line_that_was_cut_is_left_out_and_never_joined(tmp_path: Path) -> None:
    written(tmp_path, line("a", "k1"), line("b", "k2"))
    path = tmp_path / "m.jsonl"
    path.write_bytes(path.read_bytes()[:-10])
    assert [each.sample for each in ScoreStore(tmp_path).lines("m")] == ["a"]
    written(tmp_path, line("c", "k3"))
    assert [each.sample for each in ScoreStore(tmp_path).lines("m")] == ["a", "c"]


def test_a_file_that_another_process_begins_anew_ends_there(tmp_path: Path) -> None:
    written(tmp_path, *(line(f"s{k}", f"k{k}") for k in range(3)))
    store = ScoreStore(tmp_path)
    assert store.known("m", "k0")
    store.path("m").write_bytes(store.path("m").read_bytes()[:-10])
    assert [each.sample for each in store.lines("m")] == ["s0", "s1"]
    store.path("m").write_bytes(b"")
    assert not list(store.lines("m"))


def test_the_line_of_each_sample_that_is_asked_for(tmp_path: Path) -> None:
    written(tmp_path, line("a", "k1", 1), line("b", "k2", 2), line("a", "k3", 3))
    with ScoreStore(tmp_path).reading("m") as last:
        found = [last(name) for name in ("a", "c", "b", "a")]
    assert [each and each.key for each in found] == ["k3", None, "k2", "k3"]
    assert ScoreStore(tmp_path).last("other", "a") is None


def test_a_line_that_is_none_is_named(tmp_path: Path) -> None:
    (tmp_path / "m.jsonl").write_text('{"key": 1}\n')
    with pytest.raises(BadFile, match=r"m\.jsonl:1: "):
        list(ScoreStore(tmp_path).lines("m"))


def test_a_line_of_another_version_is_refused(tmp_path: Path) -> None:
    written(tmp_path, line("a", "k1"))
    path = tmp_path / "m.jsonl"
    path.write_text(path.read_text().replace('"version":1', '"version":9'))
    with pytest.raises(BadFile, match="version 9; this program reads 1"):
        list(ScoreStore(tmp_path).lines("m"))


def test_only_one_process_scores_into_a_folder(tmp_path: Path) -> None:
    with ScoreStore(tmp_path).writing(), pytest.raises(SetupError, match="another process is scoring into"):
        ScoreStore(tmp_path).writing().__enter__()


def test_what_ends_the_scoring_does_not_lose_its_lines(tmp_path: Path) -> None:
    store = ScoreStore(tmp_path, Clock())
    with pytest.raises(KeyboardInterrupt), store.writing():
        store.add("m", line("a", "k1"))
        raise KeyboardInterrupt
    assert [each.sample for each in ScoreStore(tmp_path).lines("m")] == ["a"]


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SetupError, match="cannot write"), ScoreStore(tmp_path / "file" / "scores").writing():
        pass


def test_the_index_of_sounds_forgets_files_that_changed(tmp_path: Path) -> None:
    path = sound(tmp_path / "a.wav", 0.5)
    store = ScoreStore(tmp_path / "scores")
    with store.writing():
        AudioIndex(store).add(str(path), path.stat(), "abc", 16_000, 3200)
    kept = tmp_path / "scores" / "audio.jsonl"
    kept.write_text(kept.read_text() + '{"cut')
    with store.writing():
        index = AudioIndex(store)
        known = index.find(str(path))
        assert known is not None and (known.sha256, known.seconds) == ("abc", 0.2)
        sound(path, 0.5, seconds=0.3)
        assert index.find(str(path)) is None
        path.unlink()
        assert index.find(str(path)) is None


def test_a_full_disk_under_an_index_is_one_line() -> None:
    index = new_index()
    index.execute("CREATE TABLE some (name BLOB)")
    index.execute("PRAGMA max_page_count = 5")
    with pytest.raises(SetupError, match=r"database or disk is full\. Free some space there"):
        for _ in range(100):
            index.execute("INSERT INTO some VALUES (?)", (bytes(1000),))


def test_a_lock_that_cannot_be_had_is_not_another_process(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.touch()
    with (
        os.fdopen(os.open(path, os.O_PATH), "rb", buffering=0) as no_file,
        pytest.raises(SetupError, match=f"cannot lock {path}: Bad file descriptor"),
    ):
        take_lock(no_file, path, "another process has it")


def test_the_index_of_sounds_is_read_again_while_it_is_written(tmp_path: Path) -> None:
    path = sound(tmp_path / "a.wav", 0.5)
    store = ScoreStore(tmp_path / "scores", Clock())
    with store.writing():
        AudioIndex(store).add(str(path), path.stat(), "abc", 16_000, 3200)
        again = AudioIndex(store)
        known = again.find(str(path))
        assert known is not None and known.sha256 == "abc"
        again.add("b.wav", path.stat(), "def", 16_000, 3200)
    assert (tmp_path / "scores" / "audio.jsonl").read_text().count("\n") == 2


# ---- batches ------------------------------------------------------------------------------------------------------


def waiting(name: str, samples: int) -> Waiting:
    return Waiting(name, Sample(name, name), Stored(Path(name), samples, 16_000))


def batches(bucket: Bucket, *items: Waiting) -> list[list[str]]:
    async def take() -> list[list[str]]:
        for item in items:
            bucket.put(item)
        bucket.close()
        found = []
        while batch := await bucket.take():
            found.append([item.key for item in batch])
        return found

    return asyncio.run(take())


def test_who_waited_longest_is_next_and_brings_its_likes() -> None:
    items = [waiting(f"{k}", samples) for k, samples in enumerate([16_000, 80_000, 17_000, 81_000, 15_000, 30_000])]
    assert batches(Bucket(3, pads=True, padded_s=100), *items) == [["0", "2", "4"], ["1", "3"], ["5"]]


def test_a_batch_that_is_not_padded_takes_what_comes() -> None:
    items = [waiting(f"{k}", samples) for k, samples in enumerate([16_000, 80_000, 17_000])]
    assert batches(Bucket(2, pads=False, padded_s=100), *items) == [["0", "1"], ["2"]]


def test_a_batch_holds_so_many_seconds_only() -> None:
    items = [waiting(f"{k}", 160_000) for k in range(5)]
    assert batches(Bucket(8, pads=True, padded_s=25), *items) == [["0", "1"], ["2", "3"], ["4"]]
    assert batches(Bucket(8, pads=True, padded_s=5), *items[:2]) == [["0"], ["1"]]


# ---- the spool ----------------------------------------------------------------------------------------------------


def test_the_spool_is_bounded_and_first_come_first_served(tmp_path: Path) -> None:
    async def fill() -> list[str]:
        spool = Spool(tmp_path, tmp_path, limit_bytes=100)
        order: list[str] = []

        async def reserve(name: str, size: int) -> None:
            await spool.reserve(size)
            order.append(name)

        await reserve("large", 1000)  # nothing else is there
        tasks = [asyncio.create_task(reserve(name, size)) for name, size in (("a", 60), ("b", 60), ("c", 10))]
        await asyncio.sleep(0)
        assert order == ["large"]
        spool.settle(1000, 0)
        await asyncio.sleep(0)
        assert order == ["large", "a"], "c does not pass b"
        spool.settle(60, 0)
        await asyncio.gather(*tasks)
        assert spool.used_bytes == 70
        return order

    assert asyncio.run(fill()) == ["large", "a", "b", "c"]


def test_a_sound_is_removed_when_all_have_heard_it(tmp_path: Path) -> None:
    spool = Spool(tmp_path, tmp_path, limit_bytes=100)
    place = tmp_path / "sound"
    place.write_bytes(bytes(40))
    stored = Stored(place, 10, 16_000, users=2)
    spool.settle(0, stored.size_bytes)
    spool.release(stored)
    assert place.exists() and spool.used_bytes == 40
    spool.release(stored)
    assert not place.exists() and spool.used_bytes == 0


def test_what_a_killed_engine_left_is_removed_and_what_another_uses_is_not(tmp_path: Path) -> None:
    code = "import os, sys; from harness.score.engine.spool import open_spool\n"
    code += "with open_spool(sys.argv[1], 1): os.kill(os.getpid(), 9)"
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], cwd=Path(__file__).parents[2], check=False)
    (left,) = [path for path in tmp_path.iterdir() if path.is_dir()]
    with open_spool(str(tmp_path), 1) as first, open_spool(str(tmp_path), 1) as second:
        assert not left.exists() and first.folder.exists() and second.folder.exists()
    assert not [path for path in tmp_path.iterdir() if path.is_dir()]


def test_where_nothing_temporary_can_be_written_it_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SetupError, match="by the variable TMPDIR"), open_spool(str(tmp_path / "file"), 1):
        pass
    with pytest.raises(SetupError, match="by the variable TMPDIR"):
        link_ours(tmp_path / "file")


def test_room_is_made_for_what_the_header_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A minute of silence is packed into next to nothing."""
    monkeypatch.setenv(LOG, str(tmp_path / "log"))
    soundfile.write(tmp_path / "a.flac", np.zeros(60 * 48_000, np.int16), 48_000)
    (tmp_path / "b.wav").write_text("this is no audio")
    asked: list[int] = []

    def place(self: Spool, size_bytes: int) -> Path:
        asked.append(size_bytes)
        return self.folder / f"{len(asked)}"

    monkeypatch.setattr(Spool, "place", place)
    samples = [Sample(name, str(tmp_path / name)) for name in ("a.flac", "b.wav")]
    score(samples, ["loudest", "own_rate"], tmp_path / "scores")
    assert asked == [60 * 4 * (16_000 + 48_000), int(16 * 2.5 * 2)]


# ---- reading ------------------------------------------------------------------------------------------------------


def raw(path: Path) -> np.ndarray[tuple[int], np.dtype[np.float32]]:
    return np.fromfile(path, np.float32)


@pytest.mark.parametrize(("samples", "rate_hz"), [(1, 24_000), (2400, 24_000), (48_000, 44_100), (2_500_001, 48_000)])
def test_read_in_blocks_a_sound_is_what_it_is_read_at_once(tmp_path: Path, samples: int, rate_hz: int) -> None:
    wave = (0.1 * np.random.default_rng(1).standard_normal(samples)).astype(np.float32)
    soundfile.write(tmp_path / "a.wav", wave, rate_hz, subtype="FLOAT")
    heard = read_sound(tmp_path / "a.wav", {0: tmp_path / "own", 16_000: tmp_path / "16"})
    assert (heard.rate_hz, heard.samples) == (rate_hz, samples)
    assert np.array_equal(raw(tmp_path / "own"), wave)
    wanted = resample(wave, rate_hz, 16_000)
    assert heard.lengths == {0: samples, 16_000: len(wanted)}
    assert np.allclose(raw(tmp_path / "16"), wanted, atol=1e-6)


def test_channels_are_mixed_as_everywhere_else(tmp_path: Path) -> None:
    left = (0.1 * np.random.default_rng(1).standard_normal(1_200_000)).astype(np.float32)
    for name, right in {"mixed": left[::-1], "opposite": -left}.items():
        path = tmp_path / f"{name}.wav"
        soundfile.write(path, np.stack([left, right], axis=1), 16_000, subtype="FLOAT")
        heard = read_sound(path, {0: tmp_path / name})
        source = read(path)
        assert np.array_equal(raw(tmp_path / name), source.samples)
        assert bool(heard.note) == (name == "opposite")


def test_that_a_channel_was_taken_is_told_with_its_scores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LOG, str(tmp_path / "log"))
    left = (0.1 * np.random.default_rng(1).standard_normal(16_000)).astype(np.float32)
    for name, right in {"mixed": left[::-1], "opposite": -left}.items():
        soundfile.write(tmp_path / f"{name}.wav", np.stack([left, right], axis=1), 16_000, subtype="FLOAT")
    samples = [Sample(name, str(tmp_path / f"{name}.wav")) for name in ("mixed", "opposite")]
    memory = score(samples, ["loudest"], tmp_path / "scores")
    told = "opposite phase: channel 0 of 2 taken"
    assert {line.sample: line.score.flags for line in memory.lines["loudest"]} == {"mixed": [], "opposite": [told]}


def test_a_sound_has_one_name_whatever_file_holds_it(tmp_path: Path) -> None:
    wave = (np.random.default_rng(1).integers(-2000, 2000, 5000) / 32768).astype(np.float32)
    for name in ("a.wav", "a.flac"):
        soundfile.write(tmp_path / name, wave, 16_000, subtype="PCM_16")
    soundfile.write(tmp_path / "b.wav", wave, 8_000, subtype="PCM_16")
    first, same, other = (read_sound(tmp_path / name, {}).sha256 for name in ("a.wav", "a.flac", "b.wav"))
    assert first == same != other


def _resident_bytes(place: Path) -> int:
    """Of a file, as this process has it mapped."""
    of_file = Path("/proc/self/smaps").read_text().partition(str(place))[2]
    return 1024 * int(of_file.partition("Rss:")[2].split()[0])


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="memory by mapping is told on Linux")
def test_what_was_heard_of_a_long_sound_is_let_go_and_comes_back(tmp_path: Path) -> None:
    samples = np.random.default_rng(1).standard_normal(4 << 20, np.float32)
    place = tmp_path / "long"
    samples.tofile(place)
    sounds = Sounds()
    heard = sounds.array(Item(Sample("a", "a.wav"), str(place), len(samples), 16_000))
    total = float(heard.sum())
    assert _resident_bytes(place) > 3 * len(samples)
    with sounds:
        while _resident_bytes(place) > len(samples):
            pass
        assert float(heard.sum()) == total
    assert np.array_equal(heard, samples)


def test_no_sound_may_be_written_into_for_others_hear_it_too(tmp_path: Path) -> None:
    np.zeros(5 << 20, np.float32).tofile(tmp_path / "zeros")
    for samples in (10, 5 << 20):
        heard = Sounds().array(Item(Sample("a", "a.wav"), str(tmp_path / "zeros"), samples, 16_000))
        assert len(heard) == samples
        with pytest.raises(ValueError, match="read-only"):
            heard[0] = 1
